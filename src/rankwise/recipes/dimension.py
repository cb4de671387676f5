"""The role of the dimension: is it the rank that matters, or its share of d?

    rankwise reproduce dimension

Farthest neighbour among 16 points (8 at laptop size) with two layers: w modules of k heads of rank d/k, so w d/r heads
of rank r, for several d. The paper has the experiment in its text without a picture; there w = 8 and N = 16.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from rankwise.recipes.cells import LATER_RATE, TWENTIETH, cell_trainer, farthest
from rankwise.recipes.curves import ERROR, curves, shares, ticked
from rankwise.recipes.points import Point, Value, lines_of
from rankwise.recipes.trained_figure import Settings, TrainedFigure
from rankwise.report import Panel, Picture, PlotAxis
from rankwise.spec import RunSpec

_LAYERS = 2


@dataclass(frozen=True, kw_only=True)
class Sizes(Settings):
    """``modules`` modules of k = ``splits`` heads of rank d/k, for every d of ``dims``."""

    dims: tuple[int, ...]
    points: int
    splits: tuple[int, ...]
    modules: int
    sequences: int


class _Dimension(TrainedFigure[Sizes]):
    """The same errors against the rank, and against its share of d."""

    name = "dimension"
    keys = ("dim", "rank")

    def runs(self, settings: Sizes, *, protocol: str = "capacity", sequences: int | None = None) -> Iterable[RunSpec]:
        """Every split of every dimension."""
        train = cell_trainer(sequences, settings.sequences, protocol=protocol, paper_rate=LATER_RATE)
        for dim in settings.dims:
            for split in settings.splits:
                heads = settings.modules * split
                yield train(farthest(dim, settings.points), layers=_LAYERS, heads=heads, rank=dim // split)

    def columns(self, run: RunSpec) -> Mapping[str, Value]:
        return {"split": run.model.dim // run.model.rank}

    def reading(self, settings: Sizes, points: Sequence[Point]) -> list[str]:
        """Errors of equal shares of d, and of the rank that most dimensions have."""
        lines = []
        for split, own in lines_of(points, "split").items():
            errors = [point.error for point in own]
            share = f"d/{split}" if split > 1 else "d"
            lines.append(f"r = {share}: the error is {min(errors):.3g} to {max(errors):.3g} over all d.")
        low = lines_of([point for point in points if point["rank"] < point["dim"]], "rank")
        rank, own = max(low.items(), key=lambda line: (len(line[1]), line[0]), default=(0, []))
        if len(own) > 1:
            first, last = own[0], own[-1]
            lines.append(
                f"The same rank {rank}: {first.error:.3g} at d = {first['dim']}, {last.error:.3g} at d = {last['dim']}."
            )
        return lines

    def picture(self, settings: Sizes, points: Sequence[Point]) -> Picture:
        ticks = shares(sorted({1 / point["split"] for point in points}))
        against = {
            "against the rank": (ticked(points), "rank"),
            "against its share of d": (PlotAxis(label="rank / d", scale="log2", ticks=ticks), _share),
        }
        panels = [
            Panel(title=title, x=axis, y=ERROR, series=curves(points, "dim", "d = {}".format, shades=True, x=x))
            for title, (axis, x) in against.items()
        ]
        title = f"Farthest of {settings.points} points, two layers of {settings.modules} d/r heads"
        return Picture(title=title, panels=[panels], legend="right")


def _share(point: Point) -> float:
    return float(point["rank"] / point["dim"])


FIGURE = _Dimension(
    smoke=Sizes(dims=(4, 8), points=8, splits=(1, 2), modules=2, sequences=32_000, seeds=1),
    laptop=Sizes(dims=(8, 16, 32), points=8, splits=(1, 2, 4, 8), modules=4, sequences=128_000),
    full=Sizes(
        dims=(16, 32, 64, 128, 256), points=16, splits=(1, 2, 4, 8, 16), modules=8, sequences=TWENTIETH, seeds=1
    ),
)
