// Line charts as SVG: drawn to the width they have, readable by keyboard, downloadable with their legend.
const MARKERS = [
  (x, y, r) => svg("circle", { cx: x, cy: y, r }),
  (x, y, r) => svg("rect", { x: x - r * 0.9, y: y - r * 0.9, width: 1.8 * r, height: 1.8 * r }),
  (x, y, r) => svg("path", { d: `M${x} ${y - 1.15 * r}L${x + 1.1 * r} ${y + 0.85 * r}H${x - 1.1 * r}Z` }),
  (x, y, r) => svg("path", { d: `M${x} ${y - 1.25 * r}L${x + 1.25 * r} ${y}L${x} ${y + 1.25 * r}L${x - 1.25 * r} ${y}Z` }),
  (x, y, r) => svg("path", { d: `M${x} ${y + 1.15 * r}L${x + 1.1 * r} ${y - 0.85 * r}H${x - 1.1 * r}Z` }),
  (x, y, r) => svg("path", { d: `M${x - r} ${y}H${x + r}M${x} ${y - r}V${y + r}`, class: "cross" }),
];
const MARGIN = { left: 56, right: 16, top: 34, bottom: 46 };

// `host` is an element of the page; the returned function draws a spec into it, again and again.
// spec: {title, describe, x: {label, log, ticks, range}, y: {label, log, range, zero}, series, levels, height}
// series: {name, tone, marker, dash, hollow, points: [{x, y, spread, tip, open}]}; marker null draws the line alone.
function lineChart(host) {
  let spec = null, placed = [], active = null;
  const picture = svg("svg", { class: "chart", tabindex: 0, role: "img" });
  host.append(picture);

  function draw() {
    if (!spec) return;
    const width = Math.max(240, picture.getBoundingClientRect().width), height = spec.height ?? 320;
    const inner = { left: MARGIN.left, right: width - MARGIN.right, top: MARGIN.top, bottom: height - MARGIN.bottom };
    const points = spec.series.flatMap((one) => one.points);
    const xRange = spec.x.range ?? span(points.map((p) => p.x), spec.x.log);
    const yRange = spec.y.range ?? heights(spec);
    const x = scale(xRange, [inner.left, inner.right], spec.x.log);
    const y = scale(yRange, [inner.bottom, inner.top], spec.y.log);
    placed = [];
    active = null;
    picture.setAttribute("viewBox", `0 0 ${width} ${height}`);
    picture.setAttribute("height", height);
    picture.setAttribute("aria-label", spec.describe);
    picture.replaceChildren(
      svg("text", { class: "title", x: inner.left, y: 16 }, spec.title),
      axes(spec, x, y, inner),
      svg("g", { class: "levels" }, shownLevels(spec, y).map((level) => svg("line", { x1: inner.left, x2: inner.right, y1: y(level.y), y2: y(level.y) }))),
      svg("g", {}, spec.series.map((one) => drawSeries(one, x, y, inner, placed))),
      levelNames(shownLevels(spec, y), x, y, inner, points),
      svg("g", { class: "focus" }),
    );
    shorten(picture.querySelector(".title"), inner.right - inner.left + 12);
  }

  function mark(found) {
    active = found;
    const ring = picture.lastElementChild;
    ring.replaceChildren();
    if (!found) return hideTip();
    ring.append(svg("circle", { cx: found.px, cy: found.py, r: 8 }));
    const box = picture.getBoundingClientRect(), zoom = box.width / picture.viewBox.baseVal.width;
    showTip(box.left + found.px * zoom, box.top + found.py * zoom, found.point.tip(), Boolean(found.point.open));
  }

  picture.addEventListener("pointermove", (event) => {
    const box = picture.getBoundingClientRect(), zoom = picture.viewBox.baseVal.width / box.width;
    const at = [(event.clientX - box.left) * zoom, (event.clientY - box.top) * zoom];
    const found = nearest(placed, at, event.pointerType === "touch" ? 36 : 24);
    if (found !== active) mark(found);
    picture.classList.toggle("pointing", Boolean(found?.point.open));
  });
  picture.addEventListener("pointerleave", () => mark(null));
  picture.addEventListener("blur", () => mark(null));
  picture.addEventListener("click", () => active?.point.open?.());
  picture.addEventListener("keydown", (event) => {
    const step = { ArrowRight: 1, ArrowDown: 1, ArrowLeft: -1, ArrowUp: -1 }[event.key];
    if (step && placed.length) {
      const at = active ? placed.indexOf(active) : step > 0 ? -1 : 0;
      mark(placed[(at + step + placed.length) % placed.length]);
      announce(active.point.tip().flat().join(", "));
      event.preventDefault();
    } else if (event.key === "Enter" && active?.point.open) {
      event.preventDefault(); // or the same key would press the dialog's first button
      active.point.open();
    } else if (event.key === "Escape") mark(null);
  });
  new ResizeObserver(() => {
    if (spec && Math.abs(picture.viewBox.baseVal.width - Math.max(240, picture.getBoundingClientRect().width)) > 1) draw();
  }).observe(host);
  const update = (next) => {
    spec = next;
    draw();
  };
  return Object.assign(update, { picture, legend: () => legendEntries(spec) });
}

function heights(spec) {
  const values = spec.series.flatMap((one) => one.points.flatMap((p) => [p.y, p.y + (p.spread ?? 0)]));
  return span([...values, ...(spec.levels ?? []).map((level) => level.y)], spec.y.log, { zero: spec.y.zero });
}

function axes(spec, x, y, inner) {
  const yTicks = ticks(y.range, spec.y.log, 6);
  const xValues = spec.x.ticks ? spaced(spec.x.ticks, x, 26) : ticks(x.range, spec.x.log, inner.right - inner.left < 340 ? 4 : 7);
  return svg("g", { class: "axes" },
    yTicks.map((tick) => [
      svg("line", { class: "grid", x1: inner.left, x2: inner.right, y1: y(tick), y2: y(tick) }),
      svg("text", { x: inner.left - 8, y: y(tick) + 4, "text-anchor": "end" }, shown(tick)),
    ]).flat(),
    svg("line", { class: "base", x1: inner.left, x2: inner.right, y1: inner.bottom, y2: inner.bottom }),
    xValues.map((tick) => [
      svg("line", { class: "base", x1: x(tick), x2: x(tick), y1: inner.bottom, y2: inner.bottom + 4 }),
      svg("text", { x: x(tick), y: inner.bottom + 18, "text-anchor": "middle" }, tick >= 1e5 ? amount(tick) : shown(tick)),
    ]).flat(),
    svg("text", { class: "label", x: (inner.left + inner.right) / 2, y: inner.bottom + 38, "text-anchor": "middle" }, spec.x.label),
    svg("text", { class: "label", x: inner.left, y: inner.top - 4 }, spec.y.label ? `↑ ${spec.y.label}` : ""),
  );
}

const shownLevels = (spec, y) => (spec.levels ?? []).filter((level) => y.shows(level.y)).sort((a, b) => b.y - a.y);

// From the top down, each above its line, or below it where that place is taken. Close levels share a name: two texts on
// top of each other say nothing.
function levelNames(sorted, x, y, inner, points) {
  const groups = [];
  for (const level of sorted) {
    const last = groups.at(-1);
    if (last && y(level.y) - y(last.at(-1).y) < 13) last.push(level);
    else groups.push([level]);
  }
  let taken = inner.top + 1; // above stands the name of the axis
  return svg("g", { class: "levels" }, groups.map((group) => {
    const above = y(group[0].y) - 4;
    const at = above - 10 >= taken ? above : y(group.at(-1).y) + 13;
    taken = at + 3;
    const name = group.map((level) => level.name).join(" · "), left = crowd(name, at, inner.right, -1) > crowd(name, at, inner.left, 1);
    return svg("text", { x: left ? inner.left + 4 : inner.right, y: at, "text-anchor": left ? "start" : "end" }, name);
  }));

  // How many points lie where the name would stand: 7 pixels a letter from an edge inwards, and a line high.
  function crowd(name, at, edge, inwards) {
    return points.filter((p) => Math.abs(y(p.y) - at + 4) < 18 && (x(p.x) - edge) * inwards < 7 * name.length).length;
  }
}

// A name that is too long for a narrow screen ends with dots; the whole stays readable by pointing at it.
function shorten(text, width) {
  const whole = text.textContent;
  if (text.getComputedTextLength() <= width) return;
  for (let kept = whole.length - 2; kept > 8 && text.getComputedTextLength() > width; kept -= 2) text.textContent = `${whole.slice(0, kept).trimEnd()}…`;
  text.dataset.whole = whole;
  text.append(svg("title", {}, whole));
}

function drawSeries(one, x, y, inner, placed) {
  const usable = one.points.filter((p) => Number.isFinite(p.x) && Number.isFinite(p.y) && y.shows(p.y) && x.shows(p.x));
  const group = svg("g", { class: `series ${one.tone}${one.hollow ? " hollow" : ""}${one.faint ? " faint" : ""}` });
  const path = usable.map((p, at) => `${at ? "L" : "M"}${x(p.x).toFixed(2)} ${y(p.y).toFixed(2)}`).join("");
  if (path && one.line !== false) group.append(svg("path", { class: "line", d: path, "stroke-dasharray": one.dash || null }));
  for (const point of usable) {
    const px = x(point.x), py = y(point.y);
    if (point.spread && one.marker !== null) {
      const low = Math.min(inner.bottom, y.log && point.y <= point.spread ? inner.bottom : y(point.y - point.spread));
      group.append(svg("line", { class: "bar", x1: px, x2: px, y1: low, y2: Math.max(inner.top, y(point.y + point.spread)) }));
    }
    if (one.marker !== null) {
      const drawn = MARKERS[one.marker % MARKERS.length](px, py, 4.2);
      drawn.classList.add("mark");
      group.append(drawn);
    }
    if (point.tip) placed.push({ px, py, point });
  }
  return group;
}

function nearest(placed, [x, y], within) {
  let best = null, least = within ** 2;
  for (const one of placed) {
    const distance = (one.px - x) ** 2 + (one.py - y) ** 2;
    if (distance < least) [best, least] = [one, distance];
  }
  return best;
}

// One entry a name, in the order of the series.
function legendEntries(spec) {
  const seen = new Map();
  for (const one of spec?.series ?? []) if (one.name && !seen.has(one.name)) seen.set(one.name, one);
  return [...seen.values()];
}

function swatch(one, x = 0, y = 7) {
  const group = svg("g", { class: `series ${one.tone}${one.hollow ? " hollow" : ""}` });
  if (one.line !== false) group.append(svg("path", { class: "line", d: `M${x} ${y}h26`, "stroke-dasharray": one.dash || null }));
  if (one.marker !== null) {
    const drawn = MARKERS[one.marker % MARKERS.length](x + 13, y, 4.2);
    drawn.classList.add("mark");
    group.append(drawn);
  }
  return group;
}

function drawLegend(host, entries) {
  host.replaceChildren(...entries.map((one) =>
    h("li", {}, svg("svg", { width: 26, height: 14, "aria-hidden": "true" }, swatch(one)), one.name)));
}
