// Theme, then each part of the page; a part without data is not there.
const THEMES = ["auto", "light", "dark"];

function initTheme() {
  const button = byId("theme");
  let theme = "auto";
  try {
    theme = localStorage.getItem("rankwise-theme") ?? "auto";
  } catch { /* a page opened from a file may have no storage */ }
  const apply = () => {
    document.documentElement.dataset.theme = theme;
    button.textContent = { auto: "Theme: auto", light: "Theme: light", dark: "Theme: dark" }[theme];
  };
  button.addEventListener("click", () => {
    theme = THEMES[(THEMES.indexOf(theme) + 1) % THEMES.length];
    try {
      localStorage.setItem("rankwise-theme", theme);
    } catch { /* then it holds for this visit */ }
    apply();
  });
  if (!THEMES.includes(theme)) theme = "auto";
  apply();
}

initTheme();
initProvenance();
const storeData = pageData("data-store");
initCurves(storeData);
initTraining(storeData);
initAttention(storeData);
initRuns(storeData);
initAudit(pageData("data-audit"));
initComparison(pageData("data-comparison"));
initNeed(pageData("data-need"));
initChoice(pageData("data-choice"));
initReduce(pageData("data-reduce"));
initWatch(pageData("data-watch"));
initExplorer(pageData("data-shape"));
document.documentElement.dataset.ready = "yes";
