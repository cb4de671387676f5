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
from functools import cache
from typing import TYPE_CHECKING

from rankwise.recipes.cells import TWENTIETH, budget
from rankwise.recipes.curves import curve, titled
from rankwise.recipes.rows import Point, Value, lines_of
from rankwise.recipes.trained_figure import Settings, TrainedFigure
from rankwise.report.figures import new_figure, ramp
from rankwise.report.panels import draw_series, fine_axes
from rankwise.spec import NeighborSpec, RunSpec, vary
from rankwise.sweep.trained import TrainedRun
from rankwise.train.protocols import Cell, capacity

if TYPE_CHECKING:
    from matplotlib.figure import Figure


@dataclass(frozen=True, kw_only=True)
class Sizes(Settings):
    """The sizes of a preset; ``biases`` in standard deviations of the margin."""

    dim: int
    heads: int
    ranks: tuple[int, ...]
    biases: tuple[float, ...] = (0.0, 0.5, 1.0, 2.0)
    sequences: int


PRESETS = {
    "smoke": Sizes(dim=8, heads=4, ranks=(4, 8, 9), biases=(0.0, 1.0), sequences=64_000, seeds=1),
    "laptop": Sizes(dim=16, heads=4, ranks=(1, 4, 8, 10, 12, 14, 15, 16, 17), sequences=384_000),
    "paper": Sizes(
        dim=64,
        heads=16,
        ranks=(1, 8, 16, 32, 40, 48, 52, 56, 60, 62, 63, 64, 65),
        sequences=2 * TWENTIETH,
        seeds=1,
    ),
}


class _Biased(TrainedFigure[Sizes]):
    """Error against d - r, one curve per bias; and the same relative to the best linear predictor."""

    name = "biased"
    keys = ("bias", "rank")
    tabled = ("error", "of_linear")
    presets = PRESETS

    def runs(self, settings: Sizes, *, sequences: int | None = None) -> Iterable[RunSpec]:
        """Every rank with every bias."""
        dim, seen = settings.dim, budget(sequences, settings.sequences)
        for bias in settings.biases:
            task = NeighborSpec(
                name="biased",
                dim=dim,
                points=2,
                distribution="orthogonal",
                biases=(bias * margin_deviation(dim),),
                coefficients=(1.0,),
            )
            for rank in settings.ranks:
                run = capacity(Cell(task=task, heads=settings.heads, rank=rank, sequences=seen))
                yield vary(
                    run,
                    {
                        "model.value_rank": dim,
                        "model.residual": "none",
                        "model.positions": "concatenated",
                        "model.position_dim": 1,
                        "model.max_points": 2,
                    },
                )

    def columns(self, run: RunSpec) -> Mapping[str, Value]:
        """The bias in standard deviations of the margin."""
        return {"bias": round(run.neighbors.biases[0] / margin_deviation(run.model.dim), 6)}

    def measured(self, trained: TrainedRun) -> Iterable[Mapping[str, Value]]:
        """The share of the best linear predictor's error (with a constant) that remains."""
        linear = linear_error(trained.run.neighbors)
        yield {"linear_error": linear, "of_linear": trained.result["error"] / linear}

    def reading(self, settings: Sizes, points: Sequence[Point]) -> list[str]:
        """For every bias, the share of the linear error that remains at half rank, at d, and at d + 1."""
        dim = settings.dim
        telling = (dim // 2, dim - 1, dim, dim + 1)
        return [
            f"Bias {bias:g}: of the best linear predictor's error there remains "
            + ", ".join(f"{p.mean('of_linear'):.2g} at rank {p.row.rank}" for p in own if p.row.rank in telling)
            + "."
            for bias, own in lines_of(points, "bias").items()
        ]

    def draw(self, settings: Sizes, points: Sequence[Point]) -> Figure:
        """Errors left, errors relative to the best linear predictor's right, both against d - r."""
        figure = new_figure(10.0, 3.9)
        panels = figure.subplots(1, 2)
        names = (("error", "squared error"), ("of_linear", "relative to the best linear predictor"))
        biases = lines_of(points, "bias")
        for axes, (column, name) in zip(panels, names, strict=True):
            colours = zip(biases.items(), ramp(len(biases)), strict=True)
            lines = [
                curve(f"bias {bias:g} deviations", own, x=_codimension, y=column, color=colour)
                for (bias, own), colour in colours
            ]
            draw_series(axes, lines)
            fine_axes(axes, _ticks(points), name, "d - r")
            axes.invert_xaxis()
        panels[1].set_ylabel("error / error of the best linear predictor")
        title = f"Biased nearest of two orthogonal points in {settings.dim} dimensions, {settings.heads} heads"
        return titled(figure, panels, title)


def margin_deviation(dim: int) -> float:
    """The standard deviation of ``<x_1 - x_2, y>``: sqrt(2/d)."""
    return math.sqrt(2 / dim)


@cache
def linear_error(task: NeighborSpec) -> float:
    """The error of the best linear predictor with a constant."""
    import torch

    from rankwise.tasks.from_spec import build_neighbors

    return build_neighbors(task).baselines(torch.Generator().manual_seed(0), 20_000).linear.mean


def _codimension(point: Point) -> float:
    return point.row.dim - point.row.rank


def _ticks(points: Sequence[Point]) -> list[int]:
    """The codimensions that were trained, without those too near the last to be read."""
    found = sorted({int(_codimension(point)) for point in points})
    near = points[0].row.dim / 16
    return [gap for gap in found if gap in (found[0], found[-1]) or gap - found[0] >= near]


FIGURE = _Biased()
