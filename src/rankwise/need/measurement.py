"""The need of given vectors: the smallest rank at which one bilinear form retrieves their nearest neighbours.

The bound of ``theory.bounds`` is about isotropic data, where the need is close to the full dimension. Real keys and
queries have fewer intrinsic dimensions, so their need must be measured: retrieval error against rank
(``retrieval`` defines it) on queries and keys that were held out, for four families of forms

- best: query-weighted SVD, trained on from there where that helps (``forms``, ``training``, ``best_form``),
- svd, pca, random: each without training;

with the isotropic curve of the same dimension beside it as the worst case. A measurement of these vectors under one
similarity and one number of candidates. An upper estimate, for a better form may exist, and a statement about one head
that does nearest-neighbour search, not about what a trained model's heads do.

Legend: Q queries, K keys, D dim.
"""

from __future__ import annotations

from contextlib import nullcontext
from dataclasses import dataclass
from functools import cache
from typing import Literal

import torch
from jaxtyping import Float, Shaped
from torch import Tensor
from torch.nn.functional import normalize

from rankwise.errors import InvalidInputError, ShapeError, require_choice, require_int, require_number
from rankwise.need.best_form import BestForms
from rankwise.need.curves import RankCurve, isotropic_ranks, nested, rank_grid, smallest_rank
from rankwise.need.document import CandidatesNeed, IntrinsicDimensions, IsotropicPoint, NeedMeasurement
from rankwise.need.forms import balanced_form, intrinsic_dimension, moments, pca_form, random_form
from rankwise.need.isotropic import isotropic_error, isotropic_need
from rankwise.need.retrieval import CandidateSets, Interval, Pool, draw_candidates
from rankwise.need.training import Trainer
from rankwise.nn import one_thread
from rankwise.progress import Progress, silent
from rankwise.theory import error_lower_bound

Similarity = Literal["cosine", "dot"]
SIMILARITIES = ("cosine", "dot")
LEAST_ROWS = 20
"""Queries and keys are divided 5 : 2 : 3 into training, validation and test; each needs a few."""
_CANDIDATES = 16
_OTHER_NUMBERS = (2, 16, 128, 1024)
_RANDOM_DRAWS = 3
_REPEATED = 0.01  # of the keys, beyond which it is said
_SMALL = 1 << 24  # numbers in keys and queries: below, several threads wait for each other more than they compute
STAGES = 6
"""How often one measurement reports progress."""


@dataclass(frozen=True, kw_only=True)
class NeedSettings:
    """What is asked. The number of candidates defaults to the paper's 16 points, comparable with its figures, or to as
    many as few vectors allow; ``by_candidates`` tells how the need grows beyond. ``questions`` are asked of held-out
    queries at most, fewer where so many candidates would take long."""

    target: float = 0.1
    candidates: int | None = None
    similarity: Similarity = "cosine"
    heads: int = 1
    steps: int = 200
    questions: int = 8192
    seed: int = 0

    def __post_init__(self) -> None:
        if not 0 < require_number("target", self.target, above=0) < 1:
            raise InvalidInputError(f"target: expected an error between 0 and 1 (a random key), got {self.target}")
        if self.candidates is not None:
            require_int("candidates", self.candidates, minimum=2)
        require_choice("similarity", self.similarity, SIMILARITIES)
        require_int("heads", self.heads, minimum=1)
        require_int("steps", self.steps, minimum=0)
        require_int("questions", self.questions, minimum=100)
        require_int("seed", self.seed, minimum=0)


def measure_need(
    keys: Shaped[Tensor, "..."],
    queries: Shaped[Tensor, "..."] | None = None,
    *,
    settings: NeedSettings | None = None,
    name: str = "vectors",
    progress: Progress = silent,
) -> NeedMeasurement:
    """Measure ``keys`` [K, D] with ``queries`` [Q, D]; without queries the keys serve as queries too."""
    numbers = keys.numel() + (0 if queries is None else queries.numel())
    with one_thread() if numbers <= _SMALL else nullcontext():
        return _measured(keys, queries, settings or NeedSettings(), name, progress)


def _measured(
    keys: Shaped[Tensor, "..."],
    queries: Shaped[Tensor, "..."] | None,
    settings: NeedSettings,
    name: str,
    progress: Progress,
) -> NeedMeasurement:
    own = queries is None
    stages = iter(range(1, STAGES + 1))

    def done(what: str) -> None:
        progress(f"{name}: {what}", next(stages), STAGES)

    asking = _prepared("keys" if queries is None else "queries", keys if queries is None else queries, settings)
    scaled = asking if queries is None else _prepared("keys", keys, settings)
    dim = scaled.shape[1]
    if asking.shape[1] != dim:
        raise ShapeError(f"queries: expected vectors of the keys' dimension {dim}, got {asking.shape[1]}")
    centred = (scaled - scaled.mean(0)).float()
    generator = torch.Generator().manual_seed(settings.seed)
    training, validation, test = _divided(asking.float(), centred, own, generator)
    candidates = _candidates(settings.candidates, min(pool.most_candidates for pool in (training, validation, test)))

    of = moments(training.queries, training.keys)
    balanced, pca = balanced_form(of), pca_form(of)
    asked = _questions(validation, candidates, settings.questions, generator)
    questions = _questions(test, candidates, settings.questions, generator)
    seen = torch.cat([asking.float(), centred])
    randoms = [random_form(seen, generator) for _ in range(_RANDOM_DRAWS)]
    done("moments and their SVD")

    families = {"svd": [balanced], "pca": [pca], "random": randoms}
    curves = {
        kind: RankCurve([nested(test, questions, form) for form in forms], kind, seed=settings.seed)
        for kind, forms in families.items()
    }
    plain = {kind: smallest_rank(curve.error, dim, settings.target) for kind, curve in curves.items()}
    done("SVD, PCA, random forms")
    trainer = Trainer(training, validation, asked, balanced, candidates, settings.steps, settings.seed)
    best = BestForms(trainer, balanced, test, below=plain["svd"])
    curves = {"best": best.curve(questions, seed=settings.seed), **curves}
    need = _need(curves["best"], dim, settings.target)
    done("best forms")
    by_candidates = _by_candidates(test, candidates, dim, settings, best, generator)
    done("other numbers of candidates")
    ranks = sorted({*rank_grid(dim), int(need.value), int(need.low), int(need.high)})
    points = {kind: tuple(curve.at(rank).plain() for rank in ranks) for kind, curve in curves.items()}
    done("intervals")
    isotropic = [_isotropic_point(dim, rank, candidates, settings.heads) for rank in isotropic_ranks(ranks, dim)]
    done("isotropic")
    return NeedMeasurement(
        name="".join(character if character.isprintable() else "\ufffd" for character in name),
        dim=dim,
        keys=len(keys),
        queries=len(asking),
        own_queries=own,
        candidates=candidates,
        need=int(need.value),
        need_low=int(need.low),
        need_high=int(need.high),
        need_svd=plain["svd"],
        need_pca=plain["pca"],
        need_random=plain["random"],
        need_isotropic=isotropic_need(dim, candidates, settings.target),
        participation_ratio=IntrinsicDimensions(keys=intrinsic_dimension(scaled), queries=intrinsic_dimension(asking)),
        by_candidates=tuple(by_candidates),
        curves=points,
        isotropic=tuple(isotropic),
        notes=tuple(_notes(training, candidates, centred)),
    )


def _prepared(name: str, vectors: Tensor, settings: NeedSettings) -> Float[Tensor, "K D"]:
    """Finite rows in float64, of unit length for the cosine, of mean square length 1 for the dot product."""
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
        return normalize(vectors.detach().double() / largest.unsqueeze(1), dim=1)
    scaled = vectors.detach().double() / largest.max()
    return scaled / scaled.square().sum(1).mean().sqrt()


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
    best: BestForms,
    generator: torch.Generator,
) -> list[CandidatesNeed]:
    """Other numbers of candidates, as far as half of the held-out keys go, by the same best forms."""
    found = []
    for size in _OTHER_NUMBERS:
        if size == candidates or 2 * size > test.most_candidates:
            continue
        asked = _questions(test, size, settings.questions, generator)
        need = smallest_rank(best.curve(asked, seed=settings.seed).error, dim, settings.target)
        isotropic = isotropic_need(dim, size, settings.target)
        found.append(CandidatesNeed(candidates=size, need=need, need_isotropic=isotropic))
    return found


@cache
def _isotropic_point(dim: int, rank: int, candidates: int, heads: int) -> IsotropicPoint:
    found = isotropic_error(dim, rank, candidates)
    bound = error_lower_bound(dim, rank, heads, values="any").value
    return IsotropicPoint(rank=rank, error=found.value, standard_error=found.standard_error, bound=bound)


def _candidates(wanted: int | None, most: int) -> int:
    if wanted is not None and wanted > most:
        raise InvalidInputError(
            f"candidates: expected at most {most}, the keys of the smallest part that is held out, got {wanted}; give "
            f"more vectors or fewer candidates"
        )
    return wanted or min(_CANDIDATES, most)


def _notes(training: Pool, candidates: int, keys: Float[Tensor, "K D"]) -> list[str]:
    notes = []
    if candidates < _CANDIDATES and training.most_candidates < 5 * _CANDIDATES:
        notes.append(f"queries choose among {candidates} keys, not {_CANDIDATES}: there are no more to hold out")
    different = len({row.tobytes() for row in keys.numpy()})
    if different < (1 - _REPEATED) * len(keys):
        notes.append(
            f"{len(keys) - different:,} of {len(keys):,} keys repeat another one: equal keys are equal answers, so the "
            f"need is about {different:,} different keys"
        )
    if len(training.keys) < 4 * training.keys.shape[1]:
        notes.append(
            f"{len(training.keys)} keys to fit forms in {training.keys.shape[1]} dimensions are few: with more vectors "
            f"the need may come out lower"
        )
    return notes
