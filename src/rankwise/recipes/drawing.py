"""The pictures of figure1 and theorem, from their points."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from rankwise.recipes import figure1, theorem
from rankwise.report.panels import (
    COLOURS,
    MARKERS,
    Series,
    draw_levels,
    draw_series,
    heads_axes,
    new_figure,
    rank_axes,
)
from rankwise.theory.bounds import Values, error_lower_bound

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_BOUNDS: tuple[tuple[Values, str], ...] = (("scaled_identity", "-"), ("any", "--"))
_KINDS: tuple[theorem.Kind, ...] = ("softmax", "generalised", "random features")


def draw_figure1(points: Sequence[figure1.Point], levels: dict[str, float], title: str) -> Figure:
    """One panel a depth, one line a budget; ``levels`` are the trivial predictors."""
    depths = sorted({point.layers for point in points})
    figure = new_figure(4.2 * len(depths), 3.8)
    panels = figure.subplots(1, len(depths), squeeze=False, sharey=True)[0]
    for axes, layers in zip(panels, depths, strict=True):
        figure1_panel(axes, [point for point in points if point.layers == layers], levels)
    figure.suptitle(title, fontsize=11)
    return figure


def figure1_panel(axes: Axes, points: Sequence[figure1.Point], levels: dict[str, float]) -> None:
    """Error against rank at one depth."""
    budgets = sorted({point.exponent for point in points})
    series = []
    for exponent in budgets:
        line = sorted((point for point in points if point.exponent == exponent), key=lambda point: point.rank)
        series.append(
            Series(
                label=f"$d^{{{1 + exponent:g}}}$ parameters, $H = d^{{{exponent:g}}}/r$",
                x=[point.rank for point in line],
                y=[point.error for point in line],
                spread=[point.spread for point in line],
            )
        )
    draw_series(axes, series)
    draw_levels(axes, levels)
    layers = points[0].layers
    rank_axes(axes, sorted({point.rank for point in points}), f"{layers} layer{'s' * (layers > 1)}")
    axes.legend(fontsize=7, loc="lower left")


def draw_theorem(points: Sequence[theorem.Point]) -> Figure:
    """One panel a dimension."""
    dims = sorted({point.dim for point in points})
    figure = new_figure(4.6 * len(dims), 4.0)
    for axes, dim in zip(figure.subplots(1, len(dims), squeeze=False)[0], dims, strict=True):
        theorem_panel(axes, [point for point in points if point.dim == dim])
    figure.suptitle("Nearest of two orthogonal points, one bare attention layer", fontsize=11)
    return figure


def theorem_panel(axes: Axes, points: Sequence[theorem.Point]) -> None:
    """Error against heads in one dimension: a colour a rank, a marker a kind, lines for the bound."""
    dim = points[0].dim
    ranks = sorted({point.rank for point in points})
    most = max(point.heads for point in points)
    heads = sorted({point.heads for point in points})
    fine = [most ** (step / 60) for step in range(61)]
    series = []
    for colour, rank in zip(COLOURS, ranks, strict=False):
        for values, line in _BOUNDS:
            bound = [error_lower_bound(dim, rank, count, values=values).value for count in fine]
            label = f"bound, r = {rank}" if values == "scaled_identity" else ""
            style = {"color": colour, "marker": "", "linestyle": line, "linewidth": 1.2}
            series.append(Series(label=label, x=fine, y=bound, style=style))
        for marker, kind in zip(MARKERS, _KINDS, strict=False):
            found = sorted((p for p in points if p.kind == kind and p.rank == rank), key=lambda point: point.heads)
            style = {"color": colour, "marker": marker, "linestyle": "", "fillstyle": "none"}
            x, y = [point.heads for point in found], [point.error for point in found]
            series.append(Series(label="", x=x, y=y, spread=[point.error_se for point in found], style=style))
    draw_series(axes, series)
    for marker, kind in zip(MARKERS, _KINDS, strict=False):
        axes.plot([], [], color="0.3", marker=marker, linestyle="", fillstyle="none", label=f"{kind} heads")
    axes.plot([], [], color="0.3", linestyle="--", label="bound, any values")
    draw_levels(axes, {"mean of the points": 0.5})
    heads_axes(axes, heads, f"d = {dim}: trained, random, and the bound")
    axes.legend(fontsize=6.5, ncols=2, loc="upper right")
