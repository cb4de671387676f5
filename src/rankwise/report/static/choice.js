// Loss against rank at equal budget, by training small models.
function initChoice(data) {
  const host = byId("choice-body");
  if (!host || !data) return;
  data.searches.forEach((search) => {
    const name = search.kind === "parameters" ? `${shown(search.amount)} attention weights` : `${bytes(search.amount)} of cache per token`;
    const panel = h("div", { class: "panel wide" }), under = h("div", {});
    host.append(panel, under);
    const chart = lineChart(panel), shapes = [...search.shapes].sort((a, b) => a.rank - b.rank);
    const refresh = underChart(under, `Loss at ${name}`, () => [chart], () => ({
      columns: ["rank", "heads", "value rank", "key heads", "bits per byte", "standard error", "attention weights", "cache, bytes per token"],
      rows: shapes.map((one) => [one.rank, one.heads, one.value_rank, one.kv_heads, one.loss, one.standard_error, one.parameters, one.cache_bytes]),
    }));
    chart({
      title: `Loss against rank at ${name}`, describe: `Held-out loss of the best shape of every rank at ${name}. The table below has the numbers.`,
      x: { label: "rank of a head", log: true, ticks: shapes.map((one) => one.rank) }, y: { label: "held-out loss, bits per byte", log: false },
      series: [{ name: "best shape of the rank", tone: "s0", marker: 0, points: shapes.map((one) => ({
        x: one.rank, y: one.loss, spread: one.standard_error,
        tip: () => [`Rank ${shown(one.rank)}`, ["heads", shown(one.heads)], ["value rank", shown(one.value_rank)], ["key heads", shown(one.kv_heads)], ["bits per byte", shown(one.loss, 4)], ["standard error", shown(one.standard_error)]],
      })) }],
    });
    refresh();
  });
}
