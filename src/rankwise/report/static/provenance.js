// Where a number comes from: run id, spec, seed, versions, machine. One click from every point and every row.
const specOf = (data, run) => ({ ...data.common, ...run.spec });

function openProvenance(data, indexes, heading) {
  const dialog = byId("provenance");
  dialog.querySelector("h2").textContent = heading;
  dialog.querySelector(".runs").replaceChildren(...indexes.map((index, at) => provenanceOf(data, data.runs[index], at === 0)));
  dialog.showModal();
  dialog.querySelector(".runs").scrollTop = 0;
  for (const host of dialog.querySelectorAll("[data-curve]")) drawOwnCurve(host, data.runs[Number(host.dataset.curve)]);
}

function provenanceOf(data, run, open) {
  const spec = specOf(data, run);
  const facts = [
    ["run id", run.id], ["status", run.status], ["seed", spec.seed], ["error", run.result.error === undefined ? null : fullError(run.result)],
    ["parameters", run.result.parameters], ["steps", run.result.steps], ["training examples", run.result.sequences],
    ["time", `${duration(run.seconds)} in ${plural(run.attempts, "attempt")}`], ["finished", instant(run.finished)],
    ["checkpoint", run.checkpoint], ["SHA-256", run.sha256], ["reason", run.reason],
  ].filter(([, value]) => value !== null && value !== undefined);
  const table = (pairs) => h("dl", { class: "facts" }, pairs.map(([name, value]) => h("div", {}, h("dt", {}, name), h("dd", {}, typeof value === "number" ? exact(value) : shown(value)))));
  const index = data.runs.indexOf(run);
  return h("details", { open, class: "run" },
    h("summary", {}, h("code", {}, run.id), ` seed ${shown(spec.seed)}`, run.result.error === undefined ? ` ${run.status}` : `, error ${shown(run.result.error, 4)}`),
    table(facts),
    run.curve ? h("div", { "data-curve": index }) : null,
    run.traceback ? h("details", {}, h("summary", {}, "Traceback"), h("pre", {}, run.traceback)) : null,
    h("h3", {}, "Spec"), table(Object.entries(spec).sort(([a], [b]) => compare(a, b)).map(([key, value]) => [key, typeof value === "object" && value !== null ? JSON.stringify(value) : value])),
    h("h3", {}, "Software"), run.versions === null ? h("p", {}, "not recorded") : table(Object.entries(data.versions[run.versions])),
    h("h3", {}, "Machine"), run.machine === null ? h("p", {}, "not recorded") : table(Object.entries(data.machines[run.machine])),
  );
}

const exact = (value) => (Number.isInteger(value) ? value.toLocaleString("en") : String(value));
const fullError = (result) => (result.error_se === undefined ? exact(result.error) : `${exact(result.error)} ± ${exact(result.error_se)}`);

function drawOwnCurve(host, run) {
  const line = (name, key, tone) => ({
    name, tone, marker: null, dash: key === "train" ? "4 3" : "",
    points: run.curve.steps.map((x, at) => ({ x, y: run.curve[key][at], tip: () => [name, ["step", shown(x)], [key === "train" ? "loss" : "error", shown(run.curve[key][at], 4)]] })),
  });
  lineChart(host)({
    title: "Training loss (dashed) and validation error", describe: `Training loss and validation error of run ${run.id} by step`, height: 220,
    x: { label: run.thinned ? "step (epochs thinned)" : "step", log: false }, y: { label: "loss, error", log: true },
    series: [line("training", "train", "s1"), line("validation", "validation", "s0")],
  });
}

function initProvenance() {
  const dialog = byId("provenance");
  dialog.querySelector(".close").addEventListener("click", () => dialog.close());
  dialog.addEventListener("click", (event) => {
    if (event.target === dialog) dialog.close();
  });
}
