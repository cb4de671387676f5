"""The role of the dimension: is it the rank that matters, or its share of d?

    rankwise reproduce dimension

Farthest neighbour among 16 points (8 at laptop size) with two layers: w modules of k heads of rank d/k, so w d/r heads
of rank r, for several d. The paper has the experiment in its text without a picture; there w = 8 and N = 16.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from rankwise.recipes.cells import LATER_RATE, TWENTIETH, budget, farthest, train_as
from rankwise.recipes.curves import curve, titled
from rankwise.recipes.rows import Point, Value, lines_of
from rankwise.recipes.trained_figure import Settings, TrainedFigure
from rankwise.report.figures import new_figure, ramp
from rankwise.report.panels import draw_series, rank_axes
from rankwise.spec import RunSpec
from rankwise.train.protocols import Cell

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_LAYERS = 2


@dataclass(frozen=True, kw_only=True)
class Sizes(Settings):
    """``modules`` modules of k = ``splits`` heads of rank d/k, for every d of ``dims``."""

    dims: tuple[int, ...]
    points: int
    splits: tuple[int, ...]
    modules: int
    sequences: int


PRESETS = {
    "smoke": Sizes(dims=(4, 8), points=8, splits=(1, 2), modules=2, sequences=32_000, seeds=1),
    "laptop": Sizes(dims=(8, 16, 32), points=8, splits=(1, 2, 4, 8), modules=4, sequences=128_000),
    "paper": Sizes(
        dims=(16, 32, 64, 128, 256), points=16, splits=(1, 2, 4, 8, 16), modules=8, sequences=TWENTIETH, seeds=1
    ),
}


class _Dimension(TrainedFigure[Sizes]):
    """The same errors against the rank, and against its share of d."""

    name = "dimension"
    keys = ("dim", "rank")
    presets = PRESETS

    def runs(self, settings: Sizes, *, protocol: str = "capacity", sequences: int | None = None) -> Iterable[RunSpec]:
        """Every split of every dimension."""
        for dim in settings.dims:
            for split in settings.splits:
                cell = Cell(
                    task=farthest(dim, settings.points),
                    layers=_LAYERS,
                    heads=settings.modules * split,
                    rank=dim // split,
                    sequences=budget(sequences, settings.sequences),
                )
                yield train_as(protocol, cell, paper_rate=LATER_RATE)

    def columns(self, run: RunSpec) -> Mapping[str, Value]:
        """By how much the rank is smaller than d."""
        return {"split": run.model.dim // run.model.rank}

    def reading(self, settings: Sizes, points: Sequence[Point]) -> list[str]:
        """Errors of equal shares of d, and of the rank that most dimensions have."""
        lines = [
            f"r = d{f'/{split}' * (split != 1)}: {_listed(own)}." for split, own in lines_of(points, "split").items()
        ]
        low = lines_of([point for point in points if point.row.rank < point.row.dim], "rank")
        if any(len(own) > 1 for own in low.values()):
            most = max(len(own) for own in low.values())
            rank, own = [(rank, own) for rank, own in low.items() if len(own) == most][-1]
            lines.append(f"The same rank {rank}: {_listed(own)}.")
        return lines

    def draw(self, settings: Sizes, points: Sequence[Point]) -> Figure:
        """Left against the rank, right against its share of the dimension."""
        figure = new_figure(9.6, 3.9)
        left, right = figure.subplots(1, 2, sharey=True)
        dims = lines_of(points, "dim")
        for axes, x in ((left, _rank), (right, _share)):
            colours = zip(dims.items(), ramp(len(dims)), strict=True)
            draw_series(axes, [curve(f"d = {dim}", own, x=x, color=colour) for (dim, own), colour in colours])
        splits = sorted({int(point.get("split")) for point in points}, reverse=True)
        rank_axes(left, sorted({point.row.rank for point in points}), "against the rank")
        rank_axes(right, [1 / split for split in splits], "against its share of d", "rank / d")
        right.set_xticks([1 / split for split in splits], ["1" if s == 1 else f"1/{s}" for s in splits])
        right.set_ylabel("")
        title = f"Farthest of {settings.points} points, two layers of {settings.modules} d/r heads"
        return titled(figure, [left, right], title)


def _rank(point: Point) -> float:
    return point.row.rank


def _share(point: Point) -> float:
    return point.row.rank / point.row.dim


def _listed(points: Sequence[Point]) -> str:
    return ", ".join(f"{point.error:.3g} at d = {point.row.dim}" for point in points)


FIGURE = _Dimension()
