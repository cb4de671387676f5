"""One full-rank softmax head at inverse temperature beta: how far ``X softmax(beta X^T y)`` is from the nearest point.

With t_j = <x_j, y>, the largest of them t_1, p = softmax(beta t) and c = e_1 - p, the error vector is ``X c``. All
expectations are exact integrals, by quadrature, but for three or more orthogonal points, where the t_j of one query
depend on each other and a seeded Monte Carlo average is taken over all of them but the largest. Our derivation.
"""

from __future__ import annotations

import math

import numpy as np
from jaxtyping import Float
from scipy.special import betainc, betaincinv, expit

from rankwise.errors import InvalidInputError, require_choice, require_int
from rankwise.theory.arrays import Array
from rankwise.theory.cells import legendre, sphere_density

_DISTRIBUTIONS = ("orthogonal", "uniform")
_CUT = 40.0  # integrands are cut where they fall below exp(-40)
_VALUES_AT_ONCE = 1 << 22
_MOST_POINTS = 10**13  # (1 - p)^N is off by N times the rounding of 1 - p: by .001 here


def softmax_error(
    dim: int, beta: float, *, points: int = 2, distribution: str = "orthogonal", draws: int = 1 << 16, seed: int = 0
) -> float:
    """E ||X softmax(beta X^T y) - x_nearest||^2 for unit x_1..x_N in R^dim and y uniform on the sphere.

    ``orthogonal``: the N <= dim points are orthonormal; for N = 2 it is ``E[2 sigma(-sqrt2 beta |t|)^2]``, about
    0.546 c_d / beta for large beta, by quadrature; for N > 2 the average of ``draws`` seeded samples (relative standard
    error about 1 / sqrt(draws)). ``uniform``: independent uniform points, by quadrature for any N up to 10^13, from
    where on float64 cannot hold the N-th power of a probability.
    """
    require_int("dim", dim, minimum=2)
    require_int("points", points, minimum=2)
    require_choice("distribution", distribution, _DISTRIBUTIONS)
    if isinstance(beta, bool) or not isinstance(beta, int | float) or not 0 <= beta < math.inf:
        raise InvalidInputError(f"beta: expected a finite number of at least 0, got {beta!r}")
    if distribution == "uniform":
        if points > _MOST_POINTS:
            raise InvalidInputError(f"points: expected at most {_MOST_POINTS:.0e} uniform points, got {points}")
        return _uniform(dim, beta, points)
    if points > dim:
        raise InvalidInputError(f"points: at most dim = {dim} points can be orthogonal, got {points}")
    if points == 2:
        return _orthogonal_pair(dim, beta)
    require_int("draws", draws, minimum=1)
    require_int("seed", seed, minimum=0)
    return _orthogonal(dim, beta, points, draws, seed)


def _orthogonal_pair(dim: int, beta: float) -> float:
    end = min(math.pi / 2, math.sqrt(2 * _CUT / dim), 2 * _CUT / max(beta, 1.0))
    angle, weight = legendre(0.0, end, 128)
    density = 2 * np.exp(sphere_density(dim, math.pi / 2 - angle))
    return float(weight @ (density * 2 * expit(-math.sqrt(2) * beta * np.sin(angle)) ** 2))


def _uniform(dim: int, beta: float, points: int) -> float:
    """Integrate over the largest cosine M, with e_j = exp(beta (t_j - M)) and Z = 1 + sum_{j>1} e_j::

        error = Z^-2 [ sum_j e_j^2 (2 - 2 M t_j) + sum_{j != k} e_j e_k ((M - t_j)(M - t_k) + 1 - M^2) ]

    (the parts of the points orthogonal to y are independent with mean zero). ``Z^-2 = int s exp(-s Z) ds`` makes the
    N - 1 others, independent given M, factor: three nested integrals over M, s and t, whatever N is.
    """
    top, mass = _largest_angle(dim, points)
    angle, density = _lower_angles(dim, beta, top)
    highest, cosine = np.sin(top), np.sin(angle)
    # sin(top) - sin(angle) without cancellation
    drop = 2 * np.sin((top[:, None] - angle) / 2) * np.cos((top[:, None] + angle) / 2)
    odds = np.exp(-beta * drop)
    # s spans many scales when many points share the softmax: equal steps of log s
    log_rate = np.arange(math.log(1e-8 / points), math.log(_CUT), 0.2)
    error = 0.0
    below = _below(dim, top)
    for rate in np.exp(log_rate):
        survive = density * np.exp(-rate * odds)
        none = np.maximum(below - (density * -np.expm1(-rate * odds)).sum(-1), 0)
        square = (survive * odds**2 * 2 * (1 - highest[:, None] * cosine)).sum(-1)
        first = (survive * odds * drop).sum(-1)
        zeroth = (survive * odds).sum(-1)
        inner = (points - 1) * square * _power(none, points - 2)
        if points > 2:
            cross = first**2 + np.cos(top) ** 2 * zeroth**2
            inner = inner + (points - 1) * (points - 2) * cross * _power(none, points - 3)
        error += float(0.2 * rate**2 * np.exp(-rate) * (mass @ inner))
    return points * error


def _largest_angle(dim: int, points: int) -> tuple[Float[Array, " M"], Float[Array, " M"]]:
    """Nodes of asin M, weight times density; below the lowest, N - 1 others fit with probability exp(-40)."""
    end = _spread(dim)
    angle, weight = legendre(max(-end, _quantile(dim, math.exp(-_CUT / (points - 1)))), end, 96)
    return angle, weight * np.exp(sphere_density(dim, math.pi / 2 - angle))


def _lower_angles(dim: int, beta: float, top: Float[Array, " M"]) -> tuple[Float[Array, "M T"], Float[Array, "M T"]]:
    """Nodes of asin t < asin M, weight times density, in panels that are short next to M, where exp(beta t) lives."""
    reach = (_CUT + math.log(_CUT)) / max(beta, 1e-300)
    lowest = np.maximum(np.arcsin(np.maximum(np.sin(top) - reach, -1.0)), -_spread(dim))
    edges = top[:, None] - (top - lowest)[:, None] * (np.arange(7) / 6) ** 1.5
    angle, weight = legendre(edges[:, 1:], edges[:, :-1], 16)
    angle, weight = angle.reshape(len(top), -1), weight.reshape(len(top), -1)
    return angle, weight * np.exp(sphere_density(dim, math.pi / 2 - angle))


def _spread(dim: int) -> float:
    """asin t beyond which a coordinate t of a uniform direction has density exp(-40)."""
    return min(math.pi / 2, math.sqrt(2 * _CUT / dim))


def _orthogonal(dim: int, beta: float, points: int, draws: int, seed: int) -> float:
    """With y = g / |g|: N times the mean, over g_2..g_N and the rest of |g|^2, of the integral over g_1 > max g_j."""
    random = np.random.default_rng(seed)
    at_once = max(1, _VALUES_AT_ONCE // (points * 64))
    total = 0.0
    for done in range(0, draws, at_once):
        batch = min(at_once, draws - done)
        others = random.standard_normal((batch, points - 1))
        rest = random.chisquare(dim - points, batch) if dim > points else np.zeros(batch)
        squares = (others**2).sum(axis=1) + rest
        top = others.max(axis=1)
        # the gap to the runner-up matters up to _CUT / beta in units of |g|, and while the normal density lasts
        end = np.minimum(2 * _CUT * np.sqrt(squares + top**2) / max(beta, 1e-300), np.maximum(-top, 0) + 9.0)
        gap, weight = legendre(np.zeros(batch), end, 64)
        first = top[:, None] + gap
        norm = np.sqrt(squares[:, None] + first**2)[..., None]
        odds = np.exp(beta * (others[:, None, :] - first[..., None]) / norm)
        sum_odds = odds.sum(-1)
        error = (sum_odds**2 + (odds**2).sum(-1)) / (1 + sum_odds) ** 2
        total += float((weight * np.exp(-(first**2) / 2) * error).sum())
    return points * total / (draws * math.sqrt(2 * math.pi))


def _below(dim: int, angle: Float[Array, "*shape"]) -> Float[Array, "*shape"]:
    """P[asin t < angle] for a coordinate t of a uniform direction."""
    beyond = 0.5 * betainc((dim - 1) / 2, 0.5, np.cos(angle) ** 2)
    return np.where(angle > 0, 1 - beyond, beyond)


def _quantile(dim: int, probability: float) -> float:
    """The angle with ``_below(dim, angle) == probability``."""
    beyond = min(probability, 1 - probability)
    polar = math.asin(math.sqrt(betaincinv((dim - 1) / 2, 0.5, 2 * beyond)))
    return math.copysign(math.pi / 2 - polar, probability - 0.5)


def _power(base: Float[Array, " M"], exponent: int) -> Float[Array, " M"]:
    with np.errstate(divide="ignore"):
        return np.ones_like(base) if exponent == 0 else np.exp(exponent * np.log(base))
