"""From samples to a cut model: directions of every vector, ranks within a budget, modules in the place of others."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Literal, TypeAlias

import torch
from torch import Tensor, nn

from rankwise.errors import InvalidInputError
from rankwise.progress import Progress, silent
from rankwise.reduce.allocation import allocated_ranks, uniform_ranks
from rankwise.reduce.bottleneck import Bottleneck, Metric, bottleneck
from rankwise.reduce.calibration import Samples
from rankwise.reduce.head_modules import HeadPlan, empty_head_plan, head_modules, head_plan
from rankwise.reduce.latent_modules import (
    LatentPlan,
    empty_latent_plan,
    joint_map,
    latent_modules,
    latent_plan,
)
from rankwise.reduce.linear_modules import replaced, weight_of
from rankwise.reduce.methods import METHODS, MethodName
from rankwise.reduce.methods.text_fisher import SCORE_COST
from rankwise.reduce.methods.vectors import ModelVectors, TextSums
from rankwise.reduce.mla_modules import MlaPlan, mla_modules
from rankwise.reduce.sites import Site
from rankwise.reduce.storage import StoredType, rounded

Allocation = Literal["allocated", "uniform"]
Cut: TypeAlias = LatentPlan | HeadPlan | MlaPlan


@dataclass(frozen=True)
class Directions:
    """The bottlenecks of a site: one of a latent; of heads, those of the keys (where they are cut), then the values."""

    site: Site
    found: tuple[Bottleneck, ...]


def find_directions(
    model: nn.Module,
    sites: Sequence[Site],
    samples: Sequence[Samples] | None,
    method: MethodName,
    *,
    progress: Progress = silent,
) -> list[Directions]:
    """Every direction of every vector that can be cut, by ``method``."""
    metrics = find_metrics(model, sites, samples, method, progress=progress)
    return [Directions(site, tuple(bottleneck(one) for one in each)) for site, each in zip(sites, metrics, strict=True)]


def find_metrics(
    model: nn.Module,
    sites: Sequence[Site],
    samples: Sequence[Samples] | None,
    method: MethodName,
    *,
    progress: Progress = silent,
) -> list[tuple[Metric, ...]]:
    """What ``method`` knows of the vectors of each site, in the order of ``sites``.

    Scores are weighed against what the values of a head are worth in the mean, so keys come after all values.
    """
    metric = METHODS[method].metric
    found: list[tuple[Metric, ...]] = []
    for at, site in enumerate(sites):
        progress(f"directions by {method}", at, 2 * len(sites))
        vectors = _vectors(model, site, None if samples is None else samples[at])
        found.append(tuple(metric(one) for one in vectors[_keys(site) :]))
    worth = [float((one.spread * one.importance).sum()) for each in found for one in each]
    score_cost = SCORE_COST * sum(worth) / len(worth)
    for at, site in enumerate(sites):
        progress(f"directions by {method}", len(sites) + at, 2 * len(sites))
        if _keys(site):
            vectors = _vectors(model, site, None if samples is None else samples[at], score_cost)
            found[at] = (*(metric(one) for one in vectors[: _keys(site)]), *found[at])
    progress(f"directions by {method}", 2 * len(sites), 2 * len(sites))
    return _balanced(sites, found) if METHODS[method].balanced else found


def _balanced(sites: Sequence[Site], found: Sequence[tuple[Metric, ...]]) -> list[tuple[Metric, ...]]:
    """The metrics of heads in units in which all keys together are worth as much as all values."""
    worth = {True: 0.0, False: 0.0}
    for site, each in zip(sites, found, strict=True):
        for at, one in enumerate(each):
            worth[at < _keys(site)] += float((one.spread * one.importance).sum())
    return [
        each
        if site.kind != "heads"
        else tuple(replace(one, importance=one.importance / worth[at < _keys(site)]) for at, one in enumerate(each))
        for site, each in zip(sites, found, strict=True)
    ]


def budget(sites: Sequence[Site], keep: float) -> int:
    """How many directions a share ``keep`` leaves: of the cached numbers, or of the coordinates that can be cut."""
    if not 0 < keep <= 1:
        raise InvalidInputError(f"--keep: expected a share above 0, at most 1, got {keep:g}")
    return round(keep * _whole(sites)) - sum(site.shared_key for site in sites)


def require_possible(sites: Sequence[Site], *, keep: float | None, rank: int | None) -> None:
    """Refuse a rank or a share that these sites cannot have, before anything long begins."""
    sizes = [size for site in sites for size in vector_sizes(site)]
    if rank is not None and not 1 <= rank <= max(sizes):
        raise InvalidInputError(f"--rank: expected 1 to {max(sizes)}, the size of the vectors that are cut, got {rank}")
    if keep is not None and budget(sites, keep) < len(sizes):
        least = (len(sizes) + sum(site.shared_key for site in sites)) / _whole(sites)
        raise InvalidInputError(f"--keep: expected at least {least:.3g}, one direction per vector, got {keep:g}")


def cut_to(
    model: nn.Module,
    directions: Sequence[Directions],
    *,
    total: int | None = None,
    rank: int | None = None,
    allocation: Allocation = "allocated",
) -> list[Cut]:
    """Cuts with ``total`` directions in all, or ``rank`` in every latent or head."""
    spectra = [one.spectrum for each in directions for one in each.found]
    if rank is not None:
        ranks = tuple(min(rank, len(one)) for one in spectra)
    else:
        assert total is not None
        ranks = (allocated_ranks if allocation == "allocated" else uniform_ranks)(spectra, total)
    left = iter(ranks)
    return [_cut(model, each, [next(left) for _ in each.found]) for each in directions]


def empty_cut(model: nn.Module, site: Site, ranks: Sequence[int]) -> Cut:
    """A cut of known ranks whose tensors are zero, to be filled from a file."""
    if site.kind != "heads":
        (rank,) = ranks
        return empty_latent_plan(model, site, rank)
    heads = len(site.k.index)
    keys = ranks[:heads] if site.cut_keys else None
    return empty_head_plan(model, site, keys, ranks[-heads:])


def cut_ranks(cut: Cut) -> tuple[int, ...]:
    """The ranks of a cut's vectors, in the order of ``Directions.found``."""
    if isinstance(cut, MlaPlan):
        return (cut.shape.cached,)
    return (cut.rank,) if isinstance(cut, LatentPlan) else (*(cut.key_ranks or ()), *cut.value_ranks)


def modules_of(model: nn.Module, cuts: Sequence[Cut]) -> dict[str, nn.Module]:
    """The modules of all cuts under the paths of those they replace."""
    return {path: module for cut in cuts for path, module in _modules(model, cut).items()}


def _modules(model: nn.Module, cut: Cut) -> Mapping[str, nn.Module]:
    if isinstance(cut, MlaPlan):
        return mla_modules(model, cut)
    return latent_modules(model, cut) if isinstance(cut, LatentPlan) else head_modules(model, cut)


@dataclass(frozen=True)
class Installed:
    """Cuts that are in a model: their modules, and those that stood there before, by path."""

    cuts: tuple[Cut, ...]
    modules: Mapping[str, nn.Module]
    originals: Mapping[str, nn.Module]


@contextmanager
def cut_model(model: nn.Module, cuts: Sequence[Cut], *, storage: StoredType = "float32") -> Iterator[Installed]:
    """``model`` with the cuts in place, for a while; their numbers rounded as ``storage`` will keep them."""
    modules = modules_of(model, cuts)
    round_factors(modules, storage)
    originals = replaced(model, modules)
    try:
        yield Installed(tuple(cuts), modules, originals)
    finally:
        replaced(model, originals)


def round_factors(modules: Mapping[str, nn.Module], storage: StoredType) -> None:
    """Give the new modules the values they will have when they are read back, so that they are measured as stored."""
    with torch.no_grad():
        for value in new_tensors(modules).values():
            value.copy_(rounded(value, storage))


def new_tensors(modules: Mapping[str, nn.Module]) -> dict[str, Tensor]:
    """Every parameter of the new modules once, by its name in the model."""
    found: dict[str, Tensor] = {}
    seen: set[int] = set()
    for path, module in modules.items():
        for name, value in module.named_parameters():
            if id(value) not in seen:
                seen.add(id(value))
                found[f"{path}.{name}"] = value
    return found


def _cut(model: nn.Module, directions: Directions, ranks: Sequence[int]) -> Cut:
    site, found = directions.site, directions.found
    if site.kind != "heads":
        return latent_plan(model, site, found[0], ranks[0])
    heads = len(site.k.index)
    if not site.cut_keys:
        return head_plan(model, site, None, None, found, ranks)
    return head_plan(model, site, found[:heads], ranks[:heads], found[heads:], ranks[heads:])


def _whole(sites: Sequence[Site]) -> int:
    """What a share is a share of."""
    return sum(site.cached_numbers if site.kind != "heads" else sum(vector_sizes(site)) for site in sites)


def vector_sizes(site: Site) -> list[int]:
    """Coordinates of the vectors that ``_vectors`` lists."""
    if site.kind != "heads":
        return [site.cached_numbers - site.shared_key]
    keys = [site.k.index.shape[1]] * len(site.k.index) if site.cut_keys else []
    return keys + [site.v.index.shape[1]] * len(site.v.index)


def _keys(site: Site) -> int:
    """How many vectors of ``site`` are keys of one head."""
    return len(site.k.index) if site.kind == "heads" and site.cut_keys else 0


def _vectors(model: nn.Module, site: Site, samples: Samples | None, score_cost: float = 0.0) -> list[ModelVectors]:
    """The vectors of ``site`` that are cut: one of a latent; of heads, those of the keys, then those of the values."""
    weight, bias = joint_map(model, site)
    x = None if samples is None else samples.x
    g = None if samples is None else samples.g
    size = 1.0 if samples is None else samples.g_size
    if site.kind == "mla":
        return [ModelVectors(weight, bias, (len(weight),), x, g, size)]
    if site.kind == "joint":
        return [ModelVectors(weight, bias, (site.k.index.size, site.v.index.size), x, g, size)]
    sizes = vector_sizes(site)
    start = len(weight) - sum(sizes)  # keys that are not cut come first
    bounds = itertools.pairwise(torch.tensor([start, *sizes]).cumsum(0).tolist())
    return [
        ModelVectors(
            weight[low:high], bias[low:high], (high - low,), None if x is None else x[:, low:high], None, size,
            _text_sums(site, samples, low, number, score_cost), _partner(model, site, samples, number),
        )
        for number, (low, high) in enumerate(bounds)
    ]  # fmt: skip


def _text_sums(site: Site, samples: Samples | None, low: int, number: int, score_cost: float) -> TextSums | None:
    """Of the vector that begins at coordinate ``low`` and is the ``number``-th that is cut."""
    heads = None if samples is None else samples.heads
    if heads is None:
        return None
    is_key = number < _keys(site)
    head = number if is_key else number - _keys(site)
    products = (heads.key_products if is_key else heads.value_products)[:, head]
    own = slice(low, low + products.shape[-1])
    assert samples is not None
    assert samples.queries is not None
    scores = (heads.keys[head], samples.queries[head]) if is_key else None
    slopes = (heads.key_slopes if is_key else heads.value_slopes)[head] * heads.length
    tokens = ((heads.keys if is_key else heads.values)[head], slopes)
    return TextSums(products, heads.slopes[:, own], heads.means[:, own], tokens, scores, score_cost)


def _partner(model: nn.Module, site: Site, samples: Samples | None, number: int) -> Tensor | None:
    """What the ``number``-th vector of ``site`` that is cut is multiplied with: queries, or columns of the output."""
    if number < _keys(site):
        return None if samples is None or samples.queries is None else samples.queries[number]
    head, group = number - _keys(site), len(site.q.index) // len(site.k.index)
    o = weight_of(model.get_submodule(site.o.module)).double()
    columns = o[:, torch.from_numpy(site.o.index[group * head : group * (head + 1)])]
    return torch.einsum("dha,dhc->ac", columns, columns)
