"""The whole story in one small figure: the trade-off as trained, and the setting in which it is a theorem.

    rankwise demo

Left and middle, rank against error for three budgets of heads with one and with three layers (``figure1``, preset
"demo"); right, the theorem's own setting with its bound (``theorem``, preset "demo"). The bound is not drawn on the
left: it is about another task.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from rankwise.recipes import figure1, theorem
from rankwise.recipes.points import Point, lines_of, points_of
from rankwise.report import Picture
from rankwise.spec import SweepSpec
from rankwise.sweep import TrainedRun


def sweep() -> SweepSpec:
    """The runs of both sides."""
    left, right = figure1.FIGURE.sweep("demo"), theorem.FIGURE.sweep("demo")
    return SweepSpec(name="demo", runs=(*left.runs, *right.runs))


def split(runs: Sequence[TrainedRun]) -> tuple[list[Point], list[Point]]:
    """The points of the trade-off and those of the theorem's setting."""
    left = figure1.FIGURE.rows(one for one in runs if one.run.task.name == "farthest")
    right = theorem.FIGURE.rows(one for one in runs if one.run.task.name == "nearest")
    return points_of(left, figure1.FIGURE.keys), points_of(right, theorem.FIGURE.keys)


def picture(trade_off: Sequence[Point], setting: Sequence[Point]) -> Picture:
    """One row: a panel per depth, and the theorem's."""
    low = min(point.error for point in trade_off) / 2
    depths = [figure1.depth_panel(own) for own in lines_of(trade_off, "layers").values()]
    left = [replace(panel, legend="lower left", y=replace(panel.y, low=low, high=2)) for panel in depths]
    title = f"{figure1.FIGURE.settings('demo').place.capitalize()} (left), "
    title += "nearest of 2 orthogonal points and its bound (right)"
    return Picture(title=title, panels=[[*left, theorem.dimension_panel(setting)]], share_y=False, size=(4.3, 4.8))


def reading(trade_off: Sequence[Point], setting: Sequence[Point]) -> list[str]:
    """A line each, computed from the numbers: one layer, depth, the bound."""
    first, *_ = figure1.full_against_half(trade_off)
    bound, *_ = theorem.FIGURE.reading(theorem.FIGURE.settings("demo"), setting)
    return [first, *figure1.depth_narrows(trade_off), bound]
