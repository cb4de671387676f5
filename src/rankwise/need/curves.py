"""Retrieval error against rank: evaluated where asked, remembered, searched for the smallest rank."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from rankwise.measure import smallest
from rankwise.need.document import NeedPoint
from rankwise.need.forms import Form
from rankwise.need.retrieval import (
    CandidateSets,
    Interval,
    NestedRetrieval,
    Pool,
    Retrieved,
    bootstrap_weights,
    scored,
)


@dataclass(frozen=True)
class CurvePoint:
    """One rank of a curve; ``form`` says where the form came from."""

    rank: int
    error: Interval
    recall: Interval
    form: str

    def plain(self) -> NeedPoint:
        """As it stands in the report."""
        return NeedPoint(
            rank=self.rank,
            form=self.form,
            error=self.error.value,
            error_low=self.error.low,
            error_high=self.error.high,
            recall=self.recall.value,
            recall_low=self.recall.low,
            recall_high=self.recall.high,
        )


Retriever = Callable[[int], Retrieved]
"""The keys that forms of a rank retrieve."""


def nested(pool: Pool, questions: CandidateSets, form: Form) -> Retriever:
    """By the first coordinates of ``form``."""
    return NestedRetrieval(questions, pool.queries @ form.left, pool.keys @ form.right).at


class RankCurve:
    """A family of forms, one or several of each rank, on one set of questions.

    - ``retrievers``: of several, whose forms were drawn at random, errors and recalls are averaged.
    - ``origin``: where its forms came from, or the function that says it of a rank.
    """

    def __init__(self, retrievers: Sequence[Retriever], origin: str | Callable[[int], str], *, seed: int) -> None:
        self._retrievers, self._origin, self._seed = retrievers, origin, seed
        self._known: dict[int, CurvePoint] = {}

    def at(self, rank: int) -> CurvePoint:
        """The score at ``rank``, with the same bootstrap draws at every rank."""
        if rank not in self._known:
            outcomes = [retriever(rank) for retriever in self._retrievers]
            weights = bootstrap_weights(len(outcomes[0].lost), self._seed)
            scores = [scored(outcome, weights) for outcome in outcomes]
            self._known[rank] = CurvePoint(
                rank,
                _averaged([score.error for score in scores]),
                _averaged([score.recall for score in scores]),
                self._origin if isinstance(self._origin, str) else self._origin(rank),
            )
        return self._known[rank]

    def error(self, rank: int) -> float:
        """The error at ``rank`` alone, without its interval and not remembered."""
        if rank in self._known:
            return self._known[rank].error.value
        errors = [retriever(rank).error for retriever in self._retrievers]
        return sum(errors) / len(errors)


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
