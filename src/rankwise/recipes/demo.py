"""The whole story in one small figure: the trade-off as trained, and the setting in which it is a theorem.

    rankwise demo

Left and middle, rank against error for three budgets of heads with one and with three layers (``figure1``, preset
"demo"); right, the theorem's own setting with its bound (``theorem``, preset "demo"). The bound is not drawn on the
left: it is about another task.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from rankwise.recipes import figure1, theorem
from rankwise.recipes.rows import Point, lines_of, points_of
from rankwise.report.figures import new_figure
from rankwise.spec import SweepSpec
from rankwise.sweep.trained import TrainedRun

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def sweep() -> SweepSpec:
    """The runs of both sides."""
    left, right = figure1.FIGURE.sweep("demo"), theorem.FIGURE.sweep("demo")
    return SweepSpec(name="demo", runs=(*left.runs, *right.runs))


def split(runs: Sequence[TrainedRun]) -> tuple[list[Point], list[Point]]:
    """The points of the trade-off and those of the theorem's setting."""
    left = figure1.FIGURE.rows(one for one in runs if one.run.task.name == "farthest")
    right = theorem.FIGURE.rows(one for one in runs if one.run.task.name == "nearest")
    return points_of(left, figure1.FIGURE.keys), points_of(right, theorem.FIGURE.keys)


def draw(trade_off: Sequence[Point], setting: Sequence[Point]) -> Figure:
    """One row: a panel per depth, and the theorem's."""
    depths = lines_of(trade_off, "layers")
    figure = new_figure(4.3 * (len(depths) + 1), 4.8)
    panels = figure.subplots(1, len(depths) + 1)
    for axes, own in zip(panels, depths.values(), strict=False):
        figure1.draw_depth(axes, own)
        axes.sharey(panels[0])
        axes.legend(fontsize=7, loc="lower left")
    theorem.draw_dimension(panels[-1], setting)
    row = trade_off[0].row
    figure.suptitle(
        f"Farthest of {row.points} points in {row.dim} dimensions (left), "
        f"nearest of 2 orthogonal points and its bound (right)",
        fontsize=11,
    )
    return figure


def reading(trade_off: Sequence[Point], setting: Sequence[Point]) -> list[str]:
    """A line each, computed from the numbers: one layer, depth, the bound."""
    first, *_ = figure1.full_against_half(trade_off)
    bound, *_ = theorem.FIGURE.reading(theorem.PRESETS["demo"], setting)
    return [first, *figure1.depth_narrows(trade_off), bound]
