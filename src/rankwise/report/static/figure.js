// What surrounds a chart: the tooltip, its announcement, the table behind it and the downloads beside it.
const EXPORTED = ["fill", "stroke", "stroke-width", "stroke-dasharray", "stroke-linejoin", "paint-order", "opacity", "font-family", "font-size", "font-weight"];

function showTip(x, y, lines, opens) {
  const tip = byId("tip");
  const [title, ...rest] = lines;
  tip.replaceChildren(
    h("strong", {}, title),
    h("dl", {}, rest.map(([name, value]) => h("div", {}, h("dt", {}, name), h("dd", {}, value)))),
    opens ? h("p", {}, `Click ${opens === true ? "for provenance" : "to " + opens}`) : null,
  );
  tip.hidden = false;
  const box = tip.getBoundingClientRect();
  const left = Math.min(Math.max(8, x + 14), innerWidth - box.width - 8);
  const above = y - box.height - 14;
  tip.style.left = `${x + 14 + box.width > innerWidth - 8 && x - box.width - 14 > 8 ? x - box.width - 14 : left}px`;
  tip.style.top = `${above > 8 ? above : Math.min(y + 18, innerHeight - box.height - 8)}px`;
}

function hideTip() {
  byId("tip").hidden = true;
}

function announce(text) {
  byId("live").textContent = text;
}

// The picture as a file of its own: every colour resolved, the legend inside.
function exportSvg(chart) {
  const copy = chart.picture.cloneNode(true);
  const originals = [chart.picture, ...chart.picture.querySelectorAll("*")];
  [copy, ...copy.querySelectorAll("*")].forEach((element, at) => resolve(element, originals[at]));
  copy.querySelector(".focus")?.remove();
  const [, , width, height] = copy.getAttribute("viewBox").split(" ").map(Number);
  const entries = chart.legend();
  const rows = entries.map((one, at) => {
    const row = svg("g", { transform: `translate(${MARGIN.left} ${height + 4 + 18 * at})` }, swatch(one), svg("text", { x: 34, y: 11, class: "key" }, one.name));
    chart.picture.append(row);
    const clone = row.cloneNode(true);
    const from = [row, ...row.querySelectorAll("*")];
    [clone, ...clone.querySelectorAll("*")].forEach((element, index) => resolve(element, from[index]));
    row.remove();
    return clone;
  });
  const whole = height + 18 * entries.length + (entries.length ? 10 : 0);
  copy.setAttribute("viewBox", `0 0 ${width} ${whole}`);
  copy.setAttribute("width", width);
  copy.setAttribute("height", whole);
  copy.setAttribute("xmlns", SVG_NAMESPACE);
  copy.prepend(svg("rect", { width, height: whole, fill: getComputedStyle(document.body).backgroundColor }));
  copy.append(...rows);
  return new XMLSerializer().serializeToString(copy);
}

function titleOf(chart) {
  const title = chart.picture.querySelector(".title");
  return title?.dataset.whole ?? title?.textContent;
}

function resolve(element, original) {
  const style = getComputedStyle(original);
  for (const name of EXPORTED) element.setAttribute(name, style.getPropertyValue(name));
  for (const name of ["class", "tabindex"]) element.removeAttribute(name);
}

// The row under a chart: CSV, SVG and the same numbers as a table. `table()` gives {columns, rows} when asked.
function underChart(host, title, charts, table) {
  const name = typeof title === "function" ? title : () => title;
  const body = h("div", { class: "behind" });
  const details = h("details", {}, h("summary", {}, "Show as a table"), body);
  const refresh = () => {
    if (!details.open) return;
    const { columns, rows } = table();
    body.replaceChildren(sortable({ caption: name(), columns: columns.map((label, at) => ({ label, value: (row) => row[at] })), rows }));
  };
  details.addEventListener("toggle", refresh);
  host.replaceChildren(
    h("div", { class: "tools" },
      h("button", { type: "button", class: "quiet", "data-get": "csv", onclick: () => { const { columns, rows } = table(); download(fileName(name(), "csv"), "text/csv", csv(columns, rows)); } }, "Download CSV"),
      h("button", { type: "button", class: "quiet", "data-get": "svg", onclick: () => charts().forEach((chart) => download(fileName(titleOf(chart) || name(), "svg"), "image/svg+xml", exportSvg(chart))) }, "Download SVG")),
    details,
  );
  return refresh;
}

// A group of native check boxes or radio buttons that look like chips; returns what is chosen.
function chips(host, { legend, name, options, multiple = false, chosen, changed }) {
  const inputs = options.map(({ value, label }) => {
    const input = h("input", { type: multiple ? "checkbox" : "radio", name, value, checked: multiple || value === chosen });
    input.addEventListener("change", () => changed());
    return { input, value, chip: h("label", { class: "chip" }, input, h("span", {}, label)) };
  });
  host.append(h("fieldset", { class: "chips", hidden: options.length < 2 }, h("legend", {}, legend), inputs.map((one) => one.chip)));
  return () => {
    const on = inputs.filter((one) => one.input.checked).map((one) => one.value);
    return multiple ? on : on[0];
  };
}
