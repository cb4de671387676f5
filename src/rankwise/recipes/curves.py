"""From points to the curves of a picture."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from rankwise.recipes.rows import Point, Value, lines_of
from rankwise.report.figures import new_figure
from rankwise.report.panels import Series, share_legend

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


def curve(
    label: str,
    points: Sequence[Point],
    *,
    x: str | Callable[[Point], float],
    y: str = "error",
    per: Callable[[Point], float] | None = None,
    published: Mapping[int, float] | None = None,
    **style: Any,
) -> Series:
    """A line through ``points`` with their standard errors.

    - ``x``: the column on the horizontal axis, or a function of a point.
    - ``y``: the column whose mean over seeds is shown.
    - ``per``: what it is divided by, for relative errors.
    - ``published``: the paper's training errors by x.
    - ``style``: passed to matplotlib.
    """
    at = (lambda point: float(point.get(x))) if isinstance(x, str) else x
    units = [1.0 if per is None else per(point) for point in points]
    return Series(
        label=label,
        x=[at(point) for point in points],
        y=[point.mean(y) / unit for point, unit in zip(points, units, strict=True)],
        spread=[point.spread(y) / unit for point, unit in zip(points, units, strict=True)],
        style=style,
        published=published,
    )


def panels_by(
    column: str, points: Sequence[Point], draw: Callable[[Axes, Value, list[Point]], None], title: str
) -> Figure:
    """A panel for every value of ``column``, drawn by ``draw``, on one vertical axis and with one legend."""
    groups = lines_of(points, column)
    figure = new_figure(3.9 * len(groups) + 2.1, 3.9)
    panels = figure.subplots(1, len(groups), squeeze=False, sharey=True)[0]
    for axes, (value, own) in zip(panels, groups.items(), strict=True):
        draw(axes, value, own)
        axes.label_outer()
    return titled(figure, panels, title)


def titled(figure: Figure, panels: Sequence[Axes], title: str) -> Figure:
    """``figure`` with one legend for its panels, and a title."""
    share_legend(figure, panels)
    figure.suptitle(title, fontsize=11)
    return figure
