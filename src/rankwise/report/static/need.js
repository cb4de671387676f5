// The need of a user's own vectors, and what cutting a trained model's heads costs.
const FORMS = { best: ["best form found", "s0"], svd: ["query-weighted SVD", "s1"], pca: ["PCA of the keys", "s2"], random: ["random projection", "s3"] };

function card(value, label, detail) {
  return h("div", { class: "answer" }, h("output", {}, value), h("p", {}, label), h("small", {}, detail ?? ""));
}

function initNeed(data) {
  const host = byId("need-body");
  if (!host || !data) return;
  const measured = data.measurements, { target } = data.settings;
  const select = h("select", { id: "need-of" }, measured.map((one, at) => h("option", { value: at }, one.name)));
  const most = measured.reduce((best, one, at) => (one.need > measured[best].need ? at : best), 0);
  select.value = most;
  const cards = h("div", { class: "cards", "aria-live": "polite" }), legend = h("ul", { class: "legend" }), panel = h("div", { class: "panel wide" }), notes = h("p", { class: "note" }), under = h("div", {});
  const controls = h("div", { class: "controls" }, h("p", { class: "field", hidden: measured.length < 2 }, h("label", { for: "need-of" }, "Vectors"), select));
  const height = chips(controls, { legend: "Error", name: "need-scale", chosen: "linear", changed: draw, options: [{ value: "linear", label: "Linear" }, { value: "log", label: "Log" }] });
  host.append(controls, cards, legend, panel, notes, under);
  const chart = lineChart(panel);
  const one = () => measured[Number(select.value)];
  const refresh = underChart(under, () => `Need of ${one().name}`, () => [chart], () => ({
    columns: ["form", "rank", "error", "error low", "error high", "recall"],
    rows: [...Object.entries(one().curves).flatMap(([kind, points]) => points.map((p) => [kind, p.rank, p.error, p.error_low, p.error_high, p.recall])),
      ...one().isotropic.flatMap((p) => [["isotropic data", p.rank, p.error, p.error - p.standard_error, p.error + p.standard_error, null], ["bound, isotropic data", p.rank, p.bound, null, null, null]])],
  }));
  function draw() {
    const of = one(), line = (name, tone, points, more = {}) => ({ name, tone, marker: 0, ...more, points: points.map((p) => ({ ...p, tip: () => [name, ["rank", shown(p.x)], ["error", shown(p.y)], ...(p.recall === undefined ? [] : [["recall", shown(p.recall)]])] })) });
    cards.replaceChildren(
      card(shown(of.need), `rank for error ${shown(target)}`, `95 %: ${shown(of.need_low)} to ${shown(of.need_high)}, of ${plural(of.dim, "dimension")}; nearest of ${shown(of.candidates)} keys`),
      card(shown(of.need_isotropic), "if the data were isotropic", "the worst case of the same dimension"),
      card(shown(of.participation_ratio.keys), "participation ratio of the keys", "summarises the spectrum, bounds nothing"),
      card(shown(of.need_pca), "by PCA alone", `by a random projection ${shown(of.need_random)}`),
    );
    chart({
      title: `Error against rank, ${of.name}`, describe: `Retrieval error against rank for ${of.name}: the need is ${of.need}. The table below has the numbers.`, height: 360,
      x: { label: "rank of the head", log: true, ticks: of.curves.best.map((p) => p.rank) }, y: { label: "error (1 = a random key)", log: height() === "log", zero: true },
      levels: [{ name: `target ${shown(target)}`, y: target }],
      series: [
        ...Object.entries(FORMS).filter(([kind]) => of.curves[kind]).map(([kind, [name, tone]], at) => line(name, tone, of.curves[kind].map((p) => ({ x: p.rank, y: p.error, spread: kind === "best" ? (p.error_high - p.error_low) / 2 : null, recall: p.recall })), { marker: at })),
        line("isotropic data", "ink", of.isotropic.map((p) => ({ x: p.rank, y: p.error })), { dash: "5 4", marker: null }),
        line("lower bound, isotropic data", "ink", of.isotropic.map((p) => ({ x: p.rank, y: p.bound })), { dash: "1 4", marker: null }),
      ],
    });
    drawLegend(legend, chart.legend());
    notes.textContent = of.notes.join(" ");
    refresh();
  }
  select.addEventListener("change", draw);
  draw();
  if (measured.length > 1) {
    host.append(h("h3", {}, "Every block"), sortable({ caption: "Need of each block", rows: measured, columns: [
      { label: "vectors", value: (m) => m.name }, { label: "need", value: (m) => m.need }, { label: "95 %, from", value: (m) => m.need_low }, { label: "to", value: (m) => m.need_high },
      { label: "PCA", value: (m) => m.need_pca }, { label: "random", value: (m) => m.need_random }, { label: "isotropic", value: (m) => m.need_isotropic }, { label: "participation ratio", value: (m) => m.participation_ratio.keys }] }),
      h("p", { class: "note" }, "PCA, random: the need by the principal components of the keys, and by random projections. Isotropic: if all directions were equally likely. Participation ratio: how many directions the covariance has, if all counted the same."));
  }
  ownChoices(host, measured.filter((m) => m.heads.length));
}

// What the model's own heads need, mean over the heads of a block.
function ownChoices(host, measured) {
  if (!measured.length) return;
  const mean = (what) => (m) => m.heads.reduce((sum, head) => sum + head[what], 0) / m.heads.length;
  const tenths = (value) => value.toFixed(1);
  host.append(h("h3", {}, "What its heads' own choices need"), sortable({ caption: "Smallest rank that keeps a head's choice, mean over the heads of a block", rows: measured, columns: [
    { label: "block", value: (m) => m.name }, { label: "rank of a head", value: (m) => m.heads[0].rank },
    { label: "top key", value: mean("top"), show: tenths }, { label: "top 4 keys", value: mean("several"), show: tenths }, { label: "attention row", value: mean("attention"), show: tenths }] }),
    h("p", { class: "note" }, "At that rank at most 10 % of the most attended keys change (top key, top 4 keys), or attention moves by .1 in total variation (attention row). The first key is set apart. None of the three predicts what a cut of the layer costs: rankwise reduce measures that."));
}
