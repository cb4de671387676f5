"""Theorems as their authors state them. They have unspecified constants: a shape to look at, not a number to trust."""

from __future__ import annotations

import math
from dataclasses import dataclass, fields

from rankwise.errors import InvalidInputError, require_int


@dataclass(frozen=True, kw_only=True)
class Theorem2Constants:
    """The universal constants of Theorem 2. The paper proves that some exist and gives no values: choose and say so."""

    small_c: float
    small_c_prime: float
    big_c: float
    big_c_prime: float

    def __post_init__(self) -> None:
        for field in fields(self):
            _require_positive(f"constants.{field.name}", getattr(self, field.name))


@dataclass(frozen=True)
class Regime:
    """One of the two cases of Theorem 2: the conditions that fail, and how many heads it excludes when none does."""

    name: str
    failing: tuple[str, ...]
    heads_log10: float | None

    @property
    def applies(self) -> bool:
        """Whether all conditions hold."""
        return not self.failing


@dataclass(frozen=True)
class Theorem2:
    """Theorem 2 evaluated: heads up to 10**heads_log10 have an error of at least ``error`` in a regime that applies."""

    high_accuracy: Regime
    low_accuracy: Regime


def theorem2(dim: int, rank: int, error: float, *, constants: Theorem2Constants) -> Theorem2:
    """Theorem 2 of Amsel, Yehudai and Bruna (arXiv 2407.16153), as stated, with constants the caller must choose.

    Some universal c, c', C, C' exist such that H generalised heads of rank r err by at least eps if either

    1. r <= d-3, eps <= c/(d+1) and H <= C 2^(d - (r+1) log2(2d/r)); or
    2. d >= 5, eps >= c'/(d - 2 e^2 r) and H <= 1/2 (d / (2e (r + C'/eps)))^(C'/eps).

    Regime 1 says nothing once r is about d/2 and regime 2 nothing unless d > 14.8 r (its condition needs
    d > 2 e^2 r). ``error_lower_bound`` computes a number for every shape without any constant.
    """
    require_int("dim", dim, minimum=2)
    require_int("rank", rank, minimum=1)
    _require_positive("error", error)
    if not isinstance(constants, Theorem2Constants):
        raise InvalidInputError(f"constants: expected Theorem2Constants(...), got {constants!r}")

    failing = []
    if rank > dim - 3:
        failing.append("rank <= dim - 3")
    if error > constants.small_c / (dim + 1):
        failing.append("error <= c / (dim + 1)")
    log_heads = math.log(constants.big_c) + math.log(2) * (dim - (rank + 1) * math.log2(2 * dim / rank))
    high = Regime("high accuracy", tuple(failing), None if failing else log_heads / math.log(10))

    failing = []
    if dim < 5:
        failing.append("dim >= 5")
    room = dim - 2 * math.e**2 * rank
    if room <= 0:
        failing.append("dim > 2 e^2 rank")
    elif error < constants.small_c_prime / room:
        failing.append("error >= c' / (dim - 2 e^2 rank)")
    power = constants.big_c_prime / error
    log_heads = power * math.log(dim / (2 * math.e * (rank + power))) - math.log(2)
    low = Regime("low accuracy", tuple(failing), None if failing else log_heads / math.log(10))
    return Theorem2(high, low)


def match3_load(rank: int, heads: int, bits: float, points: int) -> float:
    """rHp/N: one layer cannot compute Match3 on N points unless this is at least of order 1.

    Sanford, Hsu and Telgarsky 2023, p = bits of precision. The constant is unknown, so this is a load, not a verdict.
    """
    require_int("rank", rank, minimum=1)
    require_int("heads", heads, minimum=1)
    require_int("points", points, minimum=1)
    _require_positive("bits", bits)
    return rank * heads * bits / points


def _require_positive(name: str, value: object) -> None:
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 < value < math.inf:
        raise InvalidInputError(f"{name}: expected a finite number above 0, got {value!r}")
