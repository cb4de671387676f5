"""Why depth helps low rank among few points: layers that search by an address, against rank, points and dimension.

    rankwise reproduce address --preset laptop      (smoke: 10 s; laptop: 8 minutes on one core)

Every point is the hand-built network ``address_search``, d/r heads of rank r in each layer, on fresh data: how often
the point its last layer looks at most is the farthest one, and the squared error of its answer. Its few numbers (two
per step, beta and gain) are fitted.

To expect: one layer is right as often as r of d dimensions tell; several layers turn their addresses towards the
leading eigenvectors of the points' Gram matrix, N x N, so that the rank competes with the number of points, not with d.
The limit is the best matrix of rank r for these points (Eckart and Young), which is the whole Gram matrix at r = N. The
network is ours, and so is what it says of depth: measurements, not a theorem.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass

import torch

from rankwise.estimate import Estimate
from rankwise.nn import address_search, best_rank_right
from rankwise.recipes.computed_figure import ComputedFigure
from rankwise.recipes.curves import curve, curves
from rankwise.recipes.points import Point, Row, estimated, select
from rankwise.report import GUIDE, Panel, Picture, PlotAxis, smooth
from rankwise.tasks import FarthestNeighbor
from rankwise.train import fit_search


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


class _Address(ComputedFigure[Settings]):
    """Right choices and error against rank by depth; right choices by number of points, and by dimension.

    ``right`` is the share of queries whose last layer looks most at the farthest point, ``limit`` the same share for
    the best matrix of that rank, ``error`` the squared error of the answers.
    """

    name = "address"
    columns = ("dim", "points", "layers", "rank", "right", "error")

    def parts(self, settings: Settings) -> Iterator[tuple[int, int, int, int]]:
        dim, count = settings.dims[0], settings.counts[0]
        cells = [(dim, count, layers) for layers in settings.depths]
        cells += [(dim, other, 3) for other in settings.counts[1:]] + [(other, count, 3) for other in settings.dims[1:]]
        for d, points, layers in cells:
            ranks = (round(share * points) for share in settings.shares)
            yield from ((d, points, layers, rank) for rank in ranks if 1 <= rank < d)

    def rows(self, settings: Settings, dim: int, points: int, layers: int, rank: int) -> Iterator[Row]:
        """The network with the numbers that gradient descent on its iteration finds, measured on fresh sequences."""
        generator = torch.Generator().manual_seed(rank + 7919 * layers + 104729 * points)
        task = FarthestNeighbor(dim, points)
        found = fit_search(task, layers, rank, settings.iterations, generator)
        network = address_search(dim, rank, found.steps, found.beta, gain=found.gain)
        batch = task.sample(settings.sequences, generator)
        with torch.no_grad():
            answers, weights = network(batch.points, return_weights=True)
        chosen = weights[-1][:, 0].argmax(-1)
        hits = (chosen == (batch.points @ batch.points.mT).argmin(-1)).double().mean(-1)
        other = task.sample(settings.sequences, torch.Generator().manual_seed(rank)).points
        yield {
            "dim": dim,
            "points": points,
            "layers": layers,
            "rank": rank,
            **estimated("right", Estimate.over(hits.tolist())),
            **estimated("error", Estimate.over(task.error(answers, batch).double().tolist())),
            "limit": best_rank_right(other, rank),
            **asdict(found),
        }

    def picture(self, settings: Settings, points: Sequence[Point]) -> Picture:
        d, n = settings.dims[0], settings.counts[0]
        first, three = select(points, dim=d, points=n), select(points, layers=3)

        def panel(title: str, own: Sequence[Point], key: str, label: str, y: str = "right") -> Panel:
            def at(point: Point) -> float:
                return float(point["rank"] / (point["points"] if key == "points" else 1))

            series = curves(own, key, label.format, x=at, y=y)
            if y == "right":
                best = select(first, layers=settings.depths[0])
                series.append(curve("best matrix of rank $r$", best, x=at, y="limit", **smooth(GUIDE, "--")))
            x = PlotAxis(label="rank per point, $r / N$" if key == "points" else "rank $r$")
            named = PlotAxis(label="right choices" if y == "right" else "squared error of the answer", low=0, high=1.02)
            return Panel(title=title, x=x, y=named, series=series, legend="best")

        depth = panel(f"depth: $d = {d}$, $N = {n}$", first, "layers", "layers: {}")
        error = panel("the same; with several layers the address is lost", first, "layers", "layers: {}", "error")
        counts = panel(f"points: $d = {d}$, three layers", select(three, dim=d), "points", "$N = {}$")
        dims = panel(f"dimension: $N = {n}$, three layers", select(three, points=n), "dim", "$d = {}$")
        title = "Farthest point by addresses: hand-built layers of $d/r$ heads of rank $r$"
        return Picture(title=title, panels=[[depth, error], [counts, dims]], share_y=False, size=(4.4, 3.4))

    def reading(self, settings: Settings, points: Sequence[Point]) -> list[str]:
        d, n = settings.dims[0], settings.counts[0]
        rank = min((s["rank"] for s in select(points, dim=d, points=n)), key=lambda rank: abs(rank - n / 2))
        alike, three = select(points, dim=d, points=n, rank=rank), select(points, layers=3)
        half = [s["right"] for s in select(three, dim=d) if 2 * s["rank"] == s["points"]]
        dims = [s["right"] for s in select(three, points=n, rank=rank)]
        return [
            f"Rank {rank} among {n} points in {d} dimensions, right choices by the number of layers: "
            + ", ".join(f"{s['right']:.0%} with {s['layers']}" for s in alike)
            + f". The best matrix of that rank: {alike[0]['limit']:.0%}.",
            f"Three layers of rank N/2: {min(half):.0%} to {max(half):.0%} at all numbers of points.",
            f"Three layers of rank {rank}: {min(dims):.0%} to {max(dims):.0%} in all dimensions.",
        ]


FIGURE = _Address(
    smoke=Settings(dims=(16, 32), counts=(8, 4), depths=(1, 3), shares=(0.25, 0.5), iterations=60, sequences=500),
    laptop=Settings(),
)
