"""How many rank-1 voters it takes: accuracy of the two-layer majority vote against the number of heads.

    rankwise reproduce vote --preset laptop        (smoke: 5 s; laptop: 1 minute on one core)

Lines are the quadrature of ``majority_accuracy``. Points are the hand-built two-layer network ``majority_vote`` on
fresh data with several draws of its random heads, bars standard errors between draws. To expect: one random head in
dimension d is right with probability 1/2 + .254/sqrt d; for H >> d the wrong answers fall like sqrt(d/H)/2.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import torch

from rankwise.estimate import Estimate
from rankwise.nn import majority_vote
from rankwise.recipes.computed_figure import ComputedFigure
from rankwise.recipes.curves import curve
from rankwise.recipes.points import Point, Row, estimated, lines_of, select
from rankwise.report import COLOURS, GUIDE, MARKERS, Panel, Picture, PlotAxis, Series, dots, smooth
from rankwise.tasks import NearestNeighbor
from rankwise.theory import majority_accuracy, majority_heads_required

_TARGETS = (0.9, 0.99)


@dataclass(frozen=True, kw_only=True)
class Settings:
    """Sizes of the figure; ``draws`` of the heads are measured on ``samples`` examples each."""

    dims: tuple[int, ...]
    most_heads: int
    simulated_heads: tuple[int, ...]
    draws: int
    samples: int


def simulated_accuracy(dim: int, heads: int, settings: Settings) -> Estimate:
    """Accuracy of the network; its squared error is 2 when it picks the wrong one of two orthogonal points."""
    generator = torch.Generator().manual_seed(heads + 7919 * dim)
    task = NearestNeighbor(dim, 2, distribution="orthogonal")
    right = []
    for _ in range(settings.draws):
        network = majority_vote(dim, heads, generator)
        batch = task.sample(settings.samples, generator)
        with torch.no_grad():
            error = task.error(network(batch.queries, batch.points), batch)
        right.append((error < 1).double().mean().item())
    return Estimate.over(right)


class _Vote(ComputedFigure[Settings]):
    """Accuracy against heads, by quadrature and as a network, and the wrong answers in logarithms beside their law."""

    name = "vote"
    columns = ("kind", "dim", "heads", "accuracy", "accuracy_se")

    def parts(self, settings: Settings) -> Iterator[tuple[str, int, int]]:
        octaves = int(2 * math.log2(settings.most_heads))
        fine = {2 * (round(2 ** (step / 2)) // 2) + 1 for step in range(octaves + 1)}
        for dim in settings.dims:
            yield from (("quadrature", dim, heads) for heads in sorted(fine))
            yield from (("network", dim, heads) for heads in settings.simulated_heads)

    def rows(self, settings: Settings, kind: str, dim: int, heads: int) -> Iterator[Row]:
        exact = Estimate(majority_accuracy(dim, heads), 0.0)
        found = exact if kind == "quadrature" else simulated_accuracy(dim, heads, settings)
        yield {"kind": kind, "dim": dim, "heads": heads, **estimated("accuracy", found), "wrong": 1 - found.mean}

    def tabled(self, points: Sequence[Point]) -> list[Point]:
        return select(points, kind="network")

    def picture(self, settings: Settings, points: Sequence[Point]) -> Picture:
        left: list[Series] = []
        right: list[Series] = []
        for (dim, line), colour, marker in zip(lines_of(points, "dim").items(), COLOURS, MARKERS, strict=False):
            exact, network = select(line, kind="quadrature"), select(line, kind="network")
            far = [point["heads"] for point in exact if point["heads"] >= 4 * dim]
            law = [0.5 * math.sqrt(dim / heads) for heads in far]
            for panel, column in ((left, "accuracy"), (right, "wrong")):
                panel.append(curve(f"$d = {dim}$", exact, x="heads", y=column, **smooth(colour)))
                panel.append(curve("", network, x="heads", y=column, **dots(colour, marker)))
            label = r"$\frac{1}{2}\sqrt{d/H}$" if dim == max(settings.dims) else ""
            right.append(Series(label=label, x=far, y=law, style=smooth(GUIDE, ":", 1.1)))
        heads = PlotAxis(label="heads $H$", scale="log")
        nearer = PlotAxis(label="probability to pick the nearer point", low=0.48, high=1.01)
        other = PlotAxis(label="probability to pick the other point", scale="log")
        accuracy = Panel(
            title="accuracy: quadrature (lines), network (points)",
            x=heads,
            y=nearer,
            series=left,
            levels={f"{target:g}": target for target in _TARGETS},
            level_side="left",
            legend="lower right",
        )
        wrong = Panel(title="wrong answers and their law", x=heads, y=other, series=right, legend="lower left")
        title = "Majority vote of random rank-1 heads, two layers, two orthogonal points"
        return Picture(title=title, panels=[[accuracy, wrong]], share_y=False, size=(4.3, 3.7))

    def reading(self, settings: Settings, points: Sequence[Point]) -> list[str]:
        network, dim = self.tabled(points), settings.dims[0]
        worst = max(abs(p["accuracy"] - majority_accuracy(p["dim"], p["heads"])) / p["accuracy_se"] for p in network)
        return [
            "Two rank-1 layers do what one cannot, at the price of many heads.",
            "A share e of wrong answers takes about d / (4 e^2) heads.",
            f"Network and quadrature differ by at most {worst:.1f} standard errors here.",
        ] + [
            f"An accuracy of {target:g} in dimension {dim} takes {majority_heads_required(dim, target):,} heads."
            for target in _TARGETS
        ]


FIGURE = _Vote(
    smoke=Settings(dims=(8, 64), most_heads=10**5, simulated_heads=(1, 9, 101), draws=8, samples=500),
    laptop=Settings(
        dims=(8, 16, 64), most_heads=10**6, simulated_heads=(1, 3, 9, 31, 101, 317, 1001, 3163), draws=24, samples=2000
    ),
)
