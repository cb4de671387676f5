"""The cliff: where between d/2 and d does rank begin to be enough?

    rankwise reproduce cliff

Farthest neighbour with one layer of 1, 2 or 4 heads whose rank goes from d/2 to d in fine steps, d - 1 included. Rank
is free here; the paper's modules of dim/rank heads see only d/2 and d. Ours alone: nothing to compare with.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from rankwise.recipes.cells import TWENTIETH, SphereSizes, sphere_trainer
from rankwise.recipes.curves import ERROR, counted, curves
from rankwise.recipes.points import Point, lines_of
from rankwise.recipes.trained_figure import TrainedFigure
from rankwise.report import Panel, Picture, PlotAxis, two_digits_down
from rankwise.spec import RunSpec


@dataclass(frozen=True, kw_only=True)
class Sizes(SphereSizes):
    """Every rank with every number of heads."""

    heads: tuple[int, ...]


class _Cliff(TrainedFigure[Sizes]):
    """Error against rank for a few heads, logarithmic left (the fall) and linear right (where it begins)."""

    name = "cliff"
    keys = ("heads", "rank")

    def runs(self, settings: Sizes, *, sequences: int | None = None) -> Iterable[RunSpec]:
        """By ``capacity``: the paper's protocol takes only ranks that divide d."""
        train = sphere_trainer(settings, sequences)
        return (train(heads=heads, rank=rank) for heads in settings.heads for rank in settings.ranks)

    def reading(self, settings: Sizes, points: Sequence[Point]) -> list[str]:
        """For every number of heads: where the error has halved, and the last step before full rank."""
        lines = []
        for heads, own in lines_of(points, "heads").items():
            line = {point["rank"]: point.error for point in own}
            half = next((rank for rank in sorted(line) if line[rank] <= line[min(line)] / 2), None)
            found = "never halved" if half is None else f"halved from rank {half} on"
            words = f"{counted(heads, 'head')}: the error of rank {min(line)} is {found}."
            if {settings.dim, settings.dim - 1} <= set(line):
                before, after = line[settings.dim - 1], line[settings.dim]
                words += f" The last rank takes it from {before:.3g} to {after:.3g}"
                words += f", at least {two_digits_down(before / after)} times less."
            lines.append(words)
        return lines

    def picture(self, settings: Sizes, points: Sequence[Point]) -> Picture:
        series = curves(points, "heads", lambda heads: counted(heads, "head"), x="rank")
        x = PlotAxis(label="rank of a head", ticks=_ticks(sorted({point["rank"] for point in points})))
        left = Panel(title="error, logarithmic", x=x, y=ERROR, series=series, levels=settings.levels)
        right = Panel(title="error, linear", x=x, y=PlotAxis(low=0), series=series)
        title = f"The cliff: {settings.place}, one layer"
        return Picture(title=title, panels=[[left, right]], legend="right", share_y=False)


def _ticks(ranks: Sequence[int]) -> list[int]:
    """As many of the ranks as can be read, the first and the last among them."""
    if len(ranks) <= 9:
        return list(ranks)
    return [rank for rank in ranks if rank in (ranks[0], ranks[-1]) or (rank % 4 == 0 and ranks[-1] - rank > 2)]


_FULL_RANKS = (32, 36, 40, 44, 48, 52, 56, 58, 60, 61, 62, 63, 64)
FIGURE = _Cliff(
    smoke=Sizes(dim=16, points=8, ranks=(8, 15, 16), heads=(1, 2), sequences=32_000, seeds=1),
    laptop=Sizes(dim=16, points=8, ranks=tuple(range(8, 17)), heads=(1, 2, 4), sequences=96_000),
    full=Sizes(dim=64, points=16, ranks=_FULL_RANKS, heads=(1, 2, 4), sequences=TWENTIETH, seeds=1),
)
