// Two models head by head: how far every form moved, beyond what rounding of the files explains.
const CHANGE_MEASURES = { beyond: "moved beyond rounding, of its size", change: "moved in all, of its size", rounding: "moved by rounding alone, of its size", directions: "directions of the change" };

function initComparison(data) {
  const host = byId("comparison-body");
  if (!host || !data) return;
  const controls = h("div", { class: "controls" }), panel = h("div", { class: "panel wide" }), under = h("div", {});
  host.append(controls, panel, under);
  const forms = [{ value: "qk", label: "Scores (QK)" }];
  if (data.layers.some((layer) => layer.head_changes.some((head) => head.ov))) forms.push({ value: "ov", label: "Values (OV)" });
  const form = chips(controls, { legend: "Of", name: "comparison-form", chosen: "qk", options: forms, changed: draw });
  const select = h("select", { id: "comparison-measure" }, Object.entries(CHANGE_MEASURES).map(([value, name]) => h("option", { value }, name)));
  select.addEventListener("change", draw);
  controls.append(h("p", { class: "field" }, h("label", { for: "comparison-measure" }, "Measure"), select));
  const map = heatMap(panel), name = (layer) => `${layer.part} ${layer.layer}`;
  const heads = () => data.layers.flatMap((layer) => layer.head_changes.filter((head) => head[form()]).map((head) => ({ layer, head, change: head[form()] })));
  const refresh = underChart(under, () => `${data.second} against ${data.first} ${form()}`, () => [map], () => ({
    columns: ["layer", "head", "moved", "by rounding", "beyond", "directions", "effective rank before", "effective rank after"],
    rows: heads().map(({ layer, head, change }) => [name(layer), head.head, change.change, change.rounding, change.beyond, change.directions, change.first.effective, change.second.effective]),
  }));

  function draw() {
    const measure = select.value, title = CHANGE_MEASURES[measure], most = Math.max(1e-12, ...heads().map(({ change }) => change[measure]));
    map({
      title: title[0].toUpperCase() + title.slice(1), describe: `${title}, every head of ${data.second} against ${data.first}; darker is larger. The table below has the numbers.`,
      rows: data.layers.map(name),
      cells: data.layers.map((layer) => layer.head_changes.map((head) => head[form()] && {
        value: head[form()][measure], tone: "c0", strength: 0.04 + 0.96 * head[form()][measure] / most,
        tip: () => [`${name(layer)}, head ${head.head}`, ...["change", "rounding", "beyond", "directions"].map((one) => [CHANGE_MEASURES[one], shown(head[form()][one])]),
          ["effective rank", `${shown(head[form()].first.effective)} before, ${shown(head[form()].second.effective)} after`]],
      })),
    });
    refresh();
  }
  draw();
  if (data.notes.length) host.append(h("ul", { class: "note" }, data.notes.map((line) => h("li", {}, line))));
}
