// An audited model: every head's ranks against its baseline, the spectrum of one, what repeats, what to change.
const WEIGHT_MEASURES = { energy_90: "rank of 90 % of the energy", energy_99: "rank of 99 % of the energy", effective: "effective rank", stable: "stable rank", numerical: "numerical rank" };
const ATTENTION_MEASURES = {
  hardmax_rank: "hardmax rank", effective_rank: "effective rank", stable_rank: "stable rank", energy_90: "rank of 90 % of the energy",
  centred_logits_energy_90: "90 % rank of centred logits", hardmax_rank_without_sink: "hardmax rank without the first token", sink_share: "share that goes to the first token",
  entropy: "entropy of a row", max_probability: "largest probability of a row", fixed_share: "share that is the same in every text",
};

function initAudit(data) {
  const host = byId("audit-body");
  if (!host || !data) return;
  const controls = h("div", { class: "controls" }), key = h("p", { class: "note" }), panel = h("div", { class: "panel wide" }), under = h("div", {});
  const spectrum = h("div", {});
  host.append(controls, key, panel, under, spectrum);
  const forms = data.layers.length ? [{ value: "qk", label: "Scores (QK)" }] : []; // a model of no known layout was only run
  if (data.layers.some((layer) => layer.ov_baseline)) forms.push({ value: "ov", label: "Values (OV)" });
  if (data.attention) forms.push({ value: "attention", label: "Attention on texts" });
  const form = chips(controls, { legend: "Of", name: "audit-form", chosen: forms[0].value, options: forms, changed: () => { offer(); draw(); } });
  const select = h("select", { id: "audit-measure" });
  select.addEventListener("change", draw);
  controls.append(h("p", { class: "field" }, h("label", { for: "audit-measure" }, "Measure"), select));
  const map = heatMap(panel);
  const drawSpectrum = data.layers.length ? spectrumOf(spectrum, data) : () => {};

  function offer() {
    const names = form() === "attention" ? ATTENTION_MEASURES : WEIGHT_MEASURES;
    const known = form() !== "attention" ? Object.keys(names) : Object.keys(names).filter((name) => data.attention.layers.some((layer) => layer.heads.some((head) => attentionValue(head, name) !== null)));
    select.replaceChildren(...known.map((name) => h("option", { value: name }, names[name])));
  }

  const rows = () => (form() === "attention" ? attentionRows(data, select.value) : weightRows(data, form(), select.value));
  const title = () => `${(form() === "attention" ? ATTENTION_MEASURES : WEIGHT_MEASURES)[select.value]}`;
  const refresh = underChart(under, () => `${data.model} ${form()} ${title()}`, () => [map], () => ({
    columns: ["layer", "head", title(), "baseline", "baseline low", "baseline high"],
    rows: rows().flatMap((row) => row.heads.map((head) => [row.name, head.head, head.value, head.baseline?.mean, head.baseline?.low, head.baseline?.high])),
  }));

  function draw() {
    const found = rows(), most = Math.max(1e-9, ...found.flatMap((row) => row.heads.map((head) => head.value ?? 0)));
    const compared = found.some((row) => row.heads.some((head) => head.baseline));
    key.replaceChildren(...(compared
      ? [h("span", { class: "box below" }), " below its baseline, ", h("span", { class: "box near" }), " where random ones lie too, ", h("span", { class: "box above" }), ` above it. Baseline: ${form() === "attention" ? "the barrier of the layer's mask (random uniform rows)" : "Gaussian weights of the same shapes"}.`]
      : ["Darker is larger. This measure has no baseline."]));
    map({
      title: title()[0].toUpperCase() + title().slice(1),
      describe: `${title()} of every head of ${data.model}, ${found.length} layers. The table below has the numbers.`,
      rows: found.map((row) => row.name),
      cells: found.map((row) => row.heads.map((head) => head.value === null ? null : {
        value: head.value,
        ...(head.baseline ? againstBaseline(head.value, head.baseline) : { tone: "c0", strength: head.value / most }),
        tip: () => [`${row.name}, head ${head.head}`, [title(), shown(head.value)], ...(head.baseline ? [["baseline", shown(head.baseline.mean)]] : []), ...(head.baseline?.low === undefined ? [] : [["99 % of random models", `${shown(head.baseline.low)} to ${shown(head.baseline.high)}`]])],
        choose: () => drawSpectrum(row.index, head.head),
      })),
    });
    refresh();
  }
  offer();
  draw();
  auditTables(host, data);
}

const layerName = (layer) => `${layer.part} ${layer.layer}`;

function weightRows(data, form, measure) {
  return data.layers.map((layer, index) => ({
    index, name: layerName(layer),
    heads: layer.head_reports.map((head) => ({
      head: head.head, value: head[form]?.[measure] ?? null,
      baseline: measure === "numerical" ? { mean: Math.min(form === "qk" ? layer.rank : layer.value_rank, layer.dim) } : layer[`${form}_baseline`]?.[measure],
    })),
  }));
}

const attentionValue = (head, measure) => (measure === "fixed_share" ? head.fixed_share : head.mean[measure]) ?? null;

function attentionRows(data, measure) {
  return data.attention.layers.map((layer) => ({
    index: layer.index, name: `block ${layer.index}`,
    heads: layer.heads.map((head) => ({ head: head.head, value: attentionValue(head, measure), baseline: attentionBaseline(layer, measure) })),
  }));
}

function attentionBaseline(layer, measure) {
  const { barrier, barrier_without_sink, uniform_entropy } = layer.baseline;
  const mean = { hardmax_rank: barrier, hardmax_rank_without_sink: barrier_without_sink, entropy: uniform_entropy, centred_logits_energy_90: layer.head_dim }[measure];
  return mean ? { mean } : undefined;
}

// The head whose effective rank of QK lies farthest from that of random weights, in widths of their interval.
function mostUnusual(data) {
  let found = { layer: 0, head: 0, far: -1 };
  data.layers.forEach((layer, at) => layer.head_reports.forEach((one, head) => {
    const { mean, low, high } = layer.qk_baseline.effective;
    const far = Math.abs(one.qk.effective - mean) / Math.max(high - low, 1e-9);
    if (far > found.far) found = { layer: at, head, far };
  }));
  return found;
}

// Singular values of one head's forms, the largest as 1.
function spectrumOf(host, data) {
  const panel = h("div", { class: "panel wide" }), legend = h("ul", { class: "legend" }), facts = h("p", { class: "note", role: "status" }), under = h("div", {});
  const layerSelect = h("select", { id: "spectrum-layer" }, data.layers.map((layer, at) => h("option", { value: at }, layerName(layer)))), headSelect = h("select", { id: "spectrum-head" });
  host.append(h("h3", {}, "The spectrum of one head, the most unusual first"), h("div", { class: "controls" },
    h("p", { class: "field" }, h("label", { for: "spectrum-layer" }, "Layer"), layerSelect), h("p", { class: "field" }, h("label", { for: "spectrum-head" }, "Head"), headSelect)), legend, panel, facts, under);
  const chart = lineChart(panel);
  const current = () => data.layers[Number(layerSelect.value)];
  const head = () => current().head_reports[Number(headSelect.value)];
  const values = () => [["QK", "s0", head().qk_singular_values], ["OV", "s1", head().ov_singular_values]].filter(([, , one]) => one?.length);
  const refresh = underChart(under, () => `Spectrum ${layerName(current())} head ${head().head}`, () => [chart], () => ({
    columns: ["form", "index", "singular value"], rows: values().flatMap(([name, , list]) => list.map((value, at) => [name, at + 1, value])),
  }));
  const heads = () => headSelect.replaceChildren(...current().head_reports.map((one, at) => h("option", { value: at }, String(one.head))));
  function draw() {
    const of = head();
    chart({
      title: `${layerName(current())}, head ${of.head}`, describe: `Singular values of the QK and OV forms of head ${of.head} in ${layerName(current())}. The table below has the numbers.`,
      x: { label: "singular value number", log: false }, y: { label: "of the largest", log: true },
      series: values().map(([name, tone, list]) => ({
        name: `${name}, 90 % of its energy in ${shown(of[name.toLowerCase()]?.energy_90)}`, tone, marker: null,
        points: list.map((value, at) => ({ x: at + 1, y: value / list[0], tip: () => [name, ["number", shown(at + 1)], ["singular value", shown(value, 4)], ["of the largest", shown(value / list[0])]] })),
      })),
    });
    drawLegend(legend, chart.legend());
    const near = of.at_distance.map((one) => `${shown(one.distance)} tokens back ${shown(one.energy_90)}`).join(", ");
    const alike = [["QK", of.qk_near_equal], ["OV", of.ov_near_equal]].filter(([, runs]) => runs?.length).map(([name, runs]) => `${name} ${runs.map(([first, last]) => `${first} to ${last}`).join(", ")}`).join("; ");
    facts.textContent = `Effective rank of QK ${shown(of.qk.effective)}, of OV ${shown(of.ov?.effective)}.${near ? ` Rotary positions change QK: 90 % rank ${near}.` : ""}${alike ? ` Not identifiable one by one, because neighbours lie within 1 % and a change of the weights by that much turns them into each other: ${alike}.` : ""}`;
    refresh();
  }
  layerSelect.addEventListener("change", () => { heads(); draw(); });
  headSelect.addEventListener("change", draw);
  const unusual = mostUnusual(data);
  layerSelect.value = unusual.layer;
  heads();
  headSelect.value = unusual.head;
  draw();
  return (layer, chosen) => {
    if (!data.layers[layer]) return;
    layerSelect.value = layer;
    heads();
    headSelect.value = current().head_reports.findIndex((one) => one.head === chosen);
    draw();
    host.scrollIntoView({ block: "nearest" });
  };
}

function hundredths(value) {
  return value.toFixed(2);
}

function auditTables(host, data) {
  const pairs = data.layers.flatMap((layer) => layer.overlaps.map((pair) => ({ layer, pair })));
  if (pairs.length) {
    const redundant = pairs.filter(({ pair }) => pair.redundant).length;
    host.append(h("h3", {}, "Heads that share their main subspaces"), h("p", { class: "note" }, `${plural(redundant, "pair")} of heads share both sides of a form by more than one half and more than chance; they are called overlapping, and the closest others are listed too. Sides: queries and keys of QK, what is written and what is read by OV. Numbers: the share of the smaller main subspace that lies in the other, 0 to 1, and that of random subspaces.`),
      sortable({
        caption: "Overlap of main subspaces", rows: pairs,
        columns: [
          { label: "layer", value: ({ layer }) => layerName(layer) }, { label: "form", value: ({ pair }) => pair.form }, { label: "heads", value: ({ pair }) => pair.heads.join(" and ") },
          { label: "query or written side", value: ({ pair }) => pair.left, show: hundredths }, { label: "by chance", value: ({ pair }) => pair.left_random, show: hundredths }, { label: "key or read side", value: ({ pair }) => pair.right, show: hundredths }, { label: "by chance ", value: ({ pair }) => pair.right_random, show: hundredths },
          { label: "overlapping", value: ({ pair }) => (pair.redundant ? "yes" : "no") },
        ],
        sorted: { at: 3, falling: true },
      }));
  }
  const joint = data.layers.filter((layer) => layer.joint);
  if (joint.length || data.attention?.layers.some((layer) => layer.joint)) host.append(h("h3", {}, "Would a latent of keys and values pay?"),
    h("p", { class: "note" }, "Keys and values of all heads as one vector, both counting alike: how many numbers hold most of its energy, by weights and on the texts. Energy is no loss: rankwise reduce measures what a latent costs."),
    ...(joint.length ? [jointTable("By weights", joint.map((layer) => ({ name: layerName(layer), joint: layer.joint })))] : []),
    ...(data.attention?.layers.some((layer) => layer.joint) ? [jointTable("On the texts", data.attention.layers.filter((layer) => layer.joint).map((layer) => ({ name: `block ${layer.index}`, joint: layer.joint })))] : []));
  const left = [...data.notes, ...data.not_audited.map((one) => `Not audited: ${one.what}: ${one.reason}`)];
  if (left.length) host.append(h("h3", {}, "What the audit leaves out"), h("ul", { class: "note" }, left.map((line) => h("li", {}, line))));
}

function jointTable(caption, rows) {
  const of = (key) => ({ joint }) => joint[key] ?? null;
  return sortable({
    caption, rows,
    columns: [
      { label: "layer", value: ({ name }) => name }, { label: "numbers", value: of("numbers") }, { label: "hold 90 %", value: of("energy_90") }, { label: "hold 99 %", value: of("energy_99") },
      rows[0].joint.tokens === undefined ? { label: "random, 99 %", value: of("random_99") } : { label: "tokens", value: of("tokens") },
    ],
  });
}
