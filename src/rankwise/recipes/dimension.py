"""The role of the dimension: is it the rank that matters, or its share of d?

    rankwise reproduce dimension

Farthest neighbour among 16 points (8 at laptop size) with two layers: w modules of k heads of rank d/k, so w d/r heads
of rank r, for several d. The paper has the experiment in its text without a picture; there w = 8 and N = 16.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from rankwise.recipes.cells import LATER_RATE, TWENTIETH, cell_trainer, farthest
from rankwise.recipes.marks import ERROR, Value, curve, lines_of, ticked
from rankwise.recipes.rows import Point
from rankwise.recipes.trained_figure import Settings, TrainedFigure
from rankwise.report import Panel, Picture, PlotAxis, ramp
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


PRESETS = {
    "smoke": Sizes(dims=(4, 8), points=8, splits=(1, 2), modules=2, sequences=32_000, seeds=1),
    "laptop": Sizes(dims=(8, 16, 32), points=8, splits=(1, 2, 4, 8), modules=4, sequences=128_000),
    "full": Sizes(
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
        train = cell_trainer(sequences, settings.sequences, protocol=protocol, paper_rate=LATER_RATE)
        for dim in settings.dims:
            for split in settings.splits:
                heads = settings.modules * split
                yield train(farthest(dim, settings.points), layers=_LAYERS, heads=heads, rank=dim // split)

    def columns(self, run: RunSpec) -> Mapping[str, Value]:
        """By how much the rank is smaller than d."""
        return {"split": run.model.dim // run.model.rank}

    def reading(self, settings: Sizes, marks: Sequence[Point]) -> list[str]:
        """Errors of equal shares of d, and of the rank that most dimensions have."""
        lines = [
            f"r = d{f'/{split}' * (split != 1)}: {_listed(own)}." for split, own in lines_of(marks, "split").items()
        ]
        low = lines_of([point for point in marks if point.row.rank < point.row.dim], "rank")
        if any(len(own) > 1 for own in low.values()):
            most = max(len(own) for own in low.values())
            rank, own = [(rank, own) for rank, own in low.items() if len(own) == most][-1]
            lines.append(f"The same rank {rank}: {_listed(own)}.")
        return lines

    def picture(self, settings: Sizes, marks: Sequence[Point]) -> Picture:
        """Left against the rank, right against its share of the dimension."""
        splits = sorted({int(point.get("split")) for point in marks}, reverse=True)
        share = {1 / split: "1" if split == 1 else f"1/{split}" for split in splits}
        axes = {"rank": ticked(marks), "share": PlotAxis(label="rank / d", scale="log2", ticks=share)}
        panels = []
        for column, title in (("rank", "against the rank"), ("share", "against its share of d")):
            dims = lines_of(marks, "dim")
            series = [
                curve(f"d = {dim}", own, x=column if column == "rank" else _share, color=colour)
                for (dim, own), colour in zip(dims.items(), ramp(len(dims)), strict=True)
            ]
            panels.append(Panel(title=title, x=axes[column], y=ERROR, series=series))
        title = f"Farthest of {settings.points} points, two layers of {settings.modules} d/r heads"
        return Picture(title=title, panels=[panels], legend="right")


def _share(point: Point) -> float:
    return point.row.rank / point.row.dim


def _listed(points: Sequence[Point]) -> str:
    return ", ".join(f"{point.error:.3g} at d = {point.row.dim}" for point in points)


FIGURE = _Dimension()
