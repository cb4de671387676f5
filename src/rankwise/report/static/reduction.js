// What a reduction costs for every method and share, and how many directions each layer keeps.

function initReduce(data) {
  const host = byId("reduction-body");
  if (!host || !data) return;
  const unit = data.objective === "embedding" ? "1 - mean cosine" : "nats per token";
  const draw = (title, x, y, series, table) => {
    const legend = h("ul", { class: "legend" }), panel = h("div", { class: "panel wide" }), under = h("div", {});
    host.append(legend, panel, under);
    const chart = lineChart(panel);
    chart({ title, describe: `${title}. The table below has the numbers.`, x, y, levels: [], series });
    drawLegend(legend, chart.legend());
    underChart(under, title, () => [chart], table);
  };
  const frontier = data.frontier ?? [];
  if (frontier.length) {
    draw("What keeping less costs", { label: "share kept", log: false, ticks: distinct(frontier.map((point) => point.keep)) }, { label: unit, log: false },
      distinct(frontier.map((point) => point.method)).map((method, at) => ({ name: `directions by ${method}`, tone: `s${at}`, marker: at,
        points: frontier.filter((point) => point.method === method).sort((a, b) => a.keep - b.keep)
          .map((point) => ({ x: point.keep, y: point.cost.cost, tip: () => [`${method}, ${point.keep} kept`, ["cost", shown(point.cost.cost)], ["standard error", shown(point.cost.standard_error)]] })) })),
      () => ({ columns: ["method", "keep", "parameters", "cost", "standard_error"], rows: frontier.map((point) => [point.method, point.keep, point.parameters, point.cost.cost, point.cost.standard_error]) }));
  }
  const totals = data.layers.map((layer) => layer.ranks.reduce((sum, rank) => sum + rank, 0));
  const sizes = distinct(data.layers.map((layer) => layer.size));
  draw(`Directions that each layer keeps${sizes.length === 1 ? ` of ${shown(sizes[0])}` : ""}`, { label: "layer", log: false, ticks: totals.map((_, at) => at) }, { label: "directions", log: false },
    [{ name: "kept", tone: "s0", marker: 0, line: false, points: totals.map((total, at) => ({ x: at, y: total, tip: () => [data.layers[at].name, ["kept", shown(total)], ["of", shown(data.layers[at].size)]] })) }],
    () => ({ columns: ["layer", "kept", "of"], rows: totals.map((total, at) => [data.layers[at].name, total, data.layers[at].size]) }));
}
