// The panels of all settings with those of their cells whose runs have what `has` asks for.
function runGroups(data, has) {
  const first = data.settings[headlined(data.settings)];
  return [first, ...data.settings.filter((setting) => setting !== first)].flatMap((setting) =>
    distinct(setting.cells.map((cell) => cell.facet)).map((facet) => ({
      label: data.settings.length > 1 ? `${setting.title}: ${facet}` : facet, setting,
      cells: setting.cells.filter((cell) => cell.facet === facet && cell.runs.some((index) => has(data.runs[index]))),
    }))).filter((group) => group.cells.length);
}

// The colour of a rank among all ranks of a panel.
function toneOfRank(ranks, rank) {
  return ranks.length > 6 ? `ramp r${Math.round((ranks.indexOf(rank) * 8) / (ranks.length - 1))}` : `s${ranks.indexOf(rank)}`;
}

// Training curves: every run of one panel, coloured by rank, so that a curve that had not settled is seen.
function initTraining(data) {
  const host = byId("training-body");
  if (!host || !data) return;
  const groups = runGroups(data, (run) => run.curve);
  if (!groups.length) {
    host.append(h("p", { class: "note" }, "No run of this store kept a training curve."));
    return;
  }
  const controls = h("div", { class: "controls" }), legend = h("ul", { class: "legend" }), panel = h("div", { class: "panel wide" }), under = h("div", {});
  host.append(controls, legend, panel, under);
  const select = h("select", { id: "training-group" }, groups.map((group, at) => h("option", { value: at }, group.label)));
  select.addEventListener("change", draw);
  controls.append(h("p", { class: "field" }, h("label", { for: "training-group" }, "Runs of"), select));
  const what = chips(controls, { legend: "Curve", name: "training-curve", chosen: "validation", changed: draw, options: [{ value: "validation", label: "Validation" }, { value: "train", label: "Training" }] });
  const height = chips(controls, { legend: "Error", name: "training-scale", chosen: "log", changed: draw, options: [{ value: "log", label: "Log" }, { value: "linear", label: "Linear" }] });
  const chart = lineChart(panel);
  const group = () => groups[Number(select.value)];
  const lines = () => group().cells.flatMap((cell) => cell.runs.filter((index) => data.runs[index].curve).map((index) => ({ cell, index, run: data.runs[index] })));
  const refresh = underChart(under, () => `Training ${group().label}`, () => [chart], () => ({
    columns: ["run id", "rank", "heads", "seed", "step", "training loss", "validation error"],
    rows: lines().flatMap(({ cell, run }) => run.curve.steps.map((step, at) => [run.id, cell.rank, cell.heads, specOf(data, run).seed, step, run.curve.train[at], run.curve.validation[at]])),
  }));

  function draw() {
    const ranks = distinct(group().cells.map((cell) => cell.rank)).sort(ascending), found = lines();
    chart({
      title: `${what() === "train" ? "Mean training loss of an epoch" : "Validation error"}, ${plural(found.length, "run")}`,
      describe: `${what()} curves of ${found.length} runs by step. The table below has the numbers.`,
      height: 360,
      x: { label: found.some(({ run }) => run.thinned) ? "step (long curves are thinned)" : "step", log: false },
      y: { label: what() === "train" ? "training loss" : group().setting.unit, log: height() === "log", zero: true },
      series: found.map(({ cell, index, run }) => ({
        name: `rank ${shown(cell.rank)}`, marker: null, faint: found.length > 24,
        tone: toneOfRank(ranks, cell.rank),
        points: run.curve.steps.map((x, at) => ({
          x, y: run.curve[what()][at], open: () => openProvenance(data, [index], cellName(cell)),
          tip: () => [cellName(cell), ["seed", shown(specOf(data, run).seed)], ["step", shown(x)], ["training loss", shown(run.curve.train[at], 4)], ["validation error", shown(run.curve.validation[at], 4)]],
        })),
      })),
    });
    drawLegend(legend, chart.legend());
    refresh();
  }
  draw();
}
