"""The mean hardmax rank of random queries and keys at any head dimension, by quadrature instead of simulation.

Given the keys, rows pick independently, so the mean number of distinct columns is a sum over keys of
``1 - E[prod_i (1 - share_i)]``, i the rows that see the key. ``cells`` gives the mean g of a share given the key's
norm rho and its relative covariances, exactly; the law of the share between its first two moments is closed

- for the full mask by a beta law:  E[(1-p)^m | rho] = prod_{k<m} (1 - g / (1 + k theta)), theta = v g / (1 - g - v g);
- for causal and window masks by a gamma law of the sum mu of the shares, of relative variance v:
  E[prod (1-p_i) | rho] = prod (1 - g_i) exp(mu - log(1 + v mu) / v).

This closure is our approximation. Against simulation it is within 0.3 % of the barrier for Gaussian keys with
head_dim >= 8 and for unit keys, within 2 % from head_dim 4 and 5 % from 2 (the tests hold it to this).
``hardmax_rank_bounds`` needs no closure: with the same two moments it is proved (our derivation), for the full mask.
"""

from __future__ import annotations

import math

import numpy as np
from jaxtyping import Float

from rankwise.errors import InvalidInputError, require_choice, require_int
from rankwise.theory.arrays import Array
from rankwise.theory.cells import (
    GaussianKeys,
    KeyLaw,
    UnitKeys,
    growing_covariance,
    legendre,
    mean_share,
    sliding_covariance,
)
from rankwise.theory.occupancy import hardmax_rank_mean, visible_reach

KEYS = ("gaussian", "unit")
_FINE_SPAN, _FINE_PER_OCTAVE = 4096, 8
_COARSE_SPAN, _COARSE_PER_OCTAVE = 256, 1
_LAGS, _DENSE_WINDOW = 9, 1024


def expected_hardmax_rank(
    length: int, head_dim: int, mask: str = "full", *, keys: str = "gaussian", window: int | None = None
) -> float:
    """Mean hardmax rank of ``length`` Gaussian queries on ``length`` keys of dimension ``head_dim`` >= 2.

    ``keys`` are "gaussian" or "unit" (uniform on the sphere). Takes milliseconds for any length.
    """
    reach = visible_reach(length, mask, window)
    law = _key_law(head_dim, keys)
    barrier = hardmax_rank_mean(length, mask, window)
    if length <= 2 or (reach is not None and reach <= 2):
        return barrier  # of two keys each is preferred with probability 1/2, whatever they are
    if reach is None:
        return barrier * _kept_full(law, length)
    if reach == length:
        return barrier * _kept_causal(law, length)
    kept = _kept_window(law, max(length, 2 * reach), reach)
    if length < 2 * reach:
        share = length / reach - 1
        kept = share * kept + (1 - share) * _kept_causal(law, reach)
    return barrier * kept


def hardmax_rank_bounds(
    length: int, head_dim: int, *, keys: str = "gaussian", queries: int | None = None
) -> tuple[float, float]:
    """Proved bounds (low, high) of the mean hardmax rank under the full mask, up to quadrature error.

    With p the share of a key, ``rank = n E[1 - (1-p)^m]``. Given the norm, (1-p)^m is convex in p (Jensen: high), and
    among laws on [0, 1] with mean g and second moment s its mean is largest for the one that lives on 0 and s/g (low).
    """
    law = _key_law(head_dim, keys)
    require_int("length", length, minimum=1)
    rows = length if queries is None else require_int("queries", queries, minimum=1)
    if length == 1:
        return 1.0, 1.0
    _, norm, weight = law.norms(_norm_nodes(law))
    count = np.array([float(length)])
    share = mean_share(law, norm, count)[:, 0]
    second = np.maximum(growing_covariance(law, norm, count, nodes=20)[:, 0, 0], 0) + 1
    worst = np.minimum(share * second, 1)
    low, high = (length * float(weight @ hit) for hit in (_hit(worst, rows) / second, _hit(share, rows)))
    return low, high


def _key_law(head_dim: int, keys: str) -> KeyLaw:
    """The law of the keys by name."""
    require_int("head_dim", head_dim, minimum=1)
    require_choice("keys", keys, KEYS)
    if head_dim == 1:
        raise InvalidInputError(
            "head_dim: expected at least 2, got 1; use simulate_hardmax_rank (unit keys on a line are all 1 or -1)"
        )
    return GaussianKeys(head_dim) if keys == "gaussian" else UnitKeys(head_dim)


def _hit(share: Float[Array, " R"], rows: int) -> Float[Array, " R"]:
    with np.errstate(divide="ignore"):
        hit: Array = -np.expm1(rows * np.log1p(-np.minimum(share, 1)))
    return hit


def _norm_nodes(law: KeyLaw) -> int:
    return 24 if law.head_dim >= 16 else 48


def _kept_full(law: KeyLaw, length: int) -> float:
    """Mean rank over the barrier, full mask."""
    score, norm, weight = law.norms(_norm_nodes(law))
    count = np.array([float(length)])
    share = mean_share(law, norm, count)[:, 0]
    few = _FewNorms(law, score, length * share)
    variance = few.spread(growing_covariance(law, few.norm, count)[:, 0])[:, 0]
    theta = variance * share / np.maximum(1 - share - variance * share, 1e-12)
    row, times = (np.arange(length), np.ones(length)) if length <= 64 else legendre(-0.5, length - 0.5, 48)
    logs = np.log1p(-np.minimum(share[:, None] / (1 + row * theta[:, None]), 1 - 1e-15))
    return float(weight @ -np.expm1(logs @ times)) * length / hardmax_rank_mean(length)


def _kept_causal(law: KeyLaw, length: int) -> float:
    """Mean rank over the barrier, causal mask."""
    if length <= 2:
        return 1.0
    score, norm, weight = law.norms(_norm_nodes(law))
    count, coarse = _counts(length)
    share = mean_share(law, norm, count)
    miss = _miss(
        _suffix(_log_miss(share), count),
        _suffix(share, count),
        _causal_variance(law, _FewNorms(law, score, length * share[:, -1]), count, coarse),
    )
    uniform = np.exp(-_suffix(_log_miss(1 / count[None]), count))
    if count[0] == 1:  # the first row has no choice
        miss[:, 0] = uniform[:, 0] = 0
    return float((length - weight @ _columns(miss, count)) / (length - _columns(uniform, count)[0]))


def _kept_window(law: KeyLaw, length: int, window: int) -> float:
    """Mean rank over the barrier, window mask with length >= 2 window."""
    score, norm, weight = law.norms(_norm_nodes(law))
    count, _ = _counts(window)
    share = mean_share(law, norm, count)
    rows, columns = (np.arange(1.0, window), np.ones(window - 1)) if window <= 32 else legendre(0.5, window - 0.5, 24)
    rows, columns = np.append(rows, window), np.append(columns, length - 2 * window + 1)
    variance = _window_variance(law, _FewNorms(law, score, window * share[:, -1]), window, rows)

    def misses(share: Float[Array, "r C"], variance: Float[Array, "r M"]) -> Float[Array, " r"]:
        last, log_last = share[:, -1:], _log_miss(share)[:, -1:]
        later = _miss(rows * log_last, rows * last, variance) @ columns
        log_sum = _suffix(_log_miss(share), count) + (count - 1) * log_last
        early = _miss(log_sum, _suffix(share, count) + (count - 1) * last, variance[:, -1:])
        if count[0] == 1:
            early[:, 0] = 0
        return later + _columns(early, count)

    uniform = misses(1 / count[None], np.full((1, len(rows)), 1e-12))[0]
    return float((length - weight @ misses(share, variance)) / (length - uniform))


def _miss(
    log_sum: Float[Array, "r C"], mean: Float[Array, "r C"], variance: Float[Array, "r _"]
) -> Float[Array, "r C"]:
    """E[prod (1 - p)] for a sum of shares of this mean and relative variance, gamma closure."""
    return np.exp(np.minimum(-log_sum + mean - np.log1p(variance * mean) / variance, 0))


def _log_miss(share: Float[Array, "r C"]) -> Float[Array, "r C"]:
    return -np.log1p(-np.minimum(share, 1 - 1e-15))


def _counts(length: int) -> tuple[Float[Array, " C"], Float[Array, " c"]]:
    """Ascending numbers of keys that end at ``length``: fine ones for the means, coarse ones for the covariances.

    Rows that see few keys belong to columns that are nearly always hit, so both grids look back a bounded factor.
    """

    def grid(span: int, per_octave: int, dense: tuple[int, ...]) -> Float[Array, " C"]:
        first = max(1.0, length / span)
        geometric = np.geomspace(max(first, dense[-1]), max(length, dense[-1]), 2 + per_octave * int(math.log2(span)))
        every = np.unique(np.concatenate([np.array(dense, dtype=float), np.rint(geometric), [float(length)]]))
        return every[(every >= math.floor(first)) & (every <= length)]

    fine = grid(_FINE_SPAN, _FINE_PER_OCTAVE, tuple(range(1, 17)))
    return fine, grid(_COARSE_SPAN, _COARSE_PER_OCTAVE, (1, 2, 3, 4, 6, 8, 12, 16))


def _suffix(value: Float[Array, "r C"], count: Float[Array, " C"]) -> Float[Array, "r C"]:
    """Sum of ``value`` over all whole numbers from each count to the last; between counts it goes like 1/count."""
    here, there = value[:, :-1], value[:, 1:]
    integral = (here * count[:-1] + there * count[1:]) / 2 * np.log(count[1:] / count[:-1])
    between = np.where(np.diff(count) == 1, here, integral + (here - there) / 2)
    return np.cumsum(np.concatenate([between, value[:, -1:]], axis=1)[:, ::-1], axis=1)[:, ::-1]


def _columns(miss: Float[Array, "r C"], count: Float[Array, " C"]) -> Float[Array, " r"]:
    """Sum of ``miss`` over all columns 1 .. last count, linear between counts, constant before the first."""
    here, there = miss[:, :-1], miss[:, 1:]
    between = (here + there) / 2 * np.diff(count) + (here - there) / 2
    total: Array = between.sum(-1) + miss[:, -1] + (count[0] - 1) * miss[:, 0]
    return total


def _causal_variance(
    law: KeyLaw, few: _FewNorms, count: Float[Array, " C"], coarse: Float[Array, " c"]
) -> Float[Array, "R C"]:
    """Relative variance of the sum of a key's shares over the rows from each count to the last."""
    mass = mean_share(law, few.norm, coarse) * coarse
    covariance = growing_covariance(law, few.norm, coarse, nodes=10)
    gaps = np.append(np.diff(np.log(coarse)), 0.0)
    variance = np.empty((len(few.norm), len(coarse)))
    variance[:, -1] = covariance[:, -1, -1]
    for first in range(len(coarse) - 1):
        width = gaps[first:].copy()
        width[1:] += gaps[first:-1]
        part = mass[:, first:] * width
        part /= np.maximum(part.sum(-1, keepdims=True), 1e-300)
        variance[:, first] = (part[:, None] @ covariance[:, first:, first:] @ part[:, :, None])[:, 0, 0]
    return few.spread(np.stack([np.interp(np.log(count), np.log(coarse), row) for row in variance]))


def _window_variance(law: KeyLaw, few: _FewNorms, window: int, rows: Float[Array, " M"]) -> Float[Array, "R M"]:
    """Relative variance of the sum of a key's shares over ``rows`` consecutive rows that see ``window`` keys each."""
    lags = np.unique(np.rint(np.linspace(0, window - 1, min(window, _LAGS))))
    covariance = sliding_covariance(law, few.norm, window, lags, nodes=10)
    dense = min(window, _DENSE_WINDOW)
    lag = np.arange(dense)
    every = np.stack([np.interp(lag * (window / dense), lags, row) for row in covariance])
    every[:, 1:] *= 2
    scaled = np.maximum(rows * (dense / window), 1.0)
    weight = np.maximum(scaled[:, None] - lag, 0) / scaled[:, None] ** 2
    return few.spread(every @ weight.T)


class _FewNorms:
    """Covariances are dear and smooth in the norm: compute them at few norms, interpolate their logarithm.

    ``expected`` is the mean number of rows that pick a key of each norm; where it is hopelessly small, the variance
    has no part in the result and is not resolved.
    """

    def __init__(self, law: KeyLaw, score: Float[Array, " R"], expected: Float[Array, " R"], nodes: int = 8) -> None:
        low = float(score[np.argmax(expected > 1e-3)])
        few, self.norm, _ = law.norms(nodes, low)
        gaps = few[:, None] - few + np.eye(len(few))
        ahead = np.maximum(score, low)[:, None, None] - few
        # Lagrange polynomials of the coarse scores at the fine ones
        same = np.eye(len(few), dtype=bool)
        self.basis = np.prod(np.where(same, 1.0, ahead / gaps), axis=-1)

    def spread(self, variance: Float[Array, "r C"]) -> Float[Array, "R C"]:
        """``variance`` at all norms."""
        logs: Array = self.basis @ np.log(np.maximum(variance, 1e-12))
        return np.exp(logs)
