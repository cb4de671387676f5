// Rank against error: one panel a depth, one line a budget, the trivial predictors and, where it holds, the bound.
function initCurves(data) {
  const host = byId("curves-body");
  if (!host || !data?.settings.length) return;
  const chooser = h("div", { class: "controls" }), body = h("div", {});
  host.append(chooser, body);
  const pick = chips(chooser, {
    legend: "Setting", name: "setting", chosen: String(headlined(data.settings)),
    options: data.settings.map((setting, at) => ({ value: String(at), label: setting.title })), changed: draw,
  });
  function draw() {
    body.replaceChildren();
    settingView(body, data, data.settings[Number(pick())]);
  }
  draw();
}

// What the headline is about: a setting that trains whole models, if there is one.
const headlined = (settings) => Math.max(0, settings.findIndex((setting) => !setting.inTheorem));

// d^2.5 where the budget is a power of the dimension, as in the paper; the product otherwise.
function budgetName(budget, dim) {
  const exponent = Math.log(budget) / Math.log(dim);
  const nice = Math.round(2 * exponent) / 2;
  return dim > 1 && nice > 0 && Math.abs(dim ** nice / budget - 1) < 1e-9 ? `d^${1 + nice} parameters` : `heads × rank = ${shown(budget)}`;
}

function settingView(host, data, setting) {
  const controls = h("div", { class: "controls" }), legend = h("ul", { class: "legend" }), panels = h("div", { class: "panels" });
  const notes = h("p", { class: "note" }), under = h("div", {});
  host.append(controls, legend, panels, notes, under);
  const budgetOf = (cell) => cell.heads * cell.rank;
  const option = (value, label = String(value)) => ({ value: String(value), label });
  const facets = distinct(setting.cells.map((cell) => cell.facet));
  const budgets = distinct(setting.cells.map(budgetOf)).sort(ascending);
  const ranks = distinct(setting.cells.map((cell) => cell.rank)).sort(ascending);
  const protocols = distinct(setting.cells.map((cell) => cell.protocol));
  const variants = distinct(setting.cells.map((cell) => cell.variant));
  const changed = () => draw();
  const axis = chips(controls, { legend: "Across", name: "axis", chosen: setting.inTheorem ? "heads" : "rank", changed, options: [option("rank", "Rank"), option("heads", "Heads")] });
  const height = chips(controls, { legend: "Error", name: "error-scale", chosen: setting.inTheorem ? "linear" : "log", changed, options: [option("log", "Log"), option("linear", "Linear")] });
  const depth = chips(controls, { legend: setting.inTheorem ? "Kind" : "Depth", name: "depth", multiple: true, changed, options: facets.map((name) => option(name)) });
  const budget = chips(controls, { legend: "Budget", name: "budget", multiple: true, changed, options: budgets.length > 12 ? [option("all")] : budgets.map((value) => option(value, budgetName(value, setting.dim))) });
  const protocol = chips(controls, { legend: "Protocol", name: "protocol", multiple: true, changed, options: protocols.map((name) => option(name)) });
  const variant = chips(controls, { legend: "Variant", name: "variant", multiple: true, changed, options: variants.map((name) => option(name, name || "as it is")) });
  let charts = new Map();

  function chosen() {
    const [d, b, p, v] = [depth(), budget(), protocol(), variant()];
    return setting.cells.filter((cell) =>
      d.includes(cell.facet) && (b.includes("all") || b.includes(String(budgetOf(cell)))) && p.includes(cell.protocol) && v.includes(cell.variant));
  }

  const refresh = underChart(under, () => setting.title, () => [...charts.values()], () => cellTable(chosen(), data));

  function draw() {
    const cells = chosen(), byRank = axis() === "rank", log = height() === "log";
    const lines = byRank ? budgets : ranks;
    const visible = facets.filter((facet) => cells.some((cell) => cell.facet === facet));
    const errors = cells.flatMap((cell) => [cell.error, cell.error + (cell.spread ?? 0)]);
    // A predictor far worse than every run would only press the runs together.
    const drawnLevels = setting.levels.filter((level) => level.error <= 1.6 * Math.max(...errors, 0));
    const yRange = span([...errors, ...drawnLevels.map((level) => level.error)], log, { zero: true });
    if (visible.join() !== [...charts.keys()].join()) {
      panels.replaceChildren();
      charts = new Map(visible.map((facet) => {
        const panel = h("div", { class: "panel" });
        panels.append(panel);
        return [facet, lineChart(panel)];
      }));
    }
    for (const facet of visible) {
      const own = cells.filter((cell) => cell.facet === facet);
      const drawn = [];
      for (const [at, value] of lines.entries()) {
        for (const [turn, name] of protocols.entries()) {
          for (const [kind, label] of variants.entries()) {
            const points = own.filter((cell) => (byRank ? budgetOf(cell) : cell.rank) === value && cell.protocol === name && cell.variant === label);
            if (points.length) drawn.push(seriesOf(points, { at, turn, kind, name, label, value }));
          }
        }
        if (setting.inTheorem && !byRank && own.some((cell) => cell.rank === value)) drawn.push(boundLine(own, value, facet, at));
      }
      charts.get(facet)({
        title: facet,
        describe: `${setting.title}, ${facet}: ${setting.unit} against ${byRank ? "rank" : "heads"}, ${drawn.filter((one) => !one.bound).length} lines. The table below has the numbers.`,
        x: { label: byRank ? "rank of a head" : "number of heads", log: true, ticks: distinct(own.map((cell) => (byRank ? cell.rank : cell.heads))) },
        y: { label: setting.unit, log, range: yRange },
        levels: drawnLevels.map((level) => ({ name: level.name, y: level.error })),
        series: drawn,
      });
    }
    const entries = new Map([...charts.values()].flatMap((chart) => chart.legend()).map((one) => [one.name, one]));
    drawLegend(legend, [...entries.values()].sort((a, b) => Boolean(a.bound) - Boolean(b.bound)));
    notes.textContent = noteOf(cells, byRank);
    refresh();
  }

  const toneOf = (at) => (lines().length > 6 ? `ramp r${Math.round((at * 8) / (lines().length - 1))}` : `s${at}`);
  const lines = () => (axis() === "rank" ? budgets : ranks);

  function seriesOf(points, { at, turn, kind, name, label, value }) {
    const byRank = axis() === "rank";
    const words = [byRank ? budgetName(value, setting.dim) : `rank ${shown(value)}`];
    if (protocols.length > 1) words.push(`${name} protocol`);
    if (label) words.push(label);
    return {
      name: words.join(", "), tone: toneOf(at), marker: (at + kind) % 6, dash: ["", "5 4", "2 3"][turn % 3], hollow: turn > 0,
      line: !(setting.inTheorem && !byRank),
      points: points.sort((a, b) => (byRank ? a.rank - b.rank : a.heads - b.heads)).map((cell) => ({
        x: byRank ? cell.rank : cell.heads, y: cell.error, spread: cell.spread,
        tip: () => tipOf(cell, data), open: () => openProvenance(data, cell.runs, cellName(cell)),
      })),
    };
  }

  // Softmax heads may have any value matrices, generalised ones are trained with multiples of the identity.
  function boundLine(own, rank, facet, at) {
    const most = Math.max(...own.map((cell) => cell.heads), 2);
    const steps = Array.from({ length: 61 }, (_, step) => most ** (step / 60));
    const any = facet.startsWith("softmax");
    return {
      name: "lower bound, in the colour of its rank", tone: toneOf(at), marker: null, dash: "", bound: true,
      points: steps.map((heads) => ({ x: heads, y: errorLowerBound(setting.dim, Math.min(rank, setting.dim), heads, any) })),
    };
  }

  function noteOf(cells, byRank) {
    const words = [];
    if (setting.inTheorem) words.push(byRank ? "Choose Heads to see the lower bound." : "Lines are the error no such layer goes below (our derivation from the paper's proof: two orthogonal points, one bare layer); points are trained heads.");
    else words.push(byRank ? "A line keeps the number of attention parameters and trades heads for rank." : "A line keeps the rank and adds heads.", "No lower bound is drawn: it is about one bare layer and two orthogonal points, not about this setting.");
    const seeds = Math.max(0, ...cells.map((cell) => cell.runs.length));
    words.push(seeds > 1 ? "Bars are standard errors between seeds." : "One seed a point: bars are standard errors of its validation, and say nothing about other seeds.");
    if (setting.levels.length) words.push("Dotted: what predictors without attention reach.");
    return words.join(" ");
  }
  draw();
}

const cellName = (cell) => `Rank ${shown(cell.rank)}, ${plural(cell.heads, "head")}, ${cell.facet}`;

function tipOf(cell, data) {
  const runs = cell.runs.map((index) => data.runs[index]);
  const total = runs.reduce((sum, run) => sum + run.seconds, 0);
  const lines = [
    ["error", withSpread(cell.error, cell.spread)],
    ["seeds", shown(cell.runs.length)],
    ["parameters", shown(cell.parameters)],
    ["steps", shown(runs[0].result.steps)],
    ["training time", duration(total)],
    ["protocol", cell.protocol],
  ];
  if (cell.bound !== null) lines.splice(1, 0, ["lower bound", shown(cell.bound)]);
  if (cell.variant) lines.push(["variant", cell.variant]);
  return [cellName(cell), ...lines];
}

function cellTable(cells, data) {
  return {
    columns: ["facet", "protocol", "variant", "layers", "heads", "rank", "error", "standard error", "seeds", "lower bound", "parameters", "seconds", "run ids"],
    rows: cells.map((cell) => [
      cell.facet, cell.protocol, cell.variant, cell.layers, cell.heads, cell.rank, cell.error, cell.spread, cell.runs.length, cell.bound, cell.parameters,
      cell.runs.reduce((sum, index) => sum + data.runs[index].seconds, 0), cell.runs.map((index) => data.runs[index].id).join(" "),
    ]),
  };
}
