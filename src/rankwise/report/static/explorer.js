// The explorer, filled with the shape of the audited model where there is one: choose a shape, see what it cannot do, where random heads stop growing, and what it costs.
const NICE = [];
for (let power = 0; power <= 20; power++) NICE.push(2 ** power, ...(power && power < 20 ? [3 * 2 ** (power - 1)] : []));
NICE.sort(ascending);
const STEPS_OF_ERROR = 0.05;

function initExplorer(model) {
  const host = byId("explorer-body");
  if (!host) return;
  const form = h("form", { class: "sliders", "aria-label": "Shape of the attention layer" });
  form.addEventListener("submit", (event) => event.preventDefault());
  const dim = slider(form, "dim", "Dimension d", model?.dim ?? 64, () => NICE.filter((n) => n >= 2 && n <= 16384), 2, () => 16384);
  const rank = slider(form, "rank", "Rank of a head r", model?.rank ?? 8, () => distinct([...NICE.filter((n) => n < dim()), dim()]), 1, () => dim());
  const heads = slider(form, "heads", "Heads H", model?.heads ?? 8, () => NICE.filter((n) => n <= 65536), 1, () => 65536);
  const kvHeads = slider(form, "kv-heads", "Key/value heads G", model?.kv_heads ?? 8, () => divisors(heads()), 1, () => heads());
  const length = slider(form, "length", "Length n (tokens)", model?.length ?? 4096, () => NICE.filter((n) => n >= 2), 2, () => 2 ** 20);
  const mask = selector(form, "mask", "Mask", ["full", "causal", "window"], model?.mask ?? "causal");
  const window_ = slider(form, "window", "Window (tokens)", model?.window ?? 1024, () => distinct([...NICE.filter((n) => n < length()), length()]), 1, () => length());
  const layers = slider(form, "layers", "Layers", model?.layers ?? 32, () => [1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64, 80, 96, 128], 1, () => 1024);
  const answers = h("div", { class: "answers", "aria-live": "polite" });
  const legend = h("ul", { class: "legend" }), panel = h("div", { class: "panel wide" }), under = h("div", {});
  host.append(form, h("div", { class: "explored" }, answers, legend, panel, under));
  const chart = lineChart(panel);
  let lines = [];
  const refresh = underChart(under, "Lower bound against heads", () => [chart], () => ({
    columns: ["rank", "heads", "error is at least"],
    rows: lines.flatMap((line) => line.points.map((point) => [line.rank, point.x, point.y])),
  }));

  function state() {
    return { dim: dim(), rank: rank(), heads: heads(), kvHeads: kvHeads(), length: length(), mask: mask(), window: window_(), layers: layers() };
  }

  function draw() {
    for (const control of [rank, kvHeads, window_]) control.settle();
    const shape = state();
    window_.show(shape.mask === "window");
    answers.replaceChildren(...explain(shape).map(({ id, value, label, detail }) =>
      h("div", { class: "answer" }, h("output", { id: `answer-${id}` }, value), h("p", {}, label), h("small", {}, detail))));
    const most = Math.max(shape.heads, 4 * shape.dim);
    const steps = Array.from({ length: 49 }, (_, step) => most ** (step / 48));
    const ranks = distinct([shape.rank, Math.max(1, Math.floor(shape.dim / 2)), shape.dim - 1].filter((r) => r < shape.dim)).sort(ascending);
    lines = ranks.map((r, at) => ({
      rank: r, name: `rank ${shown(r)}${r === shape.rank ? " (chosen)" : ""}`, tone: `s${at}`, marker: null, dash: r === shape.rank ? "" : "5 4",
      points: steps.map((count) => {
        const y = errorLowerBound(shape.dim, r, count);
        return { x: count, y, tip: () => [`Rank ${shown(r)}`, ["heads", shown(count)], ["error is at least", shown(y, 4)]] };
      }),
    }));
    const here = errorLowerBound(shape.dim, shape.rank, shape.heads);
    chart({
      title: `What heads cannot do, d = ${shown(shape.dim)}`,
      describe: `Lower bound on the error against the number of heads for ranks ${ranks.join(", ")}. The table below has the numbers.`,
      x: { label: "number of heads", log: true }, y: { label: "error is at least", log: false, range: [0, 0.53] },
      levels: [{ name: "mean of the two points", y: 0.5 }],
      series: [...lines, { name: "your choice", tone: "ink", marker: 3, points: [{ x: shape.heads, y: here, tip: () => ["Your choice", ["heads", shown(shape.heads)], ["rank", shown(shape.rank)], ["error is at least", shown(here, 4)]] }] }],
    });
    drawLegend(legend, chart.legend());
    refresh();
  }
  for (const control of [dim, rank, heads, kvHeads, length, mask, window_, layers]) control.changed(draw);
  draw();
}

function explain(shape) {
  const { dim, rank, heads, length, mask, window, layers } = shape;
  const bound = errorLowerBound(dim, rank, heads), free = errorLowerBound(dim, rank, heads, true);
  const needed = rank < dim ? headsRequiredLog10(dim, rank, STEPS_OF_ERROR) : 0;
  const barrier = hardmaxRankMean(length, mask, window), plateau = saturationOf(length, mask, window);
  const cached = mask === "window" ? Math.min(window, length) : length;
  const parameters = storedParameters(shape), token = kvBytesPerToken(shape);
  return [
    { id: "bound", value: shown(bound, 4), label: "Error is at least", detail: rank >= dim ? "One head of full rank is exact." : `For value matrices a multiple of the identity; for any ${shown(free, 4)}. Two orthogonal points, one layer; answering with their mean costs 0.5.` },
    { id: "heads", value: rank >= dim ? "1" : needed < 6 ? shown(Math.floor(10 ** needed)) : `10^${needed.toFixed(1)}`, label: rank >= dim ? "head suffices" : `heads of rank ${shown(rank)} still cannot reach error ${STEPS_OF_ERROR}`, detail: rank >= dim ? "" : "For the same value matrices. More are necessary, not sufficient. One head of full rank reaches 0." },
    { id: "barrier", value: shown(barrier, 5), label: "Barrier: distinct columns at most, on average", detail: `${shown(barrier / length)} of ${plural(length, "token")}; random weights, ${mask} mask.` },
    { id: "plateau", value: plateau.value === null ? "–" : `${plateau.exact ? "" : "≈ "}${shown(plateau.value)}`, label: "Plateau: head dimension that reaches 90 % of the barrier", detail: plateau.value === null ? "Not in the table for this window." : `${rank >= plateau.value ? "Rank is at or above it" : "Rank is below it"}. From a precomputed table (quadrature); random weights only.` },
    { id: "parameters", value: amount(parameters), label: "Attention parameters a layer", detail: `(H + G) · 2r · d = ${shown(parameters)}; all layers ${amount(parameters * layers)}.` },
    { id: "kv", value: bytes(token), label: "Key/value cache a token", detail: `2 bytes a number, ${plural(layers, "layer")}; one sequence ${bytes(token * cached)}.` },
  ];
}

// The plateau has no closed form: a table over powers of two, straight lines in logarithms between its entries.
function saturationOf(length, mask, window) {
  const table = pageData("data-saturation");
  const reach = mask === "window" && window < length ? window : null;
  if (reach === null) return length <= 3 ? { value: 1, exact: length <= 2 } : interpolated(table[mask === "full" ? "full" : "causal"], length);
  if (reach <= 2) return { value: 1, exact: true };
  const known = 2 ** Math.min(20, Math.max(2, Math.round(Math.log2(length))));
  const found = interpolated([...table.window[known], table.causal.find(([n]) => n === known)], Math.min(reach, known));
  return { value: found.value, exact: found.exact && known === length };
}

function interpolated(entries, at) {
  const found = entries.find(([n]) => n === at);
  if (found) return { value: found[1], exact: true };
  const after = entries.findIndex(([n]) => n > at);
  if (after <= 0) return { value: null, exact: false };
  const [[n0, v0], [n1, v1]] = [entries[after - 1], entries[after]];
  const share = Math.log(at / n0) / Math.log(n1 / n0);
  return { value: Math.round(v0 * (v1 / v0) ** share), exact: false };
}

const divisors = (n) => Array.from({ length: n }, (_, k) => k + 1).filter((k) => n % k === 0);

// A slider over round numbers with a field for any other; both are native, labelled and in step.
function slider(form, id, label, start, values, least, most) {
  let value = start;
  const range = h("input", { type: "range", id: `x-${id}`, min: 0, step: 1 });
  const exactly = h("input", { type: "number", id: `n-${id}`, min: least, step: 1, "aria-label": `${label}, exact value` });
  const row = h("p", { class: "slider" }, h("label", { for: `x-${id}` }, label), exactly, range);
  form.append(row);
  const listeners = [];
  const nearestIndex = (list) => list.reduce((best, n, at) => (Math.abs(Math.log(n / value)) < Math.abs(Math.log(list[best] / value)) ? at : best), 0);
  const read = () => value;
  read.settle = () => {
    const list = values();
    value = Math.min(Math.max(value, least), most());
    if (id === "kv-heads" && !list.includes(value)) value = list[nearestIndex(list)];
    range.max = list.length - 1;
    range.value = nearestIndex(list);
    range.setAttribute("aria-valuetext", shown(value));
    exactly.max = most();
    if (document.activeElement !== exactly) exactly.value = value;
  };
  read.show = (on) => { row.hidden = !on; };
  read.changed = (listener) => listeners.push(listener);
  const tell = () => { read.settle(); listeners.forEach((listener) => listener()); };
  range.addEventListener("input", () => { value = values()[Number(range.value)]; exactly.value = value; tell(); });
  exactly.addEventListener("input", () => {
    const typed = Math.round(Number(exactly.value));
    if (exactly.value !== "" && typed >= least && typed <= most()) { value = typed; tell(); }
  });
  exactly.addEventListener("blur", () => { exactly.value = value; });
  read.settle();
  return read;
}

function selector(form, id, label, options, start) {
  const select = h("select", { id: `x-${id}` }, options.map((option) => h("option", { value: option, selected: option === start }, option)));
  form.append(h("p", { class: "slider" }, h("label", { for: `x-${id}` }, label), select));
  return Object.assign(() => select.value, { settle: () => {}, changed: (listener) => select.addEventListener("input", listener) });
}
