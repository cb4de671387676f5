"""Where a curve stops paying: one rule for performance and for rank.

The knee of a curve is its first size within 2 % of its best value, relative to that value. It is found on the mean over
seeds; its interval is the range of the knees of the single seeds (and of the mean). Two knees agree if their intervals
overlap. A rule of thumb, not a test: a curve that is still rising at the last size has its knee there, whatever lies
beyond, and with few seeds the range is a rough one.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from rankwise.errors import InvalidInputError

_WITHIN = 0.02


@dataclass(frozen=True, kw_only=True)
class Knee:
    """The size at which a curve is within 2 % of its best, and the smallest and largest that single seeds give."""

    at: int
    low: int
    high: int

    def agrees_with(self, other: Knee) -> bool:
        """Whether the intervals overlap."""
        return self.low <= other.high and other.low <= self.high

    def __str__(self) -> str:
        return f"{self.at}" if self.low == self.high else f"{self.at} ({self.low} to {self.high})"


def find_knee(curve: Mapping[int, Sequence[float]], *, lower_is_better: bool) -> Knee:
    """The knee of ``curve``: by size, one value per seed, the seeds in the same order everywhere."""
    counts = {len(values) for values in curve.values()}
    if not curve or len(counts) != 1 or 0 in counts:
        raise InvalidInputError(f"curve: expected as many seeds at every size, at least one, got {sorted(counts)}")
    sizes, seeds = sorted(curve), range(counts.pop())
    mean = _first({size: sum(curve[size]) / len(curve[size]) for size in sizes}, lower_is_better)
    single = [_first({size: curve[size][seed] for size in sizes}, lower_is_better) for seed in seeds]
    return Knee(at=mean, low=min([mean, *single]), high=max([mean, *single]))


def first_crossing(curve: Mapping[int, float], level: float) -> float | None:
    """Where a falling ``curve`` first falls to ``level``, interpolated between sizes; None where it does not cross."""
    for low, high in itertools.pairwise(sorted(curve)):
        if curve[low] > level >= curve[high]:
            return low + (high - low) * (curve[low] - level) / (curve[low] - curve[high])
    return None


def _first(values: Mapping[int, float], lower_is_better: bool) -> int:
    best = min(values.values()) if lower_is_better else max(values.values())
    slack = _WITHIN * abs(best)
    return next(size for size, value in sorted(values.items()) if abs(value - best) <= slack)
