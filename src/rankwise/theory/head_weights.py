"""The best weights of distinct rank-1 hardmax heads: one linear system, dense when small, matrix-free when large.

With sigma_h = +-1 the sign of a head and s the sign of the target, the system of ``kernels`` splits into a constant
and the Gram matrix of the signs: C = (1 1^T + G)/2, b = (1 + c)/2 with::

    G_ij = E[sigma_i sigma_j] = (2/pi)^2 asin<q_i, q_j> asin<k_i, k_j>,     c_i = E[s sigma_i] = 2 b_i - 1

When complements are among the heads the constant is spanned exactly and G w = c remains. Shapes: M heads, D dim.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from jaxtyping import Float
from scipy.linalg import LinAlgError, cho_factor, cho_solve

from rankwise.theory.harmonics import sign_energy

if TYPE_CHECKING:
    from rankwise.theory.sign_gram import SignGram

Vector = Float[np.ndarray, " M"]

_DENSE_UP_TO = 2048
_DENSE_IN_THE_PLANE_UP_TO = 8192
"""In dimension 2 heads crowd, the kernel is close to singular and iterations are many."""
_DOUBLE_UP_TO = 4
"""Dimensions in which many heads are nearly parallel, where float32 cannot resolve asin."""
_DOUBLE_BELOW = 1e-6
"""Tolerances that the rounding of a float32 kernel does not keep."""
_MAX_STEPS = 1000
_MAX_INNER_STEPS = 200


@dataclass(frozen=True)
class WeightSolution:
    """Weights, the error they have, and how many products with the kernel it took (0: solved densely)."""

    weights: Vector
    error: float
    products: int


def solve_weights(
    queries: Float[np.ndarray, "M D"],
    keys: Float[np.ndarray, "M D"],
    accuracy: Vector,
    *,
    constant_is_free: bool,
    tolerance: float,
    memory: float,
) -> WeightSolution:
    """Minimise ``1 - 2 a.b + a^T C a`` over the weights of distinct heads (``constant_is_free``: see the module)."""
    constant = 0.0 if constant_is_free else 1.0
    target = accuracy - (1 - constant) / 2
    if len(queries) <= (_DENSE_IN_THE_PLANE_UP_TO if queries.shape[1] == 2 else _DENSE_UP_TO):
        weights, product, steps = _solve_dense(queries, keys, target, constant)
    else:
        from rankwise.theory.sign_gram import SignGram

        double = queries.shape[1] <= _DOUBLE_UP_TO or tolerance < _DOUBLE_BELOW
        gram = SignGram(queries, keys, memory=memory, double=double)
        weights, product, steps = _solve_iteratively(gram, target, constant, tolerance)
    error = (1 + constant) / 2 + float(weights @ product - 2 * weights @ target)
    return WeightSolution(weights, error, steps)


def _solve_dense(
    queries: Float[np.ndarray, "M D"], keys: Float[np.ndarray, "M D"], target: Vector, constant: float
) -> tuple[Vector, Vector, int]:
    matrix = np.arcsin(np.clip(queries @ queries.T, -1, 1))
    matrix *= np.arcsin(np.clip(keys @ keys.T, -1, 1))
    matrix *= 2 / math.pi**2
    np.fill_diagonal(matrix, 0.5)
    matrix += constant / 2
    # Distinct heads may still be dependent to rounding; a ridge of that size makes the factorisation exist.
    ridge = np.finfo(np.float64).eps * len(matrix)
    while True:
        try:
            ridged = matrix.copy()
            ridged.flat[:: len(matrix) + 1] += ridge
            factor = cho_factor(ridged, lower=True, overwrite_a=True)
            break
        except LinAlgError:
            ridge *= 10
    weights = cho_solve(factor, target)
    return weights, matrix @ weights, 0


def _solve_iteratively(gram: SignGram, target: Vector, constant: float, tolerance: float) -> tuple[Vector, Vector, int]:
    """Flexible preconditioned conjugate gradients, stopped when the error has at most about ``tolerance`` to lose.

    The preconditioner is the system with G replaced by its linear part and the diagonal that is left,
    ``w (q_i.q_j)(k_i.k_j) + (1 - w) delta_ij`` with w = eta_1^4. With r the residual, ``r.z`` (z the preconditioned
    r) estimates what the error has still to lose; how far the estimate fell short in earlier steps is known by then
    and corrects it.
    """
    linear_share = sign_energy(gram.dim, 1) ** 2

    def apply(x: Vector) -> Vector:
        return np.asarray(constant * np.sum(x) + gram.product(x)) / 2

    def invert_linear(x: Vector, accuracy: float = 1e-4) -> Vector:
        return _conjugate_gradients(
            lambda y: linear_share * gram.linear_product(y) + (1 - linear_share) * y, x, accuracy
        )

    ones = invert_linear(np.ones_like(target), accuracy=1e-2)

    def precondition(x: Vector) -> Vector:
        if not constant:
            return 2 * invert_linear(x)
        # Sherman and Morrison, with the mean of x taken out first: it would drown the rest in the inexact inverse.
        mean = float(np.mean(x))
        inverse = invert_linear(x - mean)
        return np.asarray(2 * (inverse + ones * ((mean - np.sum(inverse)) / (1 + np.sum(ones)))))

    weights, residual = np.zeros_like(target), target.copy()
    preconditioned = precondition(residual)
    direction, descent = preconditioned, float(residual @ preconditioned)
    lost, estimates = [0.0], [descent]  # of the error: lost so far, estimated still to lose
    for step in range(1, _MAX_STEPS + 1):
        image = apply(direction)
        curvature = float(direction @ image)
        if curvature <= 0:  # only rounding is left of the system
            return weights, target - residual, step
        length = descent / curvature
        weights = weights + length * direction
        before, residual = residual, residual - length * image
        lost.append(float(weights @ (target + residual)))
        preconditioned = precondition(residual)
        descent_now = float(residual @ preconditioned)
        estimates.append(descent_now)
        shortfall = max((lost[-1] - then) / estimate for then, estimate in zip(lost[:-1], estimates[:-1], strict=True))
        if 2 * max(1.0, shortfall) * descent_now < tolerance:
            return weights, target - residual, step
        direction = preconditioned + (descent_now - float(before @ preconditioned)) / descent * direction
        descent = descent_now
    warnings.warn(
        f"optimal_weights stopped after {_MAX_STEPS} products with the kernel; the error returned is that of the "
        f"weights returned, but less may be possible",
        RuntimeWarning,
        stacklevel=4,
    )
    return weights, target - residual, _MAX_STEPS


def _conjugate_gradients(apply: Callable[[Vector], Vector], target: Vector, accuracy: float) -> Vector:
    """Solve a well-conditioned positive system to a relative residual of ``accuracy``."""
    solution, residual = np.zeros_like(target), target
    direction, square = residual, float(residual @ residual)
    enough = accuracy**2 * square
    for _ in range(_MAX_INNER_STEPS):
        if square <= enough:
            break
        image = apply(direction)
        length = square / float(direction @ image)
        solution = solution + length * direction
        residual = residual - length * image
        square_before, square = square, float(residual @ residual)
        direction = residual + square / square_before * direction
    return solution
