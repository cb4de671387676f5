"""The cliff: where between d/2 and d does rank begin to be enough?

    rankwise reproduce cliff

Farthest neighbour with one layer of 1, 2 or 4 heads whose rank goes from d/2 to d in fine steps, d - 1 included. Rank
is free here; the paper's modules of dim/rank heads see only d/2 and d. Ours alone: nothing to compare with.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from rankwise.recipes.cells import TWENTIETH, Sphere, sphere_trainer
from rankwise.recipes.curves import ERROR, apart, counted, curves
from rankwise.recipes.points import Point, lines_of
from rankwise.recipes.trained_figure import TrainedFigure
from rankwise.report import Panel, Picture, PlotAxis, two_digits_down
from rankwise.spec import RunSpec


class _Cliff(TrainedFigure[Sphere]):
    """Error against rank for a few heads."""

    name = "cliff"
    keys = ("heads", "rank")

    def runs(self, settings: Sphere, *, sequences: int | None = None) -> Iterable[RunSpec]:
        """By ``capacity``: the paper's protocol takes only ranks that divide d."""
        train = sphere_trainer(settings, sequences)
        return (train(heads=heads, rank=rank) for heads in settings.heads for rank in settings.ranks)

    def reading(self, settings: Sphere, points: Sequence[Point]) -> list[str]:
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

    def picture(self, settings: Sphere, points: Sequence[Point]) -> Picture:
        series = curves(points, "heads", lambda heads: counted(heads, "head"), x="rank")
        x = PlotAxis(label="rank of a head", ticks=apart(reversed(lines_of(points, "rank")), settings.dim / 16))
        panel = Panel(x=x, y=ERROR, series=series, levels=settings.levels)
        title = f"One layer that finds the {settings.place}"
        return Picture(title=title, panels=[[panel]], legend="right", size=(6.4, 4.0))


_FULL_RANKS = (32, 36, 40, 44, 48, 52, 56, 58, 60, 61, 62, 63, 64)
FIGURE = _Cliff(
    smoke=Sphere(dim=16, points=8, ranks=(8, 15, 16), heads=(1, 2), sequences=32_000, seeds=1),
    laptop=Sphere(dim=16, points=8, ranks=tuple(range(8, 17)), heads=(1, 2, 4), sequences=96_000),
    full=Sphere(dim=64, points=16, ranks=_FULL_RANKS, heads=(1, 2, 4), sequences=TWENTIETH, seeds=1),
)
