"""The need of given vectors: the smallest rank at which one bilinear form retrieves their nearest neighbours.

The bound of ``theory.bounds`` is about isotropic data, where the need is close to the full dimension. Real keys and
queries have fewer intrinsic dimensions, so their need must be measured: retrieval error against rank
(``retrieval`` defines it) on queries and keys that were held out, for four families of forms

- best: query-weighted SVD, trained on from there where that helps on validation queries (``forms``,
  ``training``),
- svd, pca, random: each without training;

with the isotropic curve of the same dimension beside it as the worst case. A measurement of these vectors under one
similarity and one number of candidates. An upper estimate, for a better form may exist, and a statement about one head
that does nearest-neighbour search, not about what a trained model's heads do.

Legend: Q queries, K keys, D dim.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from typing import Literal

import torch
from jaxtyping import Float, Shaped
from torch import Tensor
from torch.nn.functional import normalize

from rankwise.errors import InvalidInputError, ShapeError, require_choice, require_int, require_number
from rankwise.need.curves import CurvePoint, FormCurve, RankCurve, isotropic_ranks, rank_grid, smallest_rank
from rankwise.need.document import CandidatesNeed, IsotropicPoint
from rankwise.need.forms import balanced_form, inner_product, intrinsic_dimension, moments, pca_form, random_form
from rankwise.need.isotropic import isotropic_error, isotropic_need
from rankwise.need.retrieval import CandidateSets, Interval, Pool, draw_candidates
from rankwise.need.training import Trainer
from rankwise.theory.bounds import error_lower_bound

Similarity = Literal["cosine", "dot"]
SIMILARITIES = ("cosine", "dot")
LEAST_ROWS = 20
"""Queries and keys are divided 5 : 2 : 3 into training, validation and test; each needs a few."""
_OTHER_NUMBERS = (2, 16, 128, 1024)
_RANDOM_DRAWS = 3


@dataclass(frozen=True, kw_only=True)
class NeedSettings:
    """What is asked. The number of candidates defaults to the paper's 16 points, comparable with its figures;
    ``by_candidates`` tells how the need grows beyond. ``questions`` are asked of held-out queries at most, fewer where
    so many candidates would take long."""

    target: float = 0.1
    candidates: int = 16
    similarity: Similarity = "cosine"
    heads: int = 1
    steps: int = 200
    questions: int = 8192
    seed: int = 0

    def __post_init__(self) -> None:
        if not 0 < require_number("target", self.target, above=0) < 1:
            raise InvalidInputError(f"target: expected an error between 0 and 1 (a random key), got {self.target}")
        require_int("candidates", self.candidates, minimum=2)
        require_choice("similarity", self.similarity, SIMILARITIES)
        require_int("heads", self.heads, minimum=1)
        require_int("steps", self.steps, minimum=0)
        require_int("questions", self.questions, minimum=100)
        require_int("seed", self.seed, minimum=0)


@dataclass(frozen=True, kw_only=True)
class Need:
    """The measurement. ``need`` is the smallest rank with an error of at most the target; its interval comes from the
    bootstrap interval of the error: the smallest ranks whose lower and upper ends meet the target."""

    name: str
    dim: int
    keys: int
    queries: int
    own_queries: bool
    candidates: int
    settings: NeedSettings
    need: Interval
    need_svd: int
    need_pca: int
    need_random: int
    need_isotropic: int
    key_dimension: float
    query_dimension: float
    curves: dict[str, list[CurvePoint]]
    isotropic: list[IsotropicPoint]
    by_candidates: list[CandidatesNeed]
    notes: list[str]


Progress = Callable[[str], None]
"""Told what has just been done."""


def measure_need(
    keys: Shaped[Tensor, "..."],
    queries: Shaped[Tensor, "..."] | None = None,
    *,
    settings: NeedSettings | None = None,
    name: str = "vectors",
    progress: Progress | None = None,
) -> Need:
    """Measure ``keys`` [K, D] with ``queries`` [Q, D]; without queries the keys ask for each other."""
    settings = settings or NeedSettings()
    tell = progress or (lambda done: None)
    own = queries is None
    keys = _prepared("keys", keys, settings)
    queries = keys if queries is None else _prepared("queries", queries, settings)
    if queries.shape[1] != keys.shape[1]:
        raise ShapeError(f"queries: expected vectors of the keys' dimension {keys.shape[1]}, got {queries.shape[1]}")
    generator = torch.Generator().manual_seed(settings.seed)
    training, validation, test = _divided(queries, keys, own, generator)
    candidates = min(settings.candidates, *(pool.most_candidates for pool in (training, validation, test)))
    notes = _notes(training, candidates, settings)

    of = moments(training.queries, training.keys)
    balanced, pca = balanced_form(of), pca_form(of)
    asked = _questions(validation, candidates, settings.questions, generator)
    trainer = Trainer(training, validation, asked, balanced, candidates, settings.steps, settings.seed)
    tell("moments and their SVD")
    questions = _questions(test, candidates, settings.questions, generator)
    dim = keys.shape[1]
    randoms = [random_form(dim, generator) for _ in range(_RANDOM_DRAWS)]

    @cache
    def best_at(rank: int) -> FormCurve:
        found, origin = (inner_product(dim), "inner product") if rank == dim else trainer.best(rank)
        tell(f"rank {rank}")
        return FormCurve([found], origin)

    def curve(forms_at: Callable[[int], FormCurve], asked: CandidateSets) -> RankCurve:
        return RankCurve(test, asked, forms_at, seed=settings.seed)

    curves = {
        "best": curve(best_at, questions),
        "svd": curve(lambda rank: FormCurve([balanced.first(rank)], "svd"), questions),
        "pca": curve(lambda rank: FormCurve([pca.first(rank)], "pca"), questions),
        "random": curve(lambda rank: FormCurve([one.first(rank) for one in randoms], "random"), questions),
    }
    for rank in rank_grid(dim):
        curves["best"].at(rank)
    need = _need(curves["best"], dim, settings.target)
    plain = {kind: smallest_rank(curves[kind].error, dim, settings.target) for kind in ("svd", "pca", "random")}
    by_candidates = _by_candidates(test, candidates, dim, settings, lambda asked: curve(best_at, asked), generator)
    tell("other numbers of candidates")
    ranks = curves["best"].ranks
    for kind in ("svd", "pca", "random"):
        for rank in ranks:
            curves[kind].at(rank)
        tell(kind)
    isotropic = [_isotropic_point(dim, rank, candidates, settings.heads) for rank in isotropic_ranks(ranks, dim)]
    tell("isotropic")
    return Need(
        name=name,
        dim=dim,
        keys=len(keys),
        queries=len(queries),
        own_queries=own,
        candidates=candidates,
        settings=settings,
        need=need,
        need_svd=plain["svd"],
        need_pca=plain["pca"],
        need_random=plain["random"],
        need_isotropic=isotropic_need(dim, candidates, settings.target),
        key_dimension=intrinsic_dimension(keys),
        query_dimension=intrinsic_dimension(queries),
        curves={kind: [point for point in one.points if point.rank in ranks] for kind, one in curves.items()},
        isotropic=isotropic,
        by_candidates=by_candidates,
        notes=notes,
    )


def _prepared(name: str, vectors: Tensor, settings: NeedSettings) -> Float[Tensor, "K D"]:
    """Finite rows in float32, of unit length for the cosine, of mean square length 1 for the dot product."""
    if vectors.ndim != 2 or vectors.shape[1] < 2:
        raise ShapeError(f"{name}: expected [rows, dim] with dim of at least 2, got {list(vectors.shape)}")
    if not vectors.is_floating_point():
        raise InvalidInputError(f"{name}: expected floating point numbers, got {vectors.dtype}")
    if len(vectors) < LEAST_ROWS:
        raise InvalidInputError(
            f"{name}: expected at least {LEAST_ROWS} vectors (some are held out to measure on), got {len(vectors)}"
        )
    if not bool(vectors.isfinite().all()):
        raise InvalidInputError(f"{name}: expected finite numbers, got NaN or infinity")
    largest = vectors.detach().abs().amax(1).double()
    zeros = int((largest == 0).sum())
    if zeros and settings.similarity == "cosine":
        raise InvalidInputError(
            f"{name}: expected vectors with a direction, got {zeros} of zeros; drop them or use --similarity dot"
        )
    if zeros == len(vectors):
        raise InvalidInputError(f"{name}: expected vectors that differ from zero, got none")
    if settings.similarity == "cosine":
        # the largest entry first: squares of huge or tiny entries leave the floats
        return normalize(vectors.detach().double() / largest.unsqueeze(1), dim=1).float()
    scaled = vectors.detach().double() / largest.max()
    return (scaled / scaled.square().sum(1).mean().sqrt()).float()


def _divided(queries: Tensor, keys: Tensor, own: bool, generator: torch.Generator) -> tuple[Pool, Pool, Pool]:
    """Training, validation and test share neither queries nor keys."""
    key_parts = _shares(len(keys), generator)
    query_parts = key_parts if own else _shares(len(queries), generator)
    training, validation, test = (
        Pool(queries[query_part], keys[key_part], own)
        for query_part, key_part in zip(query_parts, key_parts, strict=True)
    )
    return training, validation, test


def _shares(count: int, generator: torch.Generator) -> tuple[Tensor, Tensor, Tensor]:
    order = torch.randperm(count, generator=generator)
    training, validation = count // 2, count // 5
    return order[:training], order[training : training + validation], order[training + validation :]


def _questions(pool: Pool, candidates: int, most: int, generator: torch.Generator) -> CandidateSets:
    return draw_candidates(pool, candidates, min(most, max(1024, (1 << 20) // candidates)), generator)


def _need(best: RankCurve, dim: int, target: float) -> Interval:
    return Interval(
        smallest_rank(lambda rank: best.at(rank).error.value, dim, target),
        smallest_rank(lambda rank: best.at(rank).error.low, dim, target),
        smallest_rank(lambda rank: best.at(rank).error.high, dim, target),
    )


def _by_candidates(
    test: Pool,
    candidates: int,
    dim: int,
    settings: NeedSettings,
    best: Callable[[CandidateSets], RankCurve],
    generator: torch.Generator,
) -> list[CandidatesNeed]:
    """Other numbers of candidates, as far as half of the held-out keys go, by the forms trained at ``candidates``."""
    return [
        CandidatesNeed(
            candidates=size,
            need=smallest_rank(best(_questions(test, size, settings.questions, generator)).error, dim, settings.target),
            need_isotropic=isotropic_need(dim, size, settings.target),
        )
        for size in _OTHER_NUMBERS
        if size != candidates and 2 * size <= test.most_candidates
    ]


def _isotropic_point(dim: int, rank: int, candidates: int, heads: int) -> IsotropicPoint:
    found = isotropic_error(dim, rank, candidates)
    bound = error_lower_bound(dim, rank, heads, values="any").value
    return IsotropicPoint(rank=rank, error=found.value, standard_error=found.standard_error, bound=bound)


def _notes(training: Pool, candidates: int, settings: NeedSettings) -> list[str]:
    notes = []
    if candidates < settings.candidates:
        notes.append(
            f"queries choose among {candidates} keys, not {settings.candidates}: the file has no more to hold out"
        )
    if len(training.keys) < 4 * training.keys.shape[1]:
        notes.append(
            f"{len(training.keys)} keys to fit forms in {training.keys.shape[1]} dimensions are few: with more vectors "
            f"the need may come out lower"
        )
    return notes
