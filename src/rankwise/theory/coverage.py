"""How much of the sign's energy H heads cover and leave: the sums behind ``bounds``, bracketed from both sides.

With s_l the share of the degree-l harmonics that one head covers, H heads leave at least
``1/2 sum_l eta_l^2 max(0, 1 - H s_l)``. The shares fall with the degree (proved for scaled-identity values; for the
other two forms checked exactly, see the tests, and a share that did not fall could only make the result smaller than
the sum, never larger), so the sum starts at the first degree with H s_l < 1 and splits into two completely monotone
tails: the energy, and the energy times the coverage.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float

from rankwise.theory.harmonics import energy, half_step, log_coverage, log_rising, sign_energy
from rankwise.theory.monotone_sums import Bracket, BracketRule, bracket_rule

Degrees = Float[np.ndarray, " nodes"]

_NEGLIGIBLE = 45.0
"""Nats below which a coverage no longer decides the width of the blocks."""


@dataclass(frozen=True)
class Coverage:
    """The share s_l that one head covers, written so that ``eta_l^2 s_l`` can be summed from both sides.

    ``log_share(l)`` is log s_l for one degree. ``parts(rule, log_heads)`` are signed terms at the rule's degrees, each
    completely monotone where the rule is not exact, that add up to ``exp(log_heads) eta_l^2 s_l``. For large degrees
    s_l falls like ``multiplicity Gamma(d-1) / (2 Gamma(r)) l^-(d-1-r)``.
    """

    dim: int
    rank: int
    steepest_rank: int
    multiplicity: int
    log_share: Callable[[float], float]
    parts: Callable[[BracketRule, float], list[tuple[int, Degrees]]]

    @property
    def decay(self) -> int:
        """p in s_l ~ l^-p."""
        return self.dim - 1 - self.rank

    def log_power_law(self, log_degree: float) -> float:
        """log of the leading power of s_l."""
        constant = float(log_rising(np.array(float(self.rank)), np.array(float(self.decay))))
        return constant + math.log(self.multiplicity / 2) - self.decay * log_degree

    def is_power_law_from(self, log_degree: float) -> bool:
        """Whether s_l and eta_l^2 are their leading powers to better than 1e-13 from this degree on."""
        return log_degree > math.log(1e14 * self.dim * (self.decay + 1))

    def log_first_open_degree(self, log_heads: float) -> float:
        """log of the first odd degree that ``exp(log_heads)`` heads cannot cover; infinity when they cover all."""
        if self.decay == 0 and log_heads + self.log_power_law(0.0) >= 0:
            return math.inf
        far = (log_heads + self.log_power_law(0.0)) / max(self.decay, 1)
        if self.is_power_law_from(far):
            return far
        return math.log(first_odd(lambda degree: log_heads + self.log_share(degree) < 0))

    def tails(self, first: float, log_heads: float) -> tuple[Bracket, Bracket]:
        """Brackets of ``sum eta_l^2`` and ``sum eta_l^2 H s_l`` over the odd degrees from ``first`` on."""
        rule = self._rule(first)
        left = rule.sum(energy(self.dim, rule.degrees), 4e-15)
        accuracy = 2e-15 * (1 + np.minimum(rule.degrees, self.dim) * np.log(self.dim + rule.degrees))
        covered = [(sign, rule.sum(terms, accuracy)) for sign, terms in self.parts(rule, log_heads)]
        low = sum(part.low if sign > 0 else -part.high for sign, part in covered)
        high = sum(part.high if sign > 0 else -part.low for sign, part in covered)

        # Beyond the rule (l + (d-2)/2)^2 eta_l^2 falls to its limit, and the share to its own; a convex sum lies
        # between the trapezoids and the midpoints.
        end = rule.end
        shifted = end + (self.dim - 2) / 2
        rest = Bracket(
            energy_limit(self.dim) * (1 + 1 / shifted) / (2 * shifted),
            float(energy(self.dim, np.array(end))) * shifted**2 / (2 * (shifted - 1)),
        )
        share = math.exp(min(0.0, log_heads + self.log_share(end)))
        limit = math.exp(log_heads + self.log_power_law(0.0)) if self.decay == 0 else 0.0
        whole = Bracket(1.0, 1.0) if first == 1 else Bracket(left.low + rest.low, left.high + rest.high)
        return whole, Bracket(low + limit * rest.low, high + share * rest.high)

    def _rule(self, first: float) -> BracketRule:
        faded = 0.0  # nats the coverage has lost since `first`, at least

        def rate(degree: float) -> float:
            nonlocal faded
            slow = 2 / degree
            if faded > _NEGLIGIBLE:
                return slow
            steep = slow + _log_slope(self.dim, self.steepest_rank, degree)
            step = max(2.0, 0.1 / steep)
            faded += step * _log_slope(self.dim, self.rank, degree + step)
            return steep

        return bracket_rule(first, 1e6 * max(first, self.dim), rate)


def single_coverage(dim: int, rank: int, *, any_values: bool) -> Coverage:
    """One head of rank < dim, dim > 2; the share is M_l/N(d, l) with M_l as in ``bounds``."""

    def up(degree: Degrees | float) -> Degrees | float:
        """M_{l+2} / M_l."""
        return (rank + degree) / (degree + 1) * ((rank + degree + 1) / (degree + 2))

    def down(degree: float) -> float:
        """M_{l-2} / M_l, where M_{-1} = 0."""
        return degree / (rank + degree - 1) * ((degree - 1) / (rank + degree - 2)) if degree > 2 else 0.0

    def log_share(degree: float) -> float:
        share = float(log_coverage(dim, rank, np.array(degree)))
        return share + math.log1p(up(degree) + down(degree)) if any_values else share

    def parts(rule: BracketRule, log_heads: float) -> list[tuple[int, Degrees]]:
        degree = rule.degrees
        own = _covered_energy(dim, rank, degree, log_heads)
        if not any_values:
            return [(1, own)]
        # lambda_l^2 M_{l-2} = eta_m^2 M_m/N_m (m/(m+d))^2 with m = l-2: not monotone itself, but its expanded square
        # (1 - x)^2, x = d/(m+d), is a sum of three terms that are. Where monotony is not needed, neither is the
        # cancellation of the three.
        below = np.maximum(degree - 2, 1.0)
        shifted = np.where(degree < 2, 0.0, _covered_energy(dim, rank, below, log_heads))
        shifted = np.where(rule.exact, (below / (below + dim)) ** 2, 1.0) * shifted
        x = np.where(rule.exact, 0.0, dim / (below + dim))
        return [(1, own), (1, own * up(degree)), (1, shifted), (-1, 2 * x * shifted), (1, x**2 * shifted)]

    return Coverage(dim, rank, rank, 3 if any_values else 1, log_share, parts)


def paired_coverage(dim: int, rank: int, heads: int) -> Coverage:
    """A head's average share when ``heads`` heads of rank < dim are counted in pairs, with scaled-identity values.

    Two subspaces of dimension r meet in 2r-d dimensions at least, so a pair sees at most
    ``2 C(r+l-1, l) - C(2r-d+l-1, l)`` harmonics of degree l.
    """
    shared, weight = 2 * rank - dim, (heads // 2) / heads
    if shared < 1 or weight == 0:
        return single_coverage(dim, rank, any_values=False)

    def log_share(degree: float) -> float:
        alone, both = (float(log_coverage(dim, of, np.array(degree))) for of in (rank, shared))
        return alone + math.log1p(-weight * math.exp(both - alone))

    def parts(rule: BracketRule, log_heads: float) -> list[tuple[int, Degrees]]:
        return [
            (1, _covered_energy(dim, rank, rule.degrees, log_heads)),
            (-1, _covered_energy(dim, shared, rule.degrees, log_heads + math.log(weight))),
        ]

    return Coverage(dim, rank, shared, 1, log_share, parts)


def _covered_energy(dim: int, rank: int, degree: Degrees, log_heads: float) -> Degrees:
    """H eta_l^2 C(r+l-1, l) / N(d, l)."""
    return energy(dim, degree) * np.exp(log_heads + log_coverage(dim, rank, degree))


def circle_shares(*, any_values: bool) -> list[tuple[float, float]]:
    """(energy, share) on the circle, dim 2 and rank 1, where shares do not fall with the degree but are constant.

    N = 2 for every degree; M = 1, or with arbitrary values 2 in degree 1 and 3 above.
    """
    if not any_values:
        return [(1.0, 0.5)]
    linear = sign_energy(2, 1)
    return [(linear, 1.0), (1 - linear, 1.5)]


def energy_limit(dim: int) -> float:
    """lim l^2 eta_l^2 = 8 pi^(-3/2) Gamma(d/2)/Gamma((d-1)/2); also of (l + (d-2)/2)^2 eta_l^2, which falls to it."""
    return 8 / (math.pi * math.sqrt(math.pi)) * float(half_step(np.array((dim - 1) / 2)))


def _log_slope(dim: int, rank: int, degree: float) -> float:
    """-d/dl log(M_l/N), to a few per cent."""
    return math.log1p((dim - 2 - rank) / (degree + rank)) + 1 / (degree + rank) + 1 / (degree + dim / 2)


def first_odd(holds: Callable[[float], bool], *, resolution: float = 1e-15) -> float:
    """The smallest odd number at which a predicate that stays true once true holds, to relative ``resolution``."""
    if holds(1.0):
        return 1.0
    low, high = 0, 1  # of 2k + 1: fails at low, holds at high
    while not holds(2.0 * high + 1):
        low, high = high, 4 * high
    while high - low > max(1.0, resolution * high):
        middle = (low + high) // 2
        low, high = (low, middle) if holds(2.0 * middle + 1) else (middle, high)
    return 2.0 * high + 1
