"""Spherical harmonics of the sign: how the energy of ``sgn<x, y>`` on the sphere spreads over degrees.

Notation: S^(d-1) is the unit sphere of R^d, ``t = <x, y>``, P_l the Gegenbauer polynomial with P_l(1) = 1, so that
``E[P_l(t)^2] = 1/N(d, l)`` for independent uniform x and y. Only odd degrees l carry energy::

    sgn t         = sum_l lambda_l N(d, l) P_l(t)         lambda_l = E[sgn(t) P_l(t)]
    (2/pi) asin t = sum_l eta_l^2 P_l(t)                  eta_l^2  = N(d, l) lambda_l^2,   sum_l eta_l^2 = 1

All closed forms here are classical or our own derivation; none is quoted from the paper.
"""

from __future__ import annotations

import math
from collections.abc import Iterable

import numpy as np
import numpy.typing as npt

from rankwise.errors import InvalidInputError, require_int

Elementwise = npt.NDArray[np.float64]
"""An array of any shape; the result has the same shape."""

# |E_2n| / (n 4^(2n+1)), E the Euler numbers: log of Gamma(x+1/2)/Gamma(x) about its symmetric point x - 1/4.
_HALF_STEP_SERIES = tuple(
    (-1) ** (n + 1) * euler / (n * 4.0 ** (2 * n + 1)) for n, euler in enumerate((1, 5, 61, 1385, 50521, 2702765), 1)
)
# B_2n / (2n (2n-1)): Stirling's correction.
_STIRLING_SERIES = (1 / 12, -1 / 360, 1 / 1260, -1 / 1680, 1 / 1188, -691 / 360360)
_SERIES_FROM = 12
"""Both series are exact to rounding from here on; smaller arguments get there in whole steps."""


def harmonic_dim(dim: int, degree: int) -> int:
    """N(d, l) = C(d+l-1, l) - C(d+l-3, l-2): how many harmonics of degree ``degree`` S^(dim-1) has. Exact."""
    _require_sphere(dim, degree)
    return math.comb(dim + degree - 1, degree) - (math.comb(dim + degree - 3, degree - 2) if degree > 1 else 0)


def visible_dim(rank: int, degree: int) -> int:
    """C(r+l-1, l): how many harmonics of degree ``degree`` a projection to ``rank`` < dim coordinates can see. Exact.

    Our derivation: the harmonic parts of the degree-l forms in r variables are independent as long as r < d (no form
    in fewer than d variables is a multiple of ``|x|^2``). The slides' C(r+l, l) is valid too but loose.
    """
    require_int("rank", rank, minimum=1)
    require_int("degree", degree, minimum=0)
    return math.comb(rank + degree - 1, degree)


def sign_energy(dim: int, degree: int) -> float:
    """eta_l^2, the share of the energy of the sign on S^(dim-1) in degree ``degree``; 0 for even degrees."""
    _require_sphere(dim, degree)
    return float(energy(dim, np.array(float(degree)))) if degree % 2 else 0.0


def sign_eigenvalue(dim: int, degree: int) -> float:
    """lambda_l = (-1)^((l-1)/2) Beta(d/2, l/2) / pi for odd l, 0 for even l (and where it leaves the float range)."""
    if not (share := sign_energy(dim, degree)):
        return 0.0
    count = harmonic_dim(dim, degree)
    # lambda^2 = eta^2 / N; N may be far beyond the floats, its root is not: take out an even power of two.
    shift = max(0, count.bit_length() - 64) & ~1
    size = math.ldexp(math.sqrt(share / (count >> shift)), -shift // 2)
    return -size if degree % 4 == 3 else size


def gegenbauer(dim: int, degree: int, t: npt.ArrayLike) -> npt.NDArray[np.float64]:
    """P_l(t) on S^(dim-1), normalised to P_l(1) = 1, for t in [-1, 1] (elementwise), by the stable recursion.

    ``P_{n+1} = ((2n+d-2) t P_n - n P_{n-1}) / (n+d-2)``; dim 2 gives Chebyshev's, dim 3 Legendre's polynomials.
    """
    _require_sphere(dim, degree)
    cosine = _cosines(t)
    before, now = np.ones_like(cosine), cosine
    if degree == 0:
        return before
    for n in range(1, degree):
        before, now = now, ((2 * n + dim - 2) * cosine * now - n * before) / (n + dim - 2)
    return now


def feature_weight(dim: int, t: npt.ArrayLike, degrees: int | Iterable[int]) -> npt.NDArray[np.float64]:
    """u = sum_l (N(d, l) / lambda_l) P_l(t), t = <q, k>: the weights with which rank-1 heads represent the target.

    ``E_{q,k}[u(<q, k>) sgn<q, y> sgn<k, x>]`` over independent uniform q, k is the sign of <x, y> truncated to the
    same degrees. ``degrees`` is the list of odd degrees, or one number: all odd degrees up to it. The coefficients
    grow without bound with the degree (lambda_l -> 0), so u exists only truncated. Our derivation; the authors'
    picture of u multiplies N by the polynomial of unit norm, where its square root is due.
    """
    chosen = range(1, require_int("degrees", degrees, minimum=1) + 1, 2) if isinstance(degrees, int) else degrees
    cosine = _cosines(t)
    total = np.zeros_like(cosine)
    for degree in chosen:
        if require_int("degrees", degree, minimum=1) % 2 == 0:
            raise InvalidInputError(f"degrees: expected odd degrees (the sign is odd), got {degree}")
        eigenvalue = sign_eigenvalue(dim, degree)
        if abs(eigenvalue) < 1e-100:
            raise InvalidInputError(
                f"degrees: N/lambda of degree {degree} in dimension {dim} leaves the range of floats; "
                f"expected smaller degrees"
            )
        total += harmonic_dim(dim, degree) / eigenvalue * gegenbauer(dim, degree, cosine)
    return total


def energy(dim: int, degree: Elementwise) -> Elementwise:
    """eta_l^2 continued to real degrees, to rounding for any size of ``dim`` and ``degree``.

    The duplication formula leaves half-steps g(x) = Gamma(x+1/2)/Gamma(x) only (our derivation)::

        eta_l^2 = 2 (2l+d-2) / (pi^(3/2) l (l+d-2)) * g((d-1)/2) / (g((l+d-1)/2) g(l/2))
    """
    halves = half_step(np.array((dim - 1) / 2)) / (half_step((degree + dim - 1) / 2) * half_step(degree / 2))
    # Factors are ordered so that no intermediate overflows for degrees up to 1e300.
    return 2 / (math.pi * math.sqrt(math.pi)) * ((2 * degree + dim - 2) / (degree + dim - 2)) / degree * halves


def log_coverage(dim: int, rank: int, degree: Elementwise) -> Elementwise:
    """log(C(r+l-1, l) / N(d, l)) continued to real degrees: the share of degree-l harmonics one head sees.

    ``M/N = Gamma(d-1)/Gamma(r) * Gamma(l+r)/Gamma(l+d-2) / (2l+d-2)``; absolute error below
    ``1e-15 min(l, d) log(d+l)``, since the four Gammas are paired so that the smaller of l and d-r sets the scale.
    """
    gap = dim - 2 - rank
    by_rank = log_rising(np.array(float(rank)), np.array(gap + 1.0)) - log_rising(degree + rank, np.array(float(gap)))
    low = np.minimum(degree, dim - rank)
    by_degree = log_rising(np.array(float(rank)), low) - log_rising(np.array(dim - 1.0), low - 1)
    return np.where(degree < dim - rank, by_degree, by_rank) - np.log(2 * degree + (dim - 2))


def log_rising(x: Elementwise, step: Elementwise) -> Elementwise:
    """log(Gamma(x+step) / Gamma(x)) for x and x+step >= 1, without the cancellation of two large log-gammas.

    The step is an argument of its own because x + step - x loses it once x is beyond 2^53.
    """
    end = x + step
    stirling = (x - 0.5) * np.log1p(step / x) + step * (np.log(end) - 1)
    return np.asarray(stirling + _stirling(end) - _stirling(x))


def half_step(x: Elementwise) -> Elementwise:
    """Gamma(x + 1/2) / Gamma(x) for x > 0, to rounding."""
    shifted, small, steps = _step_up(x)
    z = shifted - 0.25
    value = np.sqrt(z) * np.exp(_even_series(_HALF_STEP_SERIES, z) / z / z)
    value[small] *= np.prod(steps / (steps + 0.5), axis=0)
    return value.reshape(np.shape(x))


def _stirling(x: Elementwise) -> Elementwise:
    """log Gamma(x) minus Stirling's (x - 1/2) log x - x + log(2 pi)/2."""
    shifted, small, steps = _step_up(x)
    value = _even_series(_STIRLING_SERIES, shifted) / shifted
    value[small] += np.sum((steps + 0.5) * np.log1p(1 / steps) - 1, axis=0)
    return value.reshape(np.shape(x))


def _step_up(x: Elementwise) -> tuple[Elementwise, npt.NDArray[np.bool_], Elementwise]:
    """x in one row, raised by _SERIES_FROM where it is smaller than that; which are; and [steps, small] their way."""
    flat = np.ravel(x)
    small = flat < _SERIES_FROM
    steps = flat[small] + np.arange(_SERIES_FROM)[:, None]
    return np.where(small, flat + _SERIES_FROM, flat), small, steps


def _even_series(coefficients: tuple[float, ...], x: Elementwise) -> Elementwise:
    """sum_k c_k x^(-2k)."""
    inverse_square = 1 / x / x
    total = np.zeros_like(inverse_square)
    for coefficient in reversed(coefficients):
        total = total * inverse_square + coefficient
    return total


def _cosines(t: npt.ArrayLike) -> npt.NDArray[np.float64]:
    cosine = np.asarray(t, dtype=np.float64)
    if not np.all(np.abs(cosine) <= 1):  # also catches NaN
        raise InvalidInputError("t: expected cosines in [-1, 1]")
    return cosine


def _require_sphere(dim: int, degree: int) -> None:
    require_int("dim", dim, minimum=2)
    require_int("degree", degree, minimum=0)
