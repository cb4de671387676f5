"""The cliff: where between d/2 and d does rank begin to be enough?

    rankwise reproduce cliff

Farthest neighbour with one layer of 1, 2 or 4 heads whose rank goes from d/2 to d in fine steps, d - 1 included. Rank
is free here; the paper's modules of dim/rank heads see only d/2 and d. Ours alone: nothing to compare with.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from rankwise.recipes.baselines import trivial_errors
from rankwise.recipes.cells import TWENTIETH, budget, counted, farthest
from rankwise.recipes.curves import curve, titled
from rankwise.recipes.rows import Point, lines_of
from rankwise.recipes.trained_figure import Settings, TrainedFigure
from rankwise.report.figures import new_figure
from rankwise.report.headline import two_digits_down
from rankwise.report.panels import draw_levels, draw_series, fine_axes
from rankwise.spec import RunSpec
from rankwise.train.protocols import Cell, capacity

if TYPE_CHECKING:
    from matplotlib.figure import Figure


@dataclass(frozen=True, kw_only=True)
class Sizes(Settings):
    """The sizes of a preset."""

    dim: int
    points: int
    ranks: tuple[int, ...]
    heads: tuple[int, ...]
    sequences: int


PRESETS = {
    "smoke": Sizes(dim=16, points=8, ranks=(8, 15, 16), heads=(1, 2), sequences=32_000, seeds=1),
    "laptop": Sizes(dim=16, points=8, ranks=tuple(range(8, 17)), heads=(1, 2, 4), sequences=96_000),
    "paper": Sizes(
        dim=64,
        points=16,
        ranks=(32, 36, 40, 44, 48, 52, 56, 58, 60, 61, 62, 63, 64),
        heads=(1, 2, 4),
        sequences=TWENTIETH,
        seeds=1,
    ),
}


class _Cliff(TrainedFigure[Sizes]):
    """Error against rank for a few heads, in steps of 1."""

    name = "cliff"
    keys = ("heads", "rank")
    presets = PRESETS

    def runs(self, settings: Sizes, *, sequences: int | None = None) -> Iterable[RunSpec]:
        """By ``capacity``: the paper's protocol takes only ranks that divide d."""
        task, seen = farthest(settings.dim, settings.points), budget(sequences, settings.sequences)
        for heads in settings.heads:
            for rank in settings.ranks:
                yield capacity(Cell(task=task, heads=heads, rank=rank, sequences=seen))

    def reading(self, settings: Sizes, points: Sequence[Point]) -> list[str]:
        """For every number of heads: the last step before full rank, and where the error has halved."""
        return [
            f"{counted(int(heads), 'head')}: {_fall({p.row.rank: p.error for p in line}, settings.dim)}."
            for heads, line in lines_of(points, "heads").items()
        ]

    def draw(self, settings: Sizes, points: Sequence[Point]) -> Figure:
        """Error against rank, logarithmic left (the fall) and linear right (where it begins)."""
        figure = new_figure(10.0, 3.9)
        panels = figure.subplots(1, 2)
        lines = [
            curve(counted(int(heads), "head"), line, x="rank") for heads, line in lines_of(points, "heads").items()
        ]
        for axes, name in zip(panels, ("logarithmic", "linear"), strict=True):
            draw_series(axes, lines)
            fine_axes(axes, _ticks(sorted({p.row.rank for p in points})), f"error, {name}", "rank of a head")
        panels[1].set_yscale("linear")
        panels[1].set_ylim(bottom=0)
        draw_levels(panels[0], trivial_errors(settings.dim, settings.points))
        title = f"The cliff: farthest of {settings.points} points in {settings.dim} dimensions, one layer"
        return titled(figure, panels, title)


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
