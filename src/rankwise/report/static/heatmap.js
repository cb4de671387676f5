// Layers x heads as coloured cells; arrow keys move between them, Enter or a click chooses one.
// spec: {title, describe, rows: [names], cells: [[{value, tone, strength, tip, choose?} | null]]}
function heatMap(host) {
  const LEFT = 84, TOP = 52;
  let spec = null, at = null, sizes = null;
  const picture = svg("svg", { class: "chart heat", tabindex: 0, role: "img" });
  host.append(picture);

  function draw() {
    if (!spec) return;
    const columns = Math.max(...spec.cells.map((row) => row.length), 1), width = Math.max(240, picture.getBoundingClientRect().width);
    const cell = Math.min(72, (width - LEFT - 12) / columns), tall = Math.max(13, Math.min(26, cell));
    sizes = { cell, tall };
    const height = TOP + tall * spec.rows.length + 12;
    const every = Math.ceil(20 / cell), everyRow = Math.ceil(13 / tall);
    picture.setAttribute("viewBox", `0 0 ${width} ${height}`);
    picture.setAttribute("height", height);
    picture.setAttribute("aria-label", spec.describe);
    picture.replaceChildren(
      svg("text", { class: "title", x: 8, y: 16 }, spec.title),
      svg("text", { x: LEFT - 8, y: TOP - 8, "text-anchor": "end" }, "head"),
      svg("g", {}, Array.from({ length: columns }, (_, head) => head).filter((head) => head % every === 0)
        .map((head) => svg("text", { x: LEFT + (head + 0.5) * cell, y: TOP - 8, "text-anchor": "middle" }, String(head)))),
      svg("g", {}, spec.rows.map((name, row) => (row % everyRow ? null : svg("text", { x: LEFT - 8, y: TOP + (row + 0.5) * tall + 4, "text-anchor": "end" }, name)))),
      svg("g", {}, spec.cells.flatMap((row, y) => row.map((one, x) => one && square(one, x, y, cell, tall)))),
      svg("g", { class: "focus" }),
    );
  }

  function square(one, x, y, cell, tall) {
    const gap = cell > 7 ? 1 : 0.4;
    const drawn = svg("rect", { class: "cell", x: LEFT + x * cell, y: TOP + y * tall, width: cell - gap, height: tall - gap, rx: 1.5, "data-value": one.value });
    drawn.style.fill = `color-mix(in oklab, var(--${one.tone}) ${Math.round(100 * one.strength)}%, var(--blank))`;
    return drawn;
  }

  function mark(found) {
    at = found;
    const ring = picture.lastElementChild, one = found && spec.cells[found[1]]?.[found[0]];
    ring.replaceChildren();
    if (!one) return hideTip();
    const [x, y] = [LEFT + found[0] * sizes.cell, TOP + found[1] * sizes.tall];
    ring.append(svg("rect", { x: x - 1, y: y - 1, width: sizes.cell + 1, height: sizes.tall + 1 }));
    const box = picture.getBoundingClientRect(), zoom = box.width / picture.viewBox.baseVal.width;
    showTip(box.left + (x + sizes.cell / 2) * zoom, box.top + y * zoom, one.tip(), one.choose && "see its spectrum");
    return one;
  }

  function under(event) {
    const box = picture.getBoundingClientRect(), zoom = picture.viewBox.baseVal.width / box.width;
    const x = Math.floor(((event.clientX - box.left) * zoom - LEFT) / sizes.cell), y = Math.floor(((event.clientY - box.top) * zoom - TOP) / sizes.tall);
    return spec.cells[y]?.[x] ? [x, y] : null;
  }

  picture.addEventListener("pointermove", (event) => mark(under(event)));
  picture.addEventListener("pointerleave", () => mark(null));
  picture.addEventListener("blur", () => mark(null));
  picture.addEventListener("click", (event) => { const found = under(event); if (found) spec.cells[found[1]][found[0]].choose?.(); });
  picture.addEventListener("keydown", (event) => {
    const step = { ArrowRight: [1, 0], ArrowLeft: [-1, 0], ArrowDown: [0, 1], ArrowUp: [0, -1] }[event.key];
    if (step) {
      const next = at ? [at[0] + step[0], at[1] + step[1]] : [0, 0];
      if (spec.cells[next[1]]?.[next[0]]) announce(mark(next).tip().flat().join(", "));
      event.preventDefault();
    } else if (event.key === "Enter" && spec.cells[at?.[1]]?.[at[0]]) spec.cells[at[1]][at[0]].choose?.();
    else if (event.key === "Escape") mark(null);
  });
  new ResizeObserver(() => {
    if (spec && Math.abs(picture.viewBox.baseVal.width - Math.max(240, picture.getBoundingClientRect().width)) > 1) draw();
  }).observe(host);
  return Object.assign((next) => { spec = next; draw(); }, { picture, legend: () => [] });
}

// How far a value is from its baseline: blue above, orange below, pale where random weights would lie too.
function againstBaseline(value, baseline) {
  const ratio = value / baseline.mean;
  const inside = baseline.low !== undefined && value >= baseline.low && value <= baseline.high;
  const distance = Math.min(1, Math.abs(Math.log2(Math.max(ratio, 1e-3))) / 2);
  return { tone: ratio < 1 ? "c1" : "c0", strength: inside ? 0.06 : 0.16 + 0.84 * distance };
}
