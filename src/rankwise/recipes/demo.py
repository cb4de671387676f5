"""The whole story in one small figure: the trade-off as trained, and the setting in which it is a theorem.

    rankwise demo

Left and middle, rank against error for three budgets of heads with one and with three layers (``figure1``, preset
"demo"); right, the theorem's own setting with its bound (``theorem``, preset "demo"). The bound is not drawn on the
left: it is about another task.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from rankwise.recipes import figure1, figure1_points, theorem
from rankwise.recipes.baselines import trivial_errors
from rankwise.recipes.figure1_panels import draw_panel
from rankwise.recipes.trained import TrainedRun
from rankwise.report.figures import new_figure
from rankwise.spec import SweepSpec

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def sweeps() -> tuple[SweepSpec, SweepSpec]:
    """The runs of the left and of the right side."""
    return figure1.sweep("demo"), theorem.sweep("demo")


def split(runs: Sequence[TrainedRun]) -> tuple[list[figure1_points.Point], list[theorem.Point]]:
    """The points of the trade-off and those of the theorem's setting, random features included."""
    trade_off = figure1_points.points_of(figure1.rows([one for one in runs if one.run.task.name == "farthest"]))
    setting = theorem.points_of(theorem.rows([one for one in runs if one.run.task.name == "nearest"]))
    return trade_off, setting + theorem.random_feature_points("demo")


def draw(trade_off: Sequence[figure1_points.Point], setting: Sequence[theorem.Point]) -> Figure:
    """One row: a panel a depth, and the theorem's."""
    grid = figure1.PRESETS["demo"]
    levels = trivial_errors(grid.dim, grid.points)
    depths = sorted({point.layers for point in trade_off})
    figure = new_figure(4.3 * (len(depths) + 1), 4.8)
    panels = figure.subplots(1, len(depths) + 1)
    for axes, layers in zip(panels, depths, strict=False):
        draw_panel(axes, [point for point in trade_off if point.layers == layers], levels)
    for axes in panels[1 : len(depths)]:
        axes.sharey(panels[0])
    theorem.draw_panel(panels[-1], setting)
    figure.suptitle(
        f"Farthest of {grid.points} points in {grid.dim} dimensions (left), "
        f"nearest of 2 orthogonal points and its bound (right)",
        fontsize=11,
    )
    return figure


def reading(trade_off: Sequence[figure1_points.Point], setting: Sequence[theorem.Point]) -> list[str]:
    """Three lines, computed from the numbers: one layer, depth, the bound."""
    by_depth = figure1_points.gaps_by_depth(trade_off)
    first, *_ = figure1_points.full_against_half(by_depth)
    return [first, *figure1_points.depth_narrows(by_depth), theorem.reading(setting)]
