"""Retrieval error against rank: evaluated where asked, remembered, searched for the smallest rank."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from rankwise.measure.bisection import smallest
from rankwise.need.forms import Form
from rankwise.need.retrieval import CandidateSets, Interval, Pool, Retrieved, bootstrap_weights, retrieve, scored


@dataclass(frozen=True)
class FormCurve:
    """The forms of one rank, whose scores are averaged (several where they were drawn at random), and their origin."""

    forms: list[Form]
    origin: str


@dataclass(frozen=True)
class CurvePoint:
    """One rank of a curve; ``form`` says where the form came from."""

    rank: int
    error: Interval
    recall: Interval
    form: str


class RankCurve:
    """A family of forms, one for each rank, on one set of questions."""

    def __init__(
        self, pool: Pool, questions: CandidateSets, forms_at: Callable[[int], FormCurve], *, seed: int
    ) -> None:
        self._pool, self._questions, self._forms_at, self._seed = pool, questions, forms_at, seed
        self._known: dict[int, CurvePoint] = {}

    def at(self, rank: int) -> CurvePoint:
        """The score at ``rank``, with the same bootstrap draws at every rank."""
        if rank not in self._known:
            found = self._forms_at(rank)
            weights = bootstrap_weights(len(self._questions.asked), self._seed)
            scores = [scored(self._retrieved(form), weights) for form in found.forms]
            self._known[rank] = CurvePoint(
                rank,
                _averaged([score.error for score in scores]),
                _averaged([score.recall for score in scores]),
                found.origin,
            )
        return self._known[rank]

    def error(self, rank: int) -> float:
        """The error at ``rank`` alone, without its interval and not remembered."""
        if rank in self._known:
            return self._known[rank].error.value
        errors = [self._retrieved(form).error for form in self._forms_at(rank).forms]
        return sum(errors) / len(errors)

    @property
    def ranks(self) -> list[int]:
        """The ranks looked at so far."""
        return sorted(self._known)

    @property
    def points(self) -> list[CurvePoint]:
        """What is known so far, by rank."""
        return [self._known[rank] for rank in self.ranks]

    def _retrieved(self, form: Form) -> Retrieved:
        return retrieve(self._questions, self._pool.queries @ form.left, self._pool.keys @ form.right)


def rank_grid(dim: int) -> list[int]:
    """1, 2, 3, 4, 6, 8, 12, 16, 24, ... and dim."""
    grid = {dim}
    step = 1
    while step <= dim:
        grid |= {step, min(dim, step * 3 // 2)}
        step *= 2
    return sorted(grid)


def isotropic_ranks(ranks: list[int], dim: int) -> list[int]:
    """``ranks`` and sixteenths of dim: the isotropic curve falls where the grid of a measurement is wide."""
    return sorted({*ranks, *(max(1, dim * part // 16) for part in range(1, 17))})


def smallest_rank(error: Callable[[int], float], dim: int, target: float) -> int:
    """The smallest rank in 1..dim whose error is at most ``target``; that of ``dim`` is 0, the inner product's own."""
    return smallest(lambda rank: error(rank) <= target, dim)


def _averaged(intervals: list[Interval]) -> Interval:
    count = len(intervals)
    return Interval(*(sum(getattr(one, end) for one in intervals) / count for end in ("value", "low", "high")))
