"""Retrieval: a query, N candidate keys, one key comes back. How far is it from the nearest?

With s the similarity, x* = argmax_j s(x_j, q) the nearest of the candidates and x^ = argmax_j q^T M x_j the one that
the form M retrieves::

    error  = mean ||x^ - x*||^2 / mean ||x_j - x*||^2      j uniform among the candidates, x* included
    recall = share of queries with x^ = x*

Error 1 is a key taken at random, 0 the exact answer. For two orthonormal points a random key costs 1, so there it is
the squared error of the theory in its own units, and the mean of the points would cost 1/2.

Legend: Q queries, C sets of candidates per query, N candidates, K keys to draw from, D dim, R rank, B bootstrap draws.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache

import torch
from jaxtyping import Float, Int
from torch import Tensor

_NUMBERS_AT_ONCE = 1 << 22
_NUMBERS_REMEMBERED = 1 << 26
_CHEAPER_TOGETHER = 64  # products of whole matrices for the price of one between rows that are looked up
_EQUAL = 1e-13  # of their squared lengths: two keys that differ by less than float32 can tell
_TINY = 1e-30  # of a mean distance: all keys are equal and any answer is right
CONFIDENCE = 0.95
BOOTSTRAP = 1000


@dataclass(frozen=True)
class Pool:
    """Queries and the keys their candidates are drawn from. ``own``: query i is key i, and never its answer."""

    queries: Float[Tensor, "Q D"]
    keys: Float[Tensor, "K D"]
    own: bool

    @property
    def most_candidates(self) -> int:
        return len(self.keys) - self.own


@dataclass(frozen=True)
class CandidateSets:
    """What is asked: ``members`` index the pool's keys, ``distances`` are squared, from each key to the nearest."""

    asked: Int[Tensor, " Q"]
    members: Int[Tensor, "Q C N"]
    distances: Float[Tensor, "Q C N"]

    @property
    def size(self) -> int:
        return self.members.shape[-1]


@dataclass(frozen=True)
class Interval:
    """An estimate and its bootstrap interval over queries (95 %, percentiles)."""

    value: float
    low: float
    high: float


@dataclass(frozen=True)
class Score:
    """How a form retrieves."""

    error: Interval
    recall: Interval


def draw_candidates(pool: Pool, size: int, pairs: int, generator: torch.Generator) -> CandidateSets:
    """About ``pairs`` questions: as many different queries as there are, with several sets each when they are few."""
    queries = min(len(pool.queries), pairs)
    asked = torch.randperm(len(pool.queries), generator=generator)[:queries]
    repeats = -(-pairs // queries)
    each = asked.repeat_interleave(repeats)
    members = _members(each, len(pool.keys), size, pool.own, generator)
    places = pair_scores(pool.queries, pool.keys, each, members).argmax(-1, keepdim=True)
    nearest = members.gather(1, places)
    exact = pool.keys.double()
    squares = exact.square().sum(-1)
    across = pair_scores(exact, exact, nearest.squeeze(1), members)
    distances = squares[members] + squares[nearest] - 2 * across
    distances[distances < _EQUAL * (squares[members] + squares[nearest])] = 0.0
    shape = (queries, repeats, size)
    return CandidateSets(asked, members.view(shape), distances.scatter(1, places, 0.0).float().view(shape))


def pair_scores(
    queries: Float[Tensor, "Q2 R"], keys: Float[Tensor, "K R"], asked: Int[Tensor, " P"], members: Int[Tensor, "P N"]
) -> Float[Tensor, "P N"]:
    """``queries[asked[p]] . keys[members[p, n]]``, from whichever is less work: all products, or only those asked."""
    scores = torch.empty(members.shape, dtype=queries.dtype)
    different, place = asked.unique(return_inverse=True)
    if len(different) * len(keys) <= _CHEAPER_TOGETHER * members.numel():
        rows = max(1, _NUMBERS_AT_ONCE // len(keys))
        order = place.argsort(stable=True)
        ends = place.bincount(minlength=len(different)).cumsum(0)
        for start in range(0, len(different), rows):
            stop = min(start + rows, len(different))
            part = order[int(ends[start - 1]) if start else 0 : int(ends[stop - 1])]
            table = queries[different[start:stop]] @ keys.mT
            scores[part] = table[place[part].unsqueeze(1) - start, members[part]]
        return scores
    for part in _parts(len(members), members.shape[1] * keys.shape[1]):
        scores[part] = (keys[members[part]] @ queries[asked[part]].unsqueeze(-1)).squeeze(-1)
    return scores


@dataclass(frozen=True)
class Retrieved:
    """Means over each query's sets: distance lost, distance a random key would lose, share of right answers."""

    lost: Float[Tensor, " Q"]
    at_random: Float[Tensor, " Q"]
    found: Float[Tensor, " Q"]

    @property
    def error(self) -> float:
        return float(self.lost.mean() / self.at_random.mean().clamp(min=_TINY))


def retrieve(sets: CandidateSets, queries: Float[Tensor, "Q2 R"], keys: Float[Tensor, "K R"]) -> Retrieved:
    """The keys that a form retrieves, from its projections of all queries and keys of the pool."""
    asked = sets.asked.repeat_interleave(sets.members.shape[1])
    return retrieved(sets, pair_scores(queries, keys, asked, sets.members.flatten(0, 1)))


def retrieved(sets: CandidateSets, scores: Float[Tensor, "P N"]) -> Retrieved:
    """The keys with the highest scores, from the scores of all candidates of all questions."""
    lost = sets.distances.flatten(0, 1).gather(1, scores.argmax(-1, keepdim=True)).view(sets.members.shape[:2])
    # equal keys are equal answers, whichever of them is retrieved
    return Retrieved(lost.mean(1), sets.distances.mean((1, 2)), (lost == 0).float().mean(1))


class NestedRetrieval:
    """Retrieval by the first r of one list of coordinates, for any r: scores grow by the coordinates between two ranks.

    A curve over all ranks so costs about as much as its last point.

    - ``queries``, ``keys``: the whole pool in those coordinates.
    """

    def __init__(self, sets: CandidateSets, queries: Float[Tensor, "Q2 P"], keys: Float[Tensor, "K P"]) -> None:
        self._sets, self._queries, self._keys = sets, queries, keys
        self._asked = sets.asked.repeat_interleave(sets.members.shape[1])
        self._members = sets.members.flatten(0, 1)
        self._scores: dict[int, Tensor] = {0: torch.zeros(self._members.shape)}

    def at(self, rank: int) -> Retrieved:
        """By the first ``rank`` coordinates."""
        return retrieved(self._sets, self._scores_at(min(rank, self._queries.shape[1])))

    def _scores_at(self, rank: int) -> Tensor:
        if rank in self._scores:
            return self._scores[rank]
        below = max(known for known in self._scores if known < rank)
        between = slice(below, rank)
        added = pair_scores(self._queries[:, between], self._keys[:, between], self._asked, self._members)
        scores = self._scores[below] + added
        if len(self._scores) * scores.numel() <= _NUMBERS_REMEMBERED:
            self._scores[rank] = scores
        return scores


@lru_cache(maxsize=2)
def bootstrap_weights(queries: int, seed: int) -> Float[Tensor, "B Q"]:
    """How often each query is drawn in each of B resamples of the queries."""
    generator = torch.Generator().manual_seed(seed)
    weights = torch.zeros(BOOTSTRAP, queries)
    for row in weights:
        row += torch.bincount(torch.randint(queries, (queries,), generator=generator), minlength=queries)
    return weights


def scored(outcome: Retrieved, weights: Float[Tensor, "B Q"]) -> Score:
    """A ratio of means is resampled as a whole. No mistake among Q queries gives [0, 0]: then read it as below 3/Q."""
    lost, at_random, found = (
        (weights @ torch.stack([outcome.lost, outcome.at_random, outcome.found], 1)).double().unbind(1)
    )
    return Score(
        error=_interval(outcome.error, lost / at_random.clamp(min=_TINY)),
        recall=_interval(float(outcome.found.mean()), found / weights.shape[1]),
    )


def _interval(value: float, draws: Float[Tensor, " B"]) -> Interval:
    tail = (1 - CONFIDENCE) / 2
    low, high = torch.quantile(draws, torch.tensor([tail, 1 - tail], dtype=draws.dtype)).tolist()
    return Interval(value, low, high)


def _members(
    asked: Int[Tensor, " P"], keys: int, size: int, own: bool, generator: torch.Generator
) -> Int[Tensor, "P N"]:
    """``size`` different keys for every question, never the query itself.

    Blocks of a random permutation are different by construction; one key more than needed is drawn and either the
    query or the last one dropped.
    """
    block = size + own
    a_permutation = keys // block
    rounds = -(-len(asked) // a_permutation)
    drawn = torch.cat([torch.randperm(keys, generator=generator)[: a_permutation * block] for _ in range(rounds)])
    drawn = drawn.view(-1, block)[: len(asked)]
    if not own:
        return drawn
    is_query = drawn == asked.unsqueeze(1)
    is_query[:, -1] |= ~is_query.any(1)
    return drawn[~is_query].view(len(asked), size)


def _parts(count: int, numbers_each: int) -> Iterator[slice]:
    step = max(1, _NUMBERS_AT_ONCE // max(numbers_each, 1))
    for start in range(0, count, step):
        yield slice(start, min(start + step, count))
