"""Why depth helps low rank among few points: layers that search by an address, against rank, points and dimension.

    rankwise reproduce address --preset laptop      (smoke: 10 s; laptop: 8 minutes on one core)

Every mark is the written-down network ``address_search``, d/r heads of rank r in each layer, on fresh data: how often
the point its last layer looks at most is the farthest one, and the squared error of its answer. Its few numbers (two a
step, beta and gain) are fitted. To expect: one layer is right as often as r of d dimensions tell; several layers turn
their addresses towards the leading eigenvectors of the points' Gram matrix, N x N, so that r counts against N. The
limit is the best matrix of rank r for these points (Eckart and Young), which is the whole Gram matrix at r = N. The
network is ours, and so is what it says of depth: measurements, not a theorem.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from rankwise.recipes.registry import Reproduced, Say, pick_preset, write_numbers
from rankwise.report.figures import COLOURS, GUIDE, MARKERS, house_style, new_figure, require_drawing, save_figure

if TYPE_CHECKING:
    import torch
    from torch import Tensor

    from rankwise.nn.transformer import Transformer
    from rankwise.tasks import FarthestNeighbor


@dataclass(frozen=True, kw_only=True)
class Settings:
    """Sizes of the figure: ``depths`` at the first of ``dims`` and of ``counts`` (of points), whose others have three
    layers; ranks are ``shares`` of the points."""

    dims: tuple[int, ...]
    counts: tuple[int, ...]
    depths: tuple[int, ...]
    shares: tuple[float, ...]
    iterations: int
    sequences: int


PRESETS = {
    "smoke": Settings(dims=(16, 32), counts=(8, 4), depths=(1, 3), shares=(0.25, 0.5), iterations=60, sequences=500),
    "laptop": Settings(
        dims=(64, 32, 128),
        counts=(16, 8, 32),
        depths=(1, 2, 3, 5),
        shares=(0.125, 0.25, 0.375, 0.5, 0.75, 1.0, 1.5),
        iterations=300,
        sequences=2000,
    ),
}


@dataclass(frozen=True, kw_only=True)
class Search:
    """One network: what it was fitted to, the share of right choices, the squared error, and its numbers."""

    dim: int
    points: int
    layers: int
    rank: int
    right: float
    right_se: float
    error: float
    error_se: float
    steps: list[tuple[float, float]]
    beta: float
    gain: float


@dataclass(frozen=True, kw_only=True)
class Limit:
    """The share of right choices by the best matrix of rank ``rank`` instead of the points' Gram matrix."""

    rank: int
    right: float


@dataclass(frozen=True, kw_only=True)
class Address:
    """All numbers of the figure."""

    searches: list[Search]
    limits: list[Limit]


def compute(settings: Settings, say: Say = lambda line: None) -> Address:
    """The numbers of the figure."""
    dim, count = settings.dims[0], settings.counts[0]
    cells = [(dim, count, layers) for layers in settings.depths]
    cells += [(dim, other, 3) for other in settings.counts[1:]] + [(other, count, 3) for other in settings.dims[1:]]
    searches = []
    for d, points, layers in cells:
        say(f"dim {d}, points {points}, layers {layers}")
        searches += [fitted_search(d, points, layers, rank, settings) for rank in _ranks(settings, d, points)]
    limits = [limit(dim, count, rank, settings) for rank in _ranks(settings, dim, count)]
    return Address(searches=searches, limits=limits)


def _ranks(settings: Settings, dim: int, points: int) -> list[int]:
    return [rank for share in settings.shares if 1 <= (rank := round(share * points)) < dim]


def fitted_search(dim: int, points: int, layers: int, rank: int, settings: Settings) -> Search:
    """The network with the numbers that gradient descent on its iteration finds, measured on fresh sequences."""
    import torch

    from rankwise.nn.address_search import address_search
    from rankwise.recipes.closed_form.address_fit import fit_search
    from rankwise.tasks import FarthestNeighbor

    generator = torch.Generator().manual_seed(rank + 7919 * layers + 104729 * points)
    task = FarthestNeighbor(dim, points)
    found = fit_search(task, layers, rank, settings.iterations, generator)
    network = address_search(dim, rank, found.steps, found.beta, gain=found.gain)
    (right, right_se), (error, error_se) = _measured(network, task, settings.sequences, generator)
    return Search(
        dim=dim,
        points=points,
        layers=layers,
        rank=rank,
        right=right,
        right_se=right_se,
        error=error,
        error_se=error_se,
        steps=found.steps,
        beta=found.beta,
        gain=found.gain,
    )


def _measured(
    network: Transformer, task: FarthestNeighbor, sequences: int, generator: torch.Generator
) -> tuple[tuple[float, float], tuple[float, float]]:
    """Mean and standard error over sequences of the share of right choices and of the squared error."""
    import torch

    batch = task.sample(sequences, generator)
    with torch.no_grad():
        answers, weights = network(batch.points, return_weights=True)
    chosen = weights[-1][:, 0].argmax(-1)
    right = (chosen == (batch.points @ batch.points.mT).argmin(-1)).double().mean(-1)
    error = task.error(answers, batch).double()
    return _mean(right), _mean(error)


def _mean(values: Tensor) -> tuple[float, float]:
    return values.mean().item(), values.std().item() / math.sqrt(len(values))


def limit(dim: int, points: int, rank: int, settings: Settings) -> Limit:
    """How often the best rank-``rank`` approximation of the Gram matrix has its smallest entry where that has it."""
    import torch

    from rankwise.tasks import FarthestNeighbor

    batch = FarthestNeighbor(dim, points).sample(settings.sequences, torch.Generator().manual_seed(rank))
    gram = batch.points @ batch.points.mT
    values, vectors = torch.linalg.eigh(gram)
    values, vectors = values[..., -rank:], vectors[..., -rank:]
    nearest = (vectors * values.unsqueeze(-2)) @ vectors.mT
    right = (nearest.argmin(-1) == gram.argmin(-1)).double().mean().item()
    return Limit(rank=rank, right=right)


def draw(data: Address, stem: Path) -> tuple[Path, Path]:
    """Right choices and error against rank by depth; right choices by number of points, and by dimension."""
    first = data.searches[0]
    base = (first.dim, first.points)
    by_depth = _lines(data, lambda s: s.layers, lambda s: (s.dim, s.points) == base)
    by_count = _lines(data, lambda s: s.points, lambda s: s.dim == first.dim and s.layers == 3)
    by_dim = _lines(data, lambda s: s.dim, lambda s: s.points == first.points and s.layers == 3)
    with house_style():
        figure = new_figure(8.8, 6.8)
        (depth, error), (count, dim) = figure.subplots(2, 2)
        for index, (layers, line) in enumerate(by_depth.items()):
            look = {"color": COLOURS[index], "marker": MARKERS[index], "label": f"{layers} layer{'s' * (layers > 1)}"}
            depth.errorbar([s.rank for s in line], [s.right for s in line], [2 * s.right_se for s in line], **look)
            error.errorbar([s.rank for s in line], [s.error for s in line], [2 * s.error_se for s in line], **look)
        for axes, lines, letter in ((count, by_count, "N"), (dim, by_dim, "d")):
            for index, (number, line) in enumerate(sorted(lines.items())):
                ranks = [s.rank / (number if axes is count else 1) for s in line]
                look = {"color": COLOURS[index], "marker": MARKERS[index], "label": f"${letter} = {number}$"}
                axes.errorbar(ranks, [s.right for s in line], [2 * s.right_se for s in line], **look)
        one_point, one_dim = f", $N = {first.points}$", f", $d = {first.dim}$"
        for axes, unit, which in ((depth, 1, ""), (count, first.points, one_point), (dim, 1, one_dim)):
            dashed = {"color": GUIDE, "linestyle": "--", "label": f"best matrix of rank $r${which}"}
            axes.plot([mark.rank / unit for mark in data.limits], [mark.right for mark in data.limits], **dashed)
            axes.set(ylim=(0, 1.02), ylabel="right choices", xlabel="rank $r$")
        count.set_xlabel("rank / points, $r / N$")
        error.set(ylim=(0, 1.02), ylabel="squared error of the answer", xlabel="rank $r$")
        depth.set_title(f"depth: $d = {first.dim}$, $N = {first.points}$")
        error.set_title("the same, coordinates of the address lost")
        count.set_title(f"points: $d = {first.dim}$, three layers")
        dim.set_title(f"dimension: $N = {first.points}$, three layers")
        for axes in (depth, error, count, dim):
            axes.legend(loc="best")
        figure.suptitle("Farthest point by addresses: written-down layers of $d/r$ heads of rank $r$", fontsize=11)
    return save_figure(figure, stem)


def _lines(data: Address, key: Callable[[Search], int], chosen: Callable[[Search], bool]) -> dict[int, list[Search]]:
    lines: dict[int, list[Search]] = {}
    for search in filter(chosen, data.searches):
        lines.setdefault(key(search), []).append(search)
    return lines


def reproduce(preset: str, out: Path, say: Say) -> Reproduced:
    """Compute, write numbers and pictures, and tabulate all networks."""
    require_drawing()
    data = compute(pick_preset(PRESETS, preset), say)
    files = (*draw(data, out / "address"), write_numbers(data, out / "address"))
    return Reproduced(
        columns=("dim", "points", "layers", "rank", "right", "error"),
        rows=tuple((s.dim, s.points, s.layers, s.rank, s.right, s.error) for s in data.searches),
        reading=reading(data),
        files=files,
    )


def reading(data: Address) -> str:
    """One rank by depth, and three layers of as many ranks a point, by points and by dimension."""
    first = data.searches[0]
    rank = min((mark.rank for mark in data.limits), key=lambda rank: abs(rank - first.points / 2))
    alike = [s for s in data.searches if (s.dim, s.points, s.rank) == (first.dim, first.points, rank)]
    depths = ", ".join(f"{s.right:.0%} with {s.layers}" for s in alike)
    ceiling = next(mark.right for mark in data.limits if mark.rank == rank)
    half = [s.right for s in data.searches if s.layers == 3 and s.dim == first.dim and 2 * s.rank == s.points]
    dims = [s.right for s in data.searches if s.layers == 3 and s.points == first.points and s.rank == rank]
    return (
        f"Right choices at rank {rank} of {first.dim} dimensions among {first.points} points, by layers: {depths}; the "
        f"best matrix of that rank {ceiling:.0%}. Three layers of rank N/2: {min(half):.0%} to {max(half):.0%} at all "
        f"numbers of points; of rank {rank} among {first.points}: {min(dims):.0%} to {max(dims):.0%} in all dimensions."
    )
