"""The error that H heads of rank r cannot go below, as a number.

The task: two orthonormal points, one query, all uniform on S^(d-1); answer with the point nearest to the query. For
any layer of H generalised heads of rank r (any score function of the projected points and the query)::

    error >= LB(d, r, H) = 1/2 sum_{odd l} eta_l^2 max(0, 1 - H M_l / N(d, l))

M_l is what one head can see of the N(d, l) harmonics of degree l: ``visible_dim(r, l)`` when every value matrix is a
multiple of the identity, ``visible_dim`` of l-2, l and l+2 together when it is arbitrary. This sharp form is our
derivation after the proof of Theorem 2 of Amsel, Yehudai and Bruna (arXiv 2407.16153), which has unspecified
constants (``theorem2`` shows it). It is proved for this data, one layer, and nothing else.

LB never rises with H or r and never falls with d; docs/theory.md has the proofs.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

from rankwise.errors import InvalidInputError, require_choice, require_int
from rankwise.theory.coverage import Coverage, circle_shares, energy_limit, first_odd, paired_coverage, single_coverage
from rankwise.theory.statements import Regime, Theorem2, Theorem2Constants, match3_load, theorem2

__all__ = [
    "TRIVIAL_ERROR",
    "Bound",
    "Regime",
    "Theorem2",
    "Theorem2Constants",
    "Values",
    "error_lower_bound",
    "error_lower_bound_paired",
    "heads_required",
    "heads_required_log10",
    "match3_load",
    "rank_required",
    "rank_required_at_standard_scaling",
    "theorem2",
]

Values = Literal["scaled_identity", "any"]
TRIVIAL_ERROR = 0.5
"""The error of answering with the mean of the two points, which needs no head."""
_LARGEST_DIM = 10**9
"""Far beyond any model, and still inside the floats in every intermediate."""


@dataclass(frozen=True)
class Bound:
    """A lower bound on an error.

    ``value`` is at most the exact sum, up to rounding; the exact sum is within ``truncation_error`` (which includes
    rounding) of it. ``assumptions`` say under which conditions no layer goes below it.
    """

    value: float
    truncation_error: float
    assumptions: tuple[str, ...]


def error_lower_bound(dim: int, rank: int, heads: float, *, values: Values = "scaled_identity") -> Bound:
    """LB(d, r, H): no ``heads`` generalised heads of rank ``rank`` have a smaller mean squared error.

    ``heads`` may be any real number >= 0 (0 gives 1/2, the error of the mean of the points). ``values`` is what the
    value matrices may be: ``"scaled_identity"`` (V_h = a_h I; the bound is attained for H = 1 and, in the limit of
    exactly distinct directions, for r = 1) or ``"any"``. With rank = dim one head is exact and the bound is 0.
    """
    _require_shape(dim, rank, values)
    log_heads = _log_heads(heads)
    return _bound(dim, rank, heads, log_heads, values)


def error_lower_bound_paired(dim: int, rank: int, heads: int) -> Bound:
    """LB with the heads counted in pairs: sharper for 2 rank > dim and at least two heads (scaled-identity values).

    Two heads of rank r share at least 2r-d directions and see together ``2 C(r+l-1, l) - C(2r-d+l-1, l)`` harmonics
    of degree l, not 2 C(r+l-1, l). Never below ``error_lower_bound``; needs a whole number of heads. Our derivation.
    """
    _require_shape(dim, rank, "scaled_identity")
    require_int("heads", heads, minimum=0)
    if rank == dim or dim == 2 or heads == 0:
        return error_lower_bound(dim, rank, heads)
    return _summed(paired_coverage(dim, rank, heads), math.log(heads), _assumptions("scaled_identity"))


def heads_required(dim: int, rank: int, error: float, *, values: Values = "scaled_identity") -> float:
    """The largest real H with LB(d, r, H) >= ``error``: that many heads still cannot do better. inf above 1e300.

    More heads are necessary, not sufficient. With rank = dim it is below 1.
    """
    log_heads = math.log(10) * heads_required_log10(dim, rank, error, values=values)
    return 0.0 if error == TRIVIAL_ERROR else math.exp(log_heads) if log_heads < 300 * math.log(10) else math.inf


def heads_required_log10(dim: int, rank: int, error: float, *, values: Values = "scaled_identity") -> float:
    """log10 of ``heads_required``, always finite: for error = 1/2, which no head reaches, that of the least float."""
    _require_shape(dim, rank, values)
    _require_error(error)
    if error == TRIVIAL_ERROR:
        return math.log10(math.ulp(0.0))
    if rank == dim:
        return math.log10(1 - 2 * error)
    if dim == 2:
        return math.log10(_circle_heads(error, values))
    return _solve_log_heads(single_coverage(dim, rank, any_values=values == "any"), error) / math.log(10)


def rank_required(dim: int, heads: float, error: float, *, values: Values = "scaled_identity") -> int:
    """The smallest rank with LB(d, r, H) < ``error``: below it ``heads`` heads cannot reach the error.

    ``heads`` must be at least 1 (with rank = dim one head is exact, so there is always an answer).
    """
    _require_shape(dim, 1, values)
    _require_error(error)
    log_heads = _log_heads(heads)
    if log_heads < 0:
        raise InvalidInputError(f"heads: expected at least 1, got {heads!r}")
    return _first_rank(dim, lambda rank: _bound(dim, rank, heads, log_heads, values).value < error)


def rank_required_at_standard_scaling(dim: int, error: float, *, values: Values = "scaled_identity") -> int:
    """The smallest rank with LB(d, r, d/r) < ``error`` at the standard budget of heads = dim / rank (a real number).

    At this budget the heads cover the linear part of the target (H M_1 = d = N(d, 1)) whatever the rank, and hardly
    anything else unless the rank is close to dim.
    """
    _require_shape(dim, 1, values)
    _require_error(error)
    return _first_rank(dim, lambda rank: error_lower_bound(dim, rank, dim / rank, values=values).value < error)


def _bound(dim: int, rank: int, heads: float, log_heads: float, values: Values) -> Bound:
    assumptions = _assumptions(values)
    if heads == 0:
        return Bound(TRIVIAL_ERROR, 0.0, assumptions)
    if rank == dim:
        return Bound(max(0.0, 1 - heads) / 2, 0.0, assumptions)
    if dim == 2:
        value = 0.0 if heads >= 2 else _circle_error(circle_shares(any_values=values == "any"), heads)
        return Bound(value, 1e-15, assumptions)
    return _summed(single_coverage(dim, rank, any_values=values == "any"), log_heads, assumptions)


def _summed(coverage: Coverage, log_heads: float, assumptions: tuple[str, ...]) -> Bound:
    log_first = coverage.log_first_open_degree(log_heads)
    if coverage.is_power_law_from(log_first):
        # 1/2 of the sum of A/l^2 (1 - (first/l)^p) over odd l >= first; 0 when all degrees are covered
        whole = energy_limit(coverage.dim) / 4 * math.exp(-log_first)
        return Bound(whole * coverage.decay / (1 + coverage.decay), 1e-12 * whole, assumptions)
    first = 2.0 * round((math.exp(log_first) - 1) / 2) + 1
    left, covered = coverage.tails(first, log_heads)
    low, high = (left.low - covered.high) / 2, (left.high - covered.low) / 2
    value = min(max(low, 0.0), TRIVIAL_ERROR)
    return Bound(value, max(0.0, high - value), assumptions)


def _solve_log_heads(coverage: Coverage, error: float) -> float:
    """log H with LB(H) = error: LB is linear in H as long as the first open degree stays the same."""
    # The first open degree if all were power laws; for p = 0 if s_l = s_inf (1 + (d-2)/(2l)), which is then s_inf to
    # the accuracy of the sums.
    decay = coverage.decay
    log_ratio = math.log(energy_limit(coverage.dim) / 4) - math.log(error)
    if decay:
        log_far = log_ratio + math.log(decay / (1 + decay))
        far_enough = coverage.is_power_law_from(log_far)
    else:
        log_far = (log_ratio + math.log(coverage.dim)) / 2
        far_enough = log_far > math.log(1e12 * coverage.dim)
    if far_enough:
        return -coverage.log_power_law(log_far)

    def error_at(degree: float) -> float:
        """LB where the heads just cover ``degree``."""
        left, covered = coverage.tails(degree, -coverage.log_share(degree))
        return (left.low - covered.high) / 2

    first = _first_degree_below(error_at, error, largest=1e15 * coverage.dim * (decay + 1))
    log_scale = -coverage.log_share(first)
    left, covered = coverage.tails(first, log_scale)
    return log_scale + math.log((left.low - 2 * error) / covered.high)


def _first_degree_below(error_at: Callable[[float], float], error: float, largest: float) -> float:
    """The first odd degree whose ``error_at`` is below ``error``, in few evaluations: it falls like a power."""
    bisected, resolved = 63.0, 1e9  # up to the first bisection is as quick, beyond the other neighbours are as good
    if error_at(bisected) < error:
        return first_odd(lambda degree: error_at(degree) < error)
    log_degree = _root_of_falling(
        lambda log_degree: math.log(max(error_at(math.exp(log_degree)), math.ulp(0.0)) / error),
        math.log(bisected),
        math.log(largest),
    )
    degree = 2.0 * round((math.exp(log_degree) - 1) / 2) + 1
    if degree < resolved:
        degree += 0 if error_at(degree) < error else 2
        degree -= 2 if error_at(degree - 2) < error else 0
    return degree


def _root_of_falling(function: Callable[[float], float], low: float, high: float) -> float:
    """The root of an almost linear function by false position; scipy's solvers take longer to import than to run."""
    at_low, at_high = function(low), function(high)
    stayed = 0
    while high - low > 1e-12 * high:
        middle = low + (high - low) * at_low / (at_low - at_high)
        at_middle = function(middle)
        if abs(at_middle) < 1e-11:
            return middle
        # An end that stays twice counts half (Illinois), or false position would creep.
        if at_middle > 0:
            low, at_low = middle, at_middle
            at_high, stayed = (at_high / 2 if stayed > 0 else at_high), 1
        else:
            high, at_high = middle, at_middle
            at_low, stayed = (at_low / 2 if stayed < 0 else at_low), -1
    return high


def _first_rank(dim: int, reaches: Callable[[int], bool]) -> int:
    """The smallest rank in 1..dim that ``reaches``, a predicate that stays true once true and is true at dim."""
    low, high = 0, dim
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if reaches(middle) else (middle, high)
    return high


def _circle_error(shares: list[tuple[float, float]], heads: float) -> float:
    return sum(energy * max(0.0, 1 - heads * share) for energy, share in shares) / 2


def _circle_heads(error: float, values: Values) -> float:
    """The inverse of ``_circle_error``, linear between the points where a share is used up."""
    shares = circle_shares(any_values=values == "any")
    while shares:
        energy, covered = sum(part for part, _ in shares), sum(part * share for part, share in shares)
        heads = (energy - 2 * error) / covered
        if heads * max(share for _, share in shares) <= 1:
            return heads
        shares.remove(max(shares, key=lambda entry: entry[1]))
    raise AssertionError("an error in (0, 1/2) is reached before all shares are used up")


def _assumptions(values: Values) -> tuple[str, ...]:
    return (
        "two orthonormal points and one query, uniform on the sphere",
        "one layer of generalised heads of that rank, no residual, no feed-forward layer",
        "value matrices a_h I" if values == "scaled_identity" else "any value matrices",
        "mean squared error against the nearest point",
    )


def _require_shape(dim: int, rank: int, values: str) -> None:
    if require_int("dim", dim, minimum=2) > _LARGEST_DIM:
        raise InvalidInputError(f"dim: expected at most {_LARGEST_DIM:,}, got {dim}")
    require_int("rank", rank, minimum=1)
    require_choice("values", values, ("scaled_identity", "any"))
    if rank > dim:
        raise InvalidInputError(f"rank: expected at most dim={dim}, got {rank} (one head of rank dim is exact)")


def _require_error(error: float) -> None:
    if isinstance(error, bool) or not isinstance(error, int | float) or not 0 < error <= TRIVIAL_ERROR:
        raise InvalidInputError(f"error: expected a number in (0, 1/2], got {error!r}")


def _log_heads(heads: float) -> float:
    """log of a number of heads, which may be an integer beyond the floats; -inf for none."""
    if isinstance(heads, bool) or not isinstance(heads, int | float) or not 0 <= heads < math.inf:
        raise InvalidInputError(f"heads: expected a finite number of at least 0, got {heads!r}")
    return math.log(heads) if heads else -math.inf
