"""The biased target: what a head of rank r misses, against d - r, for several biases.

    rankwise reproduce biased

Two orthogonal points and one query y ~ N(0, I/d); the answer is x_1 if ``<x_1 - x_2, y> + b > 0``, else x_2. The
paper's third theorem is about sums of such functions; its constants are not computable, so this is a measurement of
single ones, and no constant is claimed. The bias is given in standard deviations sqrt(2/d) of ``<x_1 - x_2, y>``.

One bare layer of H softmax heads with whole values. To tell x_1 from x_2 each point carries one more learned
coordinate, so that a head of rank d + 1 computes the target exactly and d - r begins at -1; without bias rank d is
enough. The larger the bias, the easier the answer "x_1" is, so errors are also shown relative to the best linear
predictor's.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from rankwise.recipes.cells import TWENTIETH, cell_trainer
from rankwise.recipes.curves import apart, curves
from rankwise.recipes.points import Point, Value, lines_of, select
from rankwise.recipes.trained_figure import Settings, TrainedFigure
from rankwise.report import Panel, Picture, PlotAxis
from rankwise.spec import NeighborSpec, RunSpec, vary
from rankwise.sweep import TrainedRun
from rankwise.tasks import linear_error

_BARE = {"model.residual": "none", "model.positions": "concatenated", "model.position_dim": 1, "model.max_points": 2}


@dataclass(frozen=True, kw_only=True)
class Sizes(Settings):
    """The sizes of a preset; ``biases`` in standard deviations of the margin."""

    dim: int
    heads: int
    ranks: tuple[int, ...]
    biases: tuple[float, ...] = (0.0, 0.5, 1.0, 2.0)
    sequences: int


class _Biased(TrainedFigure[Sizes]):
    """Error against d - r, one curve per bias; and the same relative to the best linear predictor (with a constant)."""

    name = "biased"
    keys = ("bias", "rank")
    tabled = ("error", "of_linear")

    def runs(self, settings: Sizes, *, sequences: int | None = None) -> Iterable[RunSpec]:
        """Every rank with every bias."""
        dim, train = settings.dim, cell_trainer(sequences, settings.sequences)
        for bias in settings.biases:
            margin = (bias * margin_deviation(dim),)
            task = NeighborSpec(
                name="biased", dim=dim, points=2, distribution="orthogonal", biases=margin, coefficients=(1.0,)
            )
            for rank in settings.ranks:
                yield vary(train(task, heads=settings.heads, rank=rank), {"model.value_rank": dim, **_BARE})

    def columns(self, run: RunSpec) -> Mapping[str, Value]:
        return {"bias": round(run.neighbors.biases[0] / margin_deviation(run.model.dim), 6)}

    def measured(self, trained: TrainedRun) -> Iterable[Mapping[str, Value]]:
        linear = linear_error(trained.run.neighbors)
        yield {"linear_error": linear, "of_linear": trained.result["error"] / linear}

    def reading(self, settings: Sizes, points: Sequence[Point]) -> list[str]:
        """For every bias, the share of the linear error that remains at half rank and at d + 1."""
        lines, telling = [], {"d/2": settings.dim // 2, "d + 1": settings.dim + 1}
        for bias, own in lines_of(points, "bias").items():
            found = {name: select(own, rank=rank) for name, rank in telling.items()}
            left = [f"{one[0].mean('of_linear'):.2g} at rank {name}" for name, one in found.items() if one]
            lines.append(f"Bias {bias:g}: of the best linear predictor's error, {' and '.join(left)} is left.")
        return lines

    def picture(self, settings: Sizes, points: Sequence[Point]) -> Picture:
        ticks = apart(sorted({_codimension(point) for point in points}), settings.dim / 16)
        x, panels = PlotAxis(label="d - r", ticks=ticks, inverted=True), []
        for column, title, label in (
            ("error", "squared error", "squared error per query"),
            ("of_linear", "relative to the best linear predictor", "error / error of the best linear predictor"),
        ):
            series = curves(points, "bias", "bias {:g} deviations".format, shades=True, x=_codimension, y=column)
            panels.append(Panel(title=title, x=x, y=PlotAxis(label=label, scale="log"), series=series))
        title = f"Biased nearest of two orthogonal points in {settings.dim} dimensions, {settings.heads} heads"
        return Picture(title=title, panels=[panels], legend="right", share_y=False)


def margin_deviation(dim: int) -> float:
    """The standard deviation of ``<x_1 - x_2, y>``: sqrt(2/d)."""
    return math.sqrt(2 / dim)


def _codimension(point: Point) -> float:
    return float(point["dim"] - point["rank"])


_FULL_RANKS = (1, 8, 16, 32, 40, 48, 52, 56, 60, 62, 63, 64, 65)
FIGURE = _Biased(
    smoke=Sizes(dim=8, heads=4, ranks=(4, 8, 9), biases=(0.0, 1.0), sequences=64_000, seeds=1),
    laptop=Sizes(dim=16, heads=4, ranks=(1, 4, 8, 10, 12, 14, 15, 16, 17), sequences=384_000),
    full=Sizes(dim=64, heads=16, ranks=_FULL_RANKS, sequences=2 * TWENTIETH, seeds=1),
)
