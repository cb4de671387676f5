"""The cliff: where between d/2 and d does rank begin to be enough?

    rankwise reproduce cliff

Farthest neighbour with one layer of 1, 2 or 4 heads whose rank goes from d/2 to d in fine steps, d - 1 included. Rank
is free here; the paper's modules of dim/rank heads see only d/2 and d. Ours alone: nothing to compare with.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from rankwise.recipes.cells import TWENTIETH, SphereSizes, counted, sphere_trainer
from rankwise.recipes.marks import curve, lines_of
from rankwise.recipes.rows import Point
from rankwise.recipes.trained_figure import TrainedFigure
from rankwise.report import Panel, Picture, PlotAxis, two_digits_down
from rankwise.spec import RunSpec
from rankwise.tasks import trivial_errors


@dataclass(frozen=True, kw_only=True)
class Sizes(SphereSizes):
    """The sizes of a preset."""

    heads: tuple[int, ...]


_FULL_RANKS = (32, 36, 40, 44, 48, 52, 56, 58, 60, 61, 62, 63, 64)
PRESETS = {
    "smoke": Sizes(dim=16, points=8, ranks=(8, 15, 16), heads=(1, 2), sequences=32_000, seeds=1),
    "laptop": Sizes(dim=16, points=8, ranks=tuple(range(8, 17)), heads=(1, 2, 4), sequences=96_000),
    "full": Sizes(dim=64, points=16, ranks=_FULL_RANKS, heads=(1, 2, 4), sequences=TWENTIETH, seeds=1),
}


class _Cliff(TrainedFigure[Sizes]):
    """Error against rank for a few heads, in steps of 1."""

    name = "cliff"
    keys = ("heads", "rank")
    presets = PRESETS

    def runs(self, settings: Sizes, *, sequences: int | None = None) -> Iterable[RunSpec]:
        """By ``capacity``: the paper's protocol takes only ranks that divide d."""
        train = sphere_trainer(settings, sequences)
        for heads in settings.heads:
            for rank in settings.ranks:
                yield train(heads=heads, rank=rank)

    def reading(self, settings: Sizes, marks: Sequence[Point]) -> list[str]:
        """For every number of heads: the last step before full rank, and where the error has halved."""
        return [
            f"{counted(heads, 'head')}: {_fall({p.row.rank: p.error for p in line}, settings.dim)}."
            for heads, line in lines_of(marks, "heads").items()
        ]

    def picture(self, settings: Sizes, marks: Sequence[Point]) -> Picture:
        """Error against rank, logarithmic left (the fall) and linear right (where it begins)."""
        series = [curve(counted(heads, "head"), line, x="rank") for heads, line in lines_of(marks, "heads").items()]
        x = PlotAxis(label="rank of a head", ticks=_ticks(sorted({p.row.rank for p in marks})))
        log = PlotAxis(label="squared error per query", scale="log")
        levels = trivial_errors(settings.dim, settings.points)
        left = Panel(title="error, logarithmic", x=x, y=log, series=series, levels=levels)
        right = Panel(title="error, linear", x=x, y=PlotAxis(low=0), series=series)
        title = f"The cliff: farthest of {settings.points} points in {settings.dim} dimensions, one layer"
        return Picture(title=title, panels=[[left, right]], legend="right", share_y=False)


def _fall(line: dict[int, float], dim: int) -> str:
    first = min(line)
    half = next((rank for rank in sorted(line) if line[rank] <= line[first] / 2), None)
    words = f"{line[first]:.3g} at rank {first}, " + ("never halved" if half is None else f"halved from rank {half} on")
    if dim in line and dim - 1 in line:
        times = two_digits_down(line[dim - 1] / line[dim])
        words += f"; the last step, from rank {dim - 1} to {dim}, takes {line[dim - 1]:.3g} to {line[dim]:.3g}"
        words += f" (at least {times} times)"
    return words


def _ticks(ranks: Sequence[int]) -> list[int]:
    """As many of the ranks as can be read, the first and the last among them."""
    if len(ranks) <= 9:
        return list(ranks)
    return [rank for rank in ranks if rank in (ranks[0], ranks[-1]) or (rank % 4 == 0 and ranks[-1] - rank > 2)]


FIGURE = _Cliff()
