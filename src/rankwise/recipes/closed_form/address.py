"""Why depth helps low rank among few points: layers that search by an address, against rank, points and dimension.

    rankwise reproduce address --preset laptop      (smoke: 10 s; laptop: 8 minutes on one core)

Every mark is the hand-built network ``address_search``, d/r heads of rank r in each layer, on fresh data: how often
the point its last layer looks at most is the farthest one, and the squared error of its answer. Its few numbers (two
per step, beta and gain) are fitted. To expect: one layer is right as often as r of d dimensions tell; several layers
turn their addresses towards the leading eigenvectors of the points' Gram matrix, N x N, so that the rank competes with
the number of points, not with d. The limit is the best matrix of rank r for these points (Eckart and Young), which is
the whole Gram matrix at r = N. The network is ours, and so is what it says of depth: measurements, not a theorem.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from rankwise.nn.address_search import address_search
from rankwise.recipes.closed_form.address_fit import Fitted, fit_search
from rankwise.recipes.computed_figure import ComputedFigure
from rankwise.recipes.presented import Say
from rankwise.report.figures import GUIDE, new_figure
from rankwise.report.panels import Series, draw_series
from rankwise.tasks import FarthestNeighbor

if TYPE_CHECKING:
    from matplotlib.figure import Figure


@dataclass(frozen=True, kw_only=True)
class Settings:
    """Sizes of the figure: ``depths`` at the first of ``dims`` and of ``counts`` (of points), whose others have three
    layers; ranks are ``shares`` of the points."""

    dims: tuple[int, ...] = (64, 32, 128)
    counts: tuple[int, ...] = (16, 8, 32)
    depths: tuple[int, ...] = (1, 2, 3, 5)
    shares: tuple[float, ...] = (0.125, 0.25, 0.375, 0.5, 0.75, 1.0, 1.5)
    iterations: int = 300
    sequences: int = 2000


@dataclass(frozen=True, kw_only=True)
class Search(Fitted):
    """One network: what it was fitted to, its numbers, the share of right choices, and the squared error."""

    dim: int
    points: int
    layers: int
    rank: int
    right: float
    right_se: float
    error: float
    error_se: float


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


PRESETS = {
    "smoke": Settings(dims=(16, 32), counts=(8, 4), depths=(1, 3), shares=(0.25, 0.5), iterations=60, sequences=500),
    "laptop": Settings(),
}


def _fitted_search(dim: int, points: int, layers: int, rank: int, settings: Settings) -> Search:
    """The network with the numbers that gradient descent on its iteration finds, measured on fresh sequences."""
    generator = torch.Generator().manual_seed(rank + 7919 * layers + 104729 * points)
    task = FarthestNeighbor(dim, points)
    found = fit_search(task, layers, rank, settings.iterations, generator)
    network = address_search(dim, rank, found.steps, found.beta, gain=found.gain)
    batch = task.sample(settings.sequences, generator)
    with torch.no_grad():
        answers, weights = network(batch.points, return_weights=True)
    chosen = weights[-1][:, 0].argmax(-1)
    right = (chosen == (batch.points @ batch.points.mT).argmin(-1)).double().mean(-1)
    measured = _mean("right", right) | _mean("error", task.error(answers, batch).double())
    return Search(dim=dim, points=points, layers=layers, rank=rank, **measured, **asdict(found))


def _mean(name: str, values: Tensor) -> dict[str, Any]:
    """Mean and standard error over sequences, by the names of their fields."""
    return {name: values.mean().item(), f"{name}_se": values.std().item() / math.sqrt(len(values))}


def limit(dim: int, points: int, rank: int, settings: Settings) -> Limit:
    """How often the best rank-``rank`` approximation of the Gram matrix has its smallest entry where that has it."""
    batch = FarthestNeighbor(dim, points).sample(settings.sequences, torch.Generator().manual_seed(rank))
    gram = batch.points @ batch.points.mT
    values, vectors = torch.linalg.eigh(gram)
    values, vectors = values[..., -rank:], vectors[..., -rank:]
    nearest = (vectors * values.unsqueeze(-2)) @ vectors.mT
    return Limit(rank=rank, right=(nearest.argmin(-1) == gram.argmin(-1)).double().mean().item())


def _ranks(settings: Settings, dim: int, points: int) -> list[int]:
    return [rank for share in settings.shares if 1 <= (rank := round(share * points)) < dim]


def _curves(
    searches: Sequence[Search], key: str, label: str, *, y: str = "right", per_point: bool = False
) -> list[Series]:
    """A line per value of ``key``: the column ``y`` with two standard errors against the rank (or rank per point)."""
    curves = []
    for value in sorted({getattr(search, key) for search in searches}):
        line = [search for search in searches if getattr(search, key) == value]
        ranks = [search.rank / (search.points if per_point else 1) for search in line]
        bars = [2 * getattr(search, f"{y}_se") for search in line]
        curves.append(Series(label=label.format(value), x=ranks, y=[getattr(s, y) for s in line], spread=bars))
    return curves


class _AddressFigure(ComputedFigure[Settings, Address]):
    """Right choices and error against rank by depth; right choices by number of points, and by dimension."""

    name = "address"
    columns = ("dim", "points", "layers", "rank", "right", "error")
    presets = PRESETS

    def compute(self, settings: Settings, say: Say) -> Address:
        dim, count = settings.dims[0], settings.counts[0]
        cells = [(dim, count, layers) for layers in settings.depths]
        cells += [(dim, other, 3) for other in settings.counts[1:]] + [(other, count, 3) for other in settings.dims[1:]]
        searches = []
        for d, points, layers in cells:
            say(f"dim {d}, points {points}, layers {layers}")
            searches += [_fitted_search(d, points, layers, rank, settings) for rank in _ranks(settings, d, points)]
        limits = [limit(dim, count, rank, settings) for rank in _ranks(settings, dim, count)]
        return Address(searches=searches, limits=limits)

    def draw(self, data: Address) -> Figure:
        d, n = data.searches[0].dim, data.searches[0].points
        by_depth = [s for s in data.searches if (s.dim, s.points) == (d, n)]
        three = [s for s in data.searches if s.layers == 3]
        figure = new_figure(8.8, 6.8)
        (depth, error), (count, dim) = figure.subplots(2, 2)
        draw_series(depth, _curves(by_depth, "layers", "layers: {}"))
        draw_series(error, _curves(by_depth, "layers", "layers: {}", y="error"))
        draw_series(count, _curves([s for s in three if s.dim == d], "points", "$N = {}$", per_point=True))
        draw_series(dim, _curves([s for s in three if s.points == n], "dim", "$d = {}$"))
        for axes, unit, which in ((depth, 1, ""), (count, n, f", $N = {n}$"), (dim, 1, f", $d = {d}$")):
            ranks, right = [mark.rank / unit for mark in data.limits], [mark.right for mark in data.limits]
            axes.plot(ranks, right, "--", color=GUIDE, label=f"best matrix of rank $r${which}")
            axes.set_ylabel("right choices")
        error.set_ylabel("squared error of the answer")
        depth.set_title(f"depth: $d = {d}$, $N = {n}$")
        error.set_title("the same; with several layers the address is lost")
        count.set_title(f"points: $d = {d}$, three layers")
        dim.set_title(f"dimension: $N = {n}$, three layers")
        for axes in (depth, error, count, dim):
            axes.set(ylim=(0, 1.02), xlabel="rank per point, $r / N$" if axes is count else "rank $r$")
            axes.xaxis.get_major_locator().set_params(integer=axes is not count)
            axes.legend(loc="best")
        figure.suptitle("Farthest point by addresses: hand-built layers of $d/r$ heads of rank $r$", fontsize=11)
        return figure

    def table(self, data: Address) -> list[tuple[str | int | float | None, ...]]:
        return [(s.dim, s.points, s.layers, s.rank, s.right, s.error) for s in data.searches]

    def reading(self, data: Address) -> list[str]:
        d, n = data.searches[0].dim, data.searches[0].points
        rank = min((mark.rank for mark in data.limits), key=lambda rank: abs(rank - n / 2))
        alike = [s for s in data.searches if (s.dim, s.points, s.rank) == (d, n, rank)]
        depths = ", ".join(f"{s.right:.0%} with {s.layers}" for s in alike)
        ceiling = next(mark.right for mark in data.limits if mark.rank == rank)
        half = [s.right for s in data.searches if s.layers == 3 and s.dim == d and 2 * s.rank == s.points]
        dims = [s.right for s in data.searches if s.layers == 3 and s.points == n and s.rank == rank]
        return [
            f"Right choices at rank {rank} of {d} dimensions among {n} points, by layers: {depths}.",
            f"The best matrix of that rank: {ceiling:.0%}.",
            f"Three layers of rank N/2: {min(half):.0%} to {max(half):.0%} at all numbers of points.",
            f"Three layers of rank {rank} among {n} points: {min(dims):.0%} to {max(dims):.0%} in all dimensions.",
        ]


FIGURE = _AddressFigure()
