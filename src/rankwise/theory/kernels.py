"""Rank-1 hardmax heads in closed form: how often they agree, how often they are right, and their best weights.

A head with unit vectors q, k picks x_1 over x_2 iff ``<q, y> <k, x_1 - x_2> > 0``. With two orthonormal points, a
uniform query and value matrices a_h I, everything the squared error needs is a probability::

    C = P[two heads pick the same point]   = 1/2 + (2/pi^2) asin<q, q'> asin<k, k'>
    b = P[a head picks the nearest point]  = 1/2 + 1/2 sum_{odd l} N lambda_l^3 P_l(<q, k>)
    error(a) = 1 - 2 a.b + a^T C a,   least for C a = b:  1 - b^T C^+ b

All of this is our derivation, exact for every dimension. Shapes: H heads, D dim.
"""

from __future__ import annotations

import math
from functools import lru_cache

import numpy as np
import numpy.typing as npt
from jaxtyping import Float
from numpy.polynomial import Chebyshev
from scipy.special import hyp2f1

from rankwise.errors import InvalidInputError, ShapeError, require_int
from rankwise.theory.harmonics import half_step
from rankwise.theory.head_classes import merge_heads
from rankwise.theory.head_weights import solve_weights

Vector = Float[np.ndarray, " H"]


def head_agreement(qq: npt.ArrayLike, kk: npt.ArrayLike) -> npt.NDArray[np.float64]:
    """C = 1/2 + (2/pi^2) asin(qq) asin(kk) for ``qq = <q, q'>``, ``kk = <k, k'>`` (clipped to [-1, 1]; broadcast)."""
    return 0.5 + 2 / math.pi**2 * _asin("qq", qq) * _asin("kk", kk)


def head_accuracy(dim: int, theta: npt.ArrayLike) -> npt.NDArray[np.float64]:
    """b(theta), theta in [0, pi] the angle between q and k: how often the head picks the nearest point.

    The harmonic series of the module's head sums to an integral without cancellation (our derivation)::

        b = 1/2 + (2/pi^2) E[rho] int_0^cos(theta) 2F1(1/2, 1/2; (d+1)/2; 1 - v^2) dv,
        E[rho] = Gamma(3/2) Gamma(d/2) / Gamma((d+1)/2)

    dim 2 gives ``1/2 + sgn(pi/2 - theta) (1/4 - (t/pi)^2)``, t = min(theta, pi - theta).
    """
    require_int("dim", dim, minimum=2)
    angle = np.asarray(theta, dtype=np.float64)
    if not np.all((angle >= 0) & (angle <= math.pi)):
        raise InvalidInputError("theta: expected angles in [0, pi]")
    return _accuracy_at(dim, np.cos(angle))


def random_features(dim: int, heads: int, seed: int) -> tuple[Float[np.ndarray, "H D"], Float[np.ndarray, "H D"]]:
    """Queries and keys of the random-features experiment: q uniform, <q, k> uniform on [-1, 1], k a unit vector.

    The authors' code does not renormalise its keys after projecting them; with unit keys the error at dim 8 and 2048
    heads is .170 where their figure shows .160.
    """
    require_int("dim", dim, minimum=2)
    require_int("heads", heads, minimum=1)
    random = np.random.default_rng(require_int("seed", seed, minimum=0))
    queries = _unit_rows("queries", random.standard_normal((heads, dim)))
    side = random.standard_normal((heads, dim))
    side = _unit_rows("side", side - np.sum(side * queries, axis=1, keepdims=True) * queries)
    cosine = random.uniform(-1, 1, (heads, 1))
    return queries, _unit_rows("keys", cosine * queries + np.sqrt(1 - cosine**2) * side)


def optimal_weights(
    queries: npt.ArrayLike,
    keys: npt.ArrayLike,
    *,
    tolerance: float = 1e-5,
    memory: float = 2e9,
) -> tuple[Vector, float]:
    """The weights a that make ``sum_h a_h head_h`` err least, and that least error.

    Heads that are the same function ((q, k) and (-q, -k)) share their weight, complements ((q, k) and (q, -k)) are
    solved as the one direction they span. Up to 2048 distinct heads, in dim 2 up to 8192, the system is solved densely
    in float64. Beyond, conjugate gradients, preconditioned with the linear part of the kernel, run on its tiles. The
    error returned is the error of the weights returned.

    - ``queries``, ``keys``: [H, D]; a head does not depend on their lengths, so rows are normalised.
    - ``tolerance``: conjugate gradients end when the error is within about this of the least.
    - ``memory``: bytes for tiles of the kernel, which are computed anew where they do not fit; the dense solution takes
      a few times 8 H^2 bytes whatever it says.
    """
    if not 0 < tolerance < 1:
        raise InvalidInputError(f"tolerance: expected a number in (0, 1), got {tolerance!r}")
    if not memory >= 0:
        raise InvalidInputError(f"memory: expected a number of bytes of at least 0, got {memory!r}")
    unit_queries, unit_keys = _unit_rows("queries", queries), _unit_rows("keys", keys)
    if unit_queries.shape != unit_keys.shape:
        raise ShapeError(
            f"queries and keys: expected one shape [heads, dim], got {unit_queries.shape} and {unit_keys.shape}"
        )
    classes = merge_heads(unit_queries, unit_keys)
    accuracy = _accuracy_at(unit_queries.shape[1], np.clip(np.sum(classes.queries * classes.keys, axis=1), -1, 1))
    solution = solve_weights(
        classes.queries,
        classes.keys,
        accuracy,
        constant_is_free=classes.has_complements,
        tolerance=tolerance,
        memory=memory,
    )
    return classes.share(solution.weights), solution.error


def _accuracy_at(dim: int, cosine: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    return np.asarray(0.5 + np.sign(cosine) * _accuracy_integral(dim)(np.abs(cosine) ** 0.25))


@lru_cache(maxsize=64)
def _accuracy_integral(dim: int) -> Chebyshev:
    """w -> b - 1/2 at cos(theta) = w^4, a variable in which the integrand's term |v|^(d-1) is smooth enough."""
    scale = math.sqrt(math.pi) / math.pi**2 / float(half_step(np.array(dim / 2)))

    def integrand(w: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
        return scale * _hypergeometric((dim + 1) / 2, 1 - w**8) * 4 * w**3

    return Chebyshev.interpolate(integrand, 64, domain=[0, 1]).integ(lbnd=0)


def _hypergeometric(c: float, x: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    """2F1(1/2, 1/2; c; x) on [0, 1]. scipy returns NaN for large c, where the series itself is short."""
    if c < 20:
        return np.asarray(hyp2f1(0.5, 0.5, c, x))
    total, term = np.ones_like(x), np.ones_like(x)
    for j in range(64):
        term = term * (x * ((j + 0.5) ** 2 / ((j + 1) * (c + j))))
        total += term
    return total


def _asin(name: str, cosine: npt.ArrayLike) -> npt.NDArray[np.float64]:
    values = np.asarray(cosine, dtype=np.float64)
    if not np.all(np.abs(values) <= 1 + 1e-6):
        raise InvalidInputError(f"{name}: expected inner products of unit vectors, in [-1, 1]")
    return np.arcsin(np.clip(values, -1, 1))


def _unit_rows(name: str, rows: npt.ArrayLike) -> Float[np.ndarray, "H D"]:
    array = np.asarray(rows, dtype=np.float64)
    if array.ndim != 2 or array.shape[0] < 1 or array.shape[1] < 2:
        raise ShapeError(f"{name}: expected an array [heads, dim] with dim >= 2, got shape {array.shape}")
    # Dividing by the largest entry first keeps the norm of very long and very short rows inside the floats.
    scale = np.max(np.abs(array), axis=1, keepdims=True)
    if not np.all(np.isfinite(scale) & (scale > 0)):
        raise InvalidInputError(f"{name}: expected finite rows that are not zero")
    scaled = array / scale
    return np.asarray(scaled / np.linalg.norm(scaled, axis=1, keepdims=True))
