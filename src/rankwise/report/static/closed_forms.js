// The closed forms of rankwise.theory and rankwise.shapes in the browser. A test holds every one against Python.
const HALF_STEP_SERIES = [1, 5, 61, 1385, 50521, 2702765].map((euler, k) => ((-1) ** k * euler) / ((k + 1) * 4 ** (2 * k + 3)));
const STIRLING_SERIES = [1 / 12, -1 / 360, 1 / 1260, -1 / 1680, 1 / 1188, -691 / 360360];
const SERIES_FROM = 12;
const NEGLIGIBLE = 1e-17;

function evenSeries(coefficients, x) {
  const inverseSquare = 1 / x / x;
  return coefficients.reduceRight((total, coefficient) => total * inverseSquare + coefficient, 0);
}

// Gamma(x + 1/2) / Gamma(x).
function halfStep(x) {
  let factor = 1;
  for (; x < SERIES_FROM; x++) factor *= x / (x + 0.5);
  const z = x - 0.25;
  return factor * Math.sqrt(z) * Math.exp(evenSeries(HALF_STEP_SERIES, z) / z / z);
}

// log Gamma(x) minus Stirling's formula.
function stirling(x) {
  let sum = 0;
  for (; x < SERIES_FROM; x++) sum += (x + 0.5) * Math.log1p(1 / x) - 1;
  return sum + evenSeries(STIRLING_SERIES, x) / x;
}

// log(Gamma(x + step) / Gamma(x)) without the cancellation of two large log-gammas.
function logRising(x, step) {
  const end = x + step;
  return (x - 0.5) * Math.log1p(step / x) + step * (Math.log(end) - 1) + stirling(end) - stirling(x);
}

// eta_l^2, the share of the sign's energy in degree l.
function energy(dim, degree) {
  const halves = halfStep((dim - 1) / 2) / (halfStep((degree + dim - 1) / 2) * halfStep(degree / 2));
  return ((2 / Math.PI ** 1.5) * ((2 * degree + dim - 2) / (degree + dim - 2)) * halves) / degree;
}

const energyRatio = (d, l) => ((2 * l + d + 2) / (2 * l + d - 2)) * (l / (l + 2)) * ((l + d - 2) / (l + d)) * (l / (l + 1)) * ((l + d - 1) / (l + d));
const shareRatio = (d, r, l) => (((l + r) / (l + d - 2)) * ((l + r + 1) / (l + d - 1)) * (2 * l + d - 2)) / (2 * l + d + 2);

// log of the share of degree-l harmonics that one head sees (scaled-identity values).
function logCoverage(dim, rank, degree) {
  const low = Math.min(degree, dim - rank);
  const paired = degree < dim - rank
    ? logRising(rank, low) - logRising(dim - 1, low - 1)
    : logRising(rank, dim - 1 - rank) - logRising(degree + rank, dim - 2 - rank);
  return paired - Math.log(2 * degree + dim - 2);
}

// What arbitrary value matrices multiply the share by: 1 + M_{l+2}/M_l + M_{l-2}/M_l.
function neighbours(rank, l) {
  const up = ((rank + l) / (l + 1)) * ((rank + l + 1) / (l + 2));
  const down = l > 2 ? (l / (rank + l - 1)) * ((l - 1) / (rank + l - 2)) : 0;
  return 1 + up + down;
}

function firstOpenDegree(dim, rank, logHeads, any) {
  const decay = dim - 1 - rank;
  const open = (l) => logHeads + logCoverage(dim, rank, l) + (any ? Math.log(neighbours(rank, l)) : 0) < 0;
  const limit = logHeads + logRising(rank, decay) + Math.log((any ? 3 : 1) / 2);
  if (decay === 0 && limit >= 0) return Infinity;
  if (open(1)) return 1;
  let low = 0, high = 1;
  while (!open(2 * high + 1)) [low, high] = [high, 4 * high];
  while (high - low > Math.max(1, 1e-15 * high)) {
    const middle = Math.floor((low + high) / 2);
    if (open(2 * middle + 1)) high = middle;
    else low = middle;
  }
  return 2 * high + 1;
}

const NODES = legendreNodes(24);

// Gauss-Legendre nodes and weights on [0, 1], by Newton's method.
function legendreNodes(count) {
  return Array.from({ length: count }, (_, k) => {
    let x = Math.cos((Math.PI * (k + 0.75)) / (count + 0.5)), slope = 1;
    for (let turn = 0; turn < 50; turn++) {
      let before = 1, now = x;
      for (let n = 1; n < count; n++) [before, now] = [now, ((2 * n + 1) * x * now - n * before) / (n + 1)];
      slope = (count * (x * now - before)) / (x * x - 1);
      const step = now / slope;
      x -= step;
      if (Math.abs(step) < 1e-16) break;
    }
    return [(1 + x) / 2, 1 / ((1 - x * x) * slope * slope)];
  });
}

// The sum of f over odd degrees from `first` on, f smooth and falling like 1/l^2: midpoints against their integral.
function farSum(f, first, decay, faded) {
  const from = first - 1;
  let integral = 0, low = Math.log(from);
  const width = 4 / (decay + 2);
  if (decay > 20) {
    while (!faded(Math.exp(low))) {
      for (const [node, weight] of NODES) {
        const l = Math.exp(low + node * width);
        integral += weight * width * l * f(l);
      }
      low += width;
    }
  }
  const end = Math.exp(low);
  for (const [node, weight] of NODES) {
    const l = end / node;
    integral += (weight * l * l * f(l)) / end;
  }
  const slope = (f(from + 1) - f(from - 1)) / 2;
  return integral / 2 + slope / 12;
}

// The energy of the odd degrees from `first` on: all of it is 1.
function energyFrom(dim, first) {
  if (first > Math.max(2000, 16 * dim)) return farSum((l) => energy(dim, l), first, 0, () => true);
  let rest = 1, term = energy(dim, 1);
  for (let l = 1; l < first; l += 2) {
    rest -= term;
    term *= energyRatio(dim, l);
  }
  return rest;
}

function circleBound(heads, any) {
  const linear = energy(2, 1);
  const shares = any ? [[linear, 1], [1 - linear, 1.5]] : [[1, 0.5]];
  return shares.reduce((sum, [part, share]) => sum + part * Math.max(0, 1 - heads * share), 0) / 2;
}

// LB(d, r, H) of rankwise.theory.bounds.error_lower_bound, for log H so that 10^18 heads are a number too.
function boundAtLog(dim, rank, logHeads, any = false) {
  const heads = Math.exp(logHeads);
  if (heads === 0) return 0.5;
  if (rank >= dim) return Math.max(0, 1 - heads) / 2;
  if (dim === 2) return heads >= 2 ? 0 : circleBound(heads, any);
  const decay = dim - 1 - rank, first = firstOpenDegree(dim, rank, logHeads, any);
  if (first === Infinity) return 0;
  const covered = (l) => Math.exp(logHeads + logCoverage(dim, rank, l)) * (any ? neighbours(rank, l) : 1);
  const last = Math.max(first, 16 * dim) + 800;
  let sum = 0, part = energy(dim, first), share = Math.exp(logHeads + logCoverage(dim, rank, first)), l = first;
  for (; l < last; l += 2) {
    const seen = share * (any ? neighbours(rank, l) : 1);
    if (seen < NEGLIGIBLE) return Math.min(0.5, (sum + energyFrom(dim, l)) / 2);
    sum += part * (1 - seen);
    part *= energyRatio(dim, l);
    share *= shareRatio(dim, rank, l);
  }
  const rest = farSum((at) => energy(dim, at) * (1 - covered(at)), l, decay, (at) => covered(at) < NEGLIGIBLE);
  return Math.min(0.5, Math.max(0, (sum + rest) / 2));
}

const errorLowerBound = (dim, rank, heads, any = false) => (heads > 0 ? boundAtLog(dim, rank, Math.log(heads), any) : 0.5);

// log10 of the heads that still cannot reach the error.
function headsRequiredLog10(dim, rank, error, any = false) {
  if (rank >= dim) return Math.log10(1 - 2 * error);
  let low = Math.log(1e-6), high = 1;
  while (boundAtLog(dim, rank, high, any) >= error) [low, high] = [high, 2 * high + 2];
  for (let turn = 0; turn < 60 && high - low > 1e-12 * high; turn++) {
    const middle = (low + high) / 2;
    if (boundAtLog(dim, rank, middle, any) >= error) low = middle;
    else high = middle;
  }
  return low / Math.LN10;
}

// The mean number of distinct columns that uniform rows pick (rankwise.theory.occupancy.hardmax_rank_mean).
function hardmaxRankMean(length, mask, window = null) {
  if (mask === "full") return length === 1 ? 1 : -length * Math.expm1(length * Math.log1p(-1 / length));
  const reach = mask === "window" ? Math.min(window, length) : length;
  if (reach === length) return (length + 1) / 2;
  const keep = reach > 1 ? Math.log1p(-1 / reach) : -Infinity;
  let missed = 0;
  for (let j = 2; j <= reach; j++) {
    const last = Math.min(length, j + reach - 1);
    missed += ((j - 1) / reach) * (last > reach ? Math.exp((last - reach) * keep) : 1);
  }
  const whole = Math.max(0, length - reach + 1 - reach);
  missed += whole * Math.exp(reach * keep);
  for (let j = reach + 1 + whole; j <= length; j++) missed += Math.exp((length - j + 1) * keep);
  return length - missed;
}

// Attention weights a layer stores, and bytes that hold the keys and values of one token in all layers.
const storedParameters = ({ dim, heads, kvHeads, rank }) => (heads + kvHeads) * 2 * rank * dim;
const kvBytesPerToken = ({ kvHeads, rank, layers }) => 2 * kvHeads * 2 * rank * layers;

globalThis.rankwise = { errorLowerBound, headsRequiredLog10, hardmaxRankMean, storedParameters, kvBytesPerToken };
