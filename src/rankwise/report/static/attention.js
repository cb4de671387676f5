// Attention ranks while training, of runs that were probed: do heads move away from random attention, and where to?
const MEASURES = {
  hardmax: "Hardmax rank", effective: "Effective rank", stable: "Stable rank", "above_0.1": "Singular values above 0.1 of the largest",
  "above_0.01": "Singular values above 0.01 of the largest", "above_0.001": "Singular values above 0.001 of the largest",
  entropy: "Entropy of a row, nats", largest: "Largest weight of a row",
};
const UNITS = { entropy: "nats", largest: "weight" };

function initAttention(data) {
  const host = byId("attention-body");
  if (!host || !data) return;
  const groups = runGroups(data, (run) => run.attention);
  if (!groups.length) {
    host.append(h("p", { class: "note" }, "The probed runs of this store have no error yet."));
    return;
  }
  const controls = h("div", { class: "controls" }), legend = h("ul", { class: "legend" }), panel = h("div", { class: "panel wide" });
  const notes = h("p", { class: "note" }), under = h("div", {});
  host.append(controls, legend, panel, notes, under);
  const field = (id, label) => {
    const select = h("select", { id });
    controls.append(h("p", { class: "field" }, h("label", { for: id }, label), select));
    return select;
  };
  const which = field("attention-group", "Runs of"), measure = field("attention-measure", "Measure"), layer = field("attention-layer", "Layer");
  which.append(...groups.map((group, at) => h("option", { value: at }, group.label)));
  const chart = lineChart(panel);
  const group = () => groups[Number(which.value)];
  const probed = (cell) => cell.runs.map((index) => data.runs[index]).filter((run) => run.attention);
  const refresh = underChart(under, () => `Attention ranks ${group().label}`, () => [chart], () => ({
    columns: ["run id", "rank", "heads", "seed", "step", "layer", ...Object.keys(group().cells.map(probed).flat()[0].attention.ranks).flatMap((name) => [name, `${name} least head`, `${name} most head`])],
    rows: group().cells.flatMap((cell) => probed(cell).flatMap((run) => run.attention.steps.flatMap((step, at) =>
      Object.values(run.attention.ranks)[0][at].map((_, layer) =>
        [run.id, cell.rank, cell.heads, specOf(data, run).seed, step, layer + 1, ...Object.values(run.attention.ranks).flatMap((table) => table[at][layer])])))),
  }));

  // Means over the layers asked for, and the extreme heads among them; null where the run was not probed at this step.
  function at(run, name, step) {
    const layers = run.attention.ranks[name]?.[run.attention.steps.indexOf(step)];
    if (!layers) return null;
    const own = layer.value === "all" ? layers : layers.slice(Number(layer.value), Number(layer.value) + 1);
    return { mean: average(own.map((one) => one[0])), least: Math.min(...own.map((one) => one[1])), most: Math.max(...own.map((one) => one[2])) };
  }

  function chooseGroup() {
    const runs = group().cells.flatMap(probed), depth = Math.max(...runs.map((run) => Object.values(run.attention.ranks)[0][0].length));
    const names = distinct(runs.flatMap((run) => Object.keys(run.attention.ranks))), before = measure.value;
    measure.replaceChildren(...names.map((name) => h("option", { value: name }, MEASURES[name] ?? name)));
    if (names.includes(before)) measure.value = before;
    layer.replaceChildren(h("option", { value: "all" }, "all"), ...Array.from({ length: depth }, (_, index) => h("option", { value: index }, String(index + 1))));
    draw();
  }

  function draw() {
    const name = measure.value, cells = group().cells, ranks = distinct(cells.map((cell) => cell.rank)).sort(ascending);
    // Seeds that stop early have an end of their own, and no part in later steps.
    const stepsOf = (cell) => distinct(probed(cell).flatMap((run) => run.attention.steps)).sort(ascending);
    const random = name === "hardmax" ? distinct(cells.flatMap(probed).map((run) => randomRank(specOf(data, run), run.attention.tokens)).filter((value) => value !== null)) : [];
    chart({
      title: `${MEASURES[name] ?? name}, mean over ${layer.value === "all" ? "all heads" : `the heads of layer ${Number(layer.value) + 1}`}`,
      describe: `${MEASURES[name] ?? name} of attention matrices by training step, ${plural(cells.length, "line")}. The table below has the numbers.`,
      height: 340, x: { label: "step", log: false }, y: { label: UNITS[name] ?? `rank, of ${distinct(cells.flatMap(probed).map((run) => shown(run.attention.tokens))).join(" or ")} tokens`, log: false, zero: true },
      levels: random.map((y) => ({ name: `random attention: ${shown(y)}`, y })),
      series: cells.map((cell) => ({
        name: `rank ${shown(cell.rank)}`, marker: ranks.indexOf(cell.rank) % 6, tone: toneOfRank(ranks, cell.rank),
        points: stepsOf(cell).map((x) => {
          const found = probed(cell).map((run) => at(run, name, x)).filter((one) => one !== null);
          return {
            x, y: average(found.map((one) => one.mean)), open: () => openProvenance(data, cell.runs, cellName(cell)),
            tip: () => [cellName(cell), ["step", shown(x)], ["mean", shown(average(found.map((one) => one.mean)))],
              ["least head", shown(Math.min(...found.map((one) => one.least)))], ["most head", shown(Math.max(...found.map((one) => one.most)))],
              ["tokens", shown(probed(cell)[0].attention.tokens)], ["seeds", shown(found.length)]],
          };
        }),
      })),
    });
    drawLegend(legend, chart.legend());
    notes.textContent = random.length ? "Dotted: the mean hardmax rank of random attention under this mask, at most (theory, for independent uniform rows); trained heads may lie above it. " : "";
    if (cells.some((cell) => distinct(probed(cell).map((run) => run.attention.steps.join())).length > 1)) notes.textContent += "Seeds that stopped early are part of the means up to their last step. ";
    notes.textContent += "Here are the mean, least and most head of every layer; rankwise results --json has every head.";
    refresh();
  }
  which.addEventListener("change", chooseGroup);
  for (const select of [measure, layer]) select.addEventListener("change", draw);
  chooseGroup();
}

const average = (values) => values.reduce((sum, value) => sum + value, 0) / values.length;

// Masks of which the theory speaks: none, causal, causal with a window.
function randomRank(spec, tokens) {
  const causal = spec["model.causal"] ?? false, window = spec["model.window"] ?? null;
  if (window !== null) return causal ? hardmaxRankMean(tokens, "window", window) : null;
  return hardmaxRankMean(tokens, causal ? "causal" : "full");
}
