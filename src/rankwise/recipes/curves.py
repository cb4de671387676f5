"""From points to the lines of a picture."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from rankwise.recipes.points import Point, lines_of
from rankwise.report import PlotAxis, Series, ramp

ERROR = PlotAxis(label="squared error per query", scale="log")


def curve(
    label: str,
    points: Iterable[Point],
    *,
    x: str | Callable[[Point], float],
    y: str = "error",
    published: Mapping[int, float] | None = None,
    notes: str | None = None,
    **style: Any,
) -> Series:
    """A line through the points that have a ``y``.

    - ``x``: the column on the horizontal axis, or a function of a point.
    - ``y``: the column whose mean is shown, with its standard error.
    - ``published``: the paper's training errors by x.
    - ``notes``: the column that is written beside every point.
    - ``style``: passed to matplotlib.
    """
    shown = [point for point in points if y in point]
    return Series(
        label=label,
        x=[float(point[x]) if isinstance(x, str) else x(point) for point in shown],
        y=[point.mean(y) for point in shown],
        spread=[point.spread(y) for point in shown],
        style=style,
        published=published,
        notes=[str(point[notes]) for point in shown] if notes else (),
    )


def curves(
    points: Iterable[Point], key: str, label: Callable[[Any], str], *, shades: bool = False, **how: Any
) -> list[Series]:
    """A line for every value of the column ``key``.

    - ``label``: of a value, for example ``"rank {}".format``.
    - ``shades``: colours in the order of the values, instead of distinct ones.
    - ``how``: as for ``curve``.
    """
    lines = lines_of(points, key)
    styles: list[dict[str, Any]] = [{"color": colour} if shades else {} for colour in ramp(len(lines))]
    return [curve(label(value), own, **how, **s) for (value, own), s in zip(lines.items(), styles, strict=True)]


def profile(label: str, point: Point, columns: Sequence[str], x: Sequence[float], **style: Any) -> Series:
    """A line through several columns of one point."""
    y, spread = ([of(column) for column in columns] for of in (point.mean, point.spread))
    return Series(label=label, x=x, y=y, spread=spread, style=style)


def ticked(points: Iterable[Point], column: str = "rank", label: str = "rank of a head") -> PlotAxis:
    """A logarithmic axis with a tick at every value of ``column``."""
    return PlotAxis(label=label, scale="log2", ticks=sorted({float(point[column]) for point in points}))


def apart(values: Iterable[float], least: float) -> list[float]:
    """Those of ``values``, taken in their order, that are at least ``least`` away from the one kept before."""
    kept: list[float] = []
    for value in values:
        if not kept or abs(value - kept[-1]) >= least:
            kept.append(value)
    return sorted(kept)


def shares(values: Iterable[float]) -> dict[float, str]:
    """Ticks at shares of a whole: 1/4, 1/2, 1."""
    return {value: f"{value:g}" if value >= 1 else f"1/{1 / value:.0f}" for value in values}


def counted(number: int, noun: str) -> str:
    """1 layer, 3 layers."""
    return f"{number} {noun}{'s' * (number != 1)}"


def heads_of(point: Point) -> str:
    """2 heads of rank 8."""
    return f"{counted(point['heads'], 'head')} of rank {point['rank']}"
