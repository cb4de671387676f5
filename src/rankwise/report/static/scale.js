// From numbers to pixels: linear and logarithmic scales with ticks at round numbers.
function scale(range, pixels, log) {
  const [low, high] = log ? range.map(Math.log) : range;
  const [from, to] = pixels;
  const width = high - low || 1;
  const place = (value) => from + (((log ? Math.log(value) : value) - low) / width) * (to - from);
  return Object.assign(place, { range, log, shows: (value) => !log || value > 0 });
}

// The range of the values, widened so that no mark sits on the frame.
function span(values, log, { zero = false, pad = 0.06 } = {}) {
  const usable = values.filter((value) => Number.isFinite(value) && (!log || value > 0));
  if (!usable.length) return log ? [0.1, 1] : [0, 1];
  let low = Math.min(...usable), high = Math.max(...usable);
  if (log) {
    const factor = Math.max(high / low, 1.5) ** pad;
    return [low / factor, high * factor];
  }
  if (zero && low >= 0) return [0, high * (1 + pad) || 1];
  const room = (high - low || Math.abs(high) || 1) * pad;
  return [low - room, high + room];
}

function ticks(range, log, most = 6) {
  const [low, high] = range;
  if (!log) {
    const raw = (high - low) / most;
    const power = 10 ** Math.floor(Math.log10(raw));
    const step = power * [1, 2, 5, 10].find((nice) => nice * power >= raw * 0.999);
    const found = [];
    for (let at = Math.ceil(low / step - 1e-9); at * step <= high * (1 + 1e-9); at++) found.push(Number((at * step).toPrecision(12)));
    return found;
  }
  for (const steps of [[1, 1.5, 2, 2.5, 3, 4, 5, 6, 7, 8, 9], [1, 2, 3, 5, 7], [1, 2, 5], [1, 3], [1]]) {
    const found = logTicks(low, high, steps);
    if (found.length <= most + 1 && found.length >= 2) return found;
  }
  const decades = logTicks(low, high, [1]);
  if (decades.length < 2) return logTicks(low, high, [1, 2, 5]);
  const every = Math.ceil(decades.length / most);
  return decades.filter((_, at) => at % every === 0);
}

function logTicks(low, high, steps) {
  const found = [];
  for (let power = Math.floor(Math.log10(low)); power <= Math.ceil(Math.log10(high)); power++) {
    for (const step of steps) {
      const tick = Number((step * 10 ** power).toPrecision(12));
      if (tick >= low * 0.999 && tick <= high * 1.001) found.push(tick);
    }
  }
  return found;
}

// Those of the values that can be labelled at least `apart` pixels from each other; the last always is.
function spaced(values, place, apart) {
  const kept = [];
  for (const value of [...values].sort(ascending).reverse()) {
    if (!kept.length || Math.abs(place(value) - place(kept.at(-1))) >= apart) kept.push(value);
  }
  return kept.reverse();
}
