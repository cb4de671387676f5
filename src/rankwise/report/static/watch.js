// Every head of a training beside its baselines: the middle head and the lowest one, look by look.
function initWatch(data) {
  const host = byId("watch-body");
  if (!host || !data) return;
  const share = (value, baseline) => (value === null || !baseline ? null : value / baseline);
  const readings = [
    ["Attention rank", "random attention", (one) => share(one.attention_rank, one.attention_rank_random), data.thresholds.collapse],
    ["Entropy of attention", "uniform rows", (one) => share(one.entropy, one.entropy_uniform), data.thresholds.saturation],
    ["Effective rank of QK", "Gaussian weights", (one) => share(one.qk_effective, one.qk_effective_random), data.thresholds.collapse],
  ];
  readings.forEach(([name, baseline, of, threshold]) => {
    const looks = data.observations.map((look) => ({
      step: look.step,
      heads: look.heads.map((one) => ({ name: `${one.layer} head ${one.head}`, share: of(one) })).filter((one) => one.share !== null).sort((a, b) => a.share - b.share),
    })).filter((look) => look.heads.length);
    if (!looks.length) return;
    const panel = h("div", { class: "panel wide" }), under = h("div", {});
    host.append(panel, under);
    const chart = lineChart(panel);
    const refresh = underChart(under, `${name} during training`, () => [chart], () => ({
      columns: ["step", "head", `share of ${baseline}`],
      rows: looks.flatMap((look) => look.heads.map((one) => [look.step, one.name, one.share])),
    }));
    const points = (pick) => looks.map((look) => {
      const one = look.heads[pick(look.heads.length)];
      return { x: look.step, y: one.share, tip: () => [`Step ${shown(look.step)}`, ["head", one.name], [`share of ${baseline}`, shown(one.share)]] };
    });
    chart({
      title: `${name} as a share of ${baseline}`, describe: `${name} of the middle and of the lowest head by training step. The table below has all heads.`,
      x: { label: "training step", log: false }, y: { label: `share of ${baseline}`, log: false },
      levels: [{ y: threshold, name: "alarm below" }],
      series: [
        { name: "middle head", tone: "s0", marker: 0, points: points((count) => Math.floor((count - 1) / 2)) },
        { name: "lowest head", tone: "s1", marker: 1, points: points(() => 0) },
      ],
    });
    refresh();
  });
}
