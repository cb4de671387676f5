"""Pictures as data: series on panels, panels in a picture; and how they are drawn.

Matplotlib's object interface only: nothing here opens a window or changes a global setting.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal

from rankwise.report.figures import COLOURS, GUIDE, MARKERS, house_style, new_figure

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure, FigureBase


@dataclass(frozen=True, kw_only=True)
class Series:
    """A line with its uncertainty, one number per point, or those below and above it; no ``spread``, or only zeros,
    draws none. ``style`` is passed to matplotlib.

    ``published`` are the paper's training errors at some x, drawn as crosses of the same colour.
    """

    label: str
    x: Sequence[float]
    y: Sequence[float]
    spread: Sequence[float] | tuple[Sequence[float], Sequence[float]] = ()
    style: Mapping[str, Any] | None = None
    published: Mapping[int, float] | None = None
    notes: Sequence[str] = ()
    """A small word beside every point."""
    band: tuple[Sequence[float], Sequence[float]] | None = None
    """Lower and upper edge of a shaded area."""


# above our markers, which would hide an equal value
_PUBLISHED: dict[str, Any] = {"linestyle": "none", "marker": "x", "markersize": 6, "markeredgewidth": 1.3, "zorder": 3}


def draw_series(axes: Axes, series: Sequence[Series]) -> None:
    """The series in the house colours and markers; a series' own style wins."""
    for index, one in enumerate(series):
        style: dict[str, Any] = {
            "color": COLOURS[index % len(COLOURS)],
            "marker": MARKERS[index % len(MARKERS)],
            "markersize": 5,
            "linewidth": 1.5,
            **(one.style or {}),
        }
        if any(one.spread):
            axes.errorbar(one.x, one.y, yerr=one.spread, label=one.label, capsize=2, **style)
        else:
            axes.plot(one.x, one.y, label=one.label, **style)
        if one.band is not None:
            axes.fill_between(one.x, *one.band, color=style["color"], alpha=0.18, linewidth=0)
        for note, x, y in zip(one.notes, one.x, one.y, strict=False):
            place: dict[str, Any] = {"xytext": (4, 4), "textcoords": "offset points"}
            axes.annotate(note, (x, y), **place, fontsize=7, color=style["color"])
        if one.published:
            crosses = sorted(one.published.items())
            axes.plot(*zip(*crosses, strict=True), color=style["color"], **_PUBLISHED)
    if any(one.published for one in series):
        axes.plot([], [], color="0.4", label="paper (training error)", **_PUBLISHED)


def draw_levels(axes: Axes, levels: Mapping[str, float], *, side: Literal["left", "right"] = "right") -> None:
    """Horizontal lines with their names at the ``side`` where no curve meets them: what trivial predictors reach.

    Near ones share a name. Of several the lowest has its name below the line, so that two names never meet.
    """
    joined = _joined(levels)
    lowest = min(joined, key=joined.__getitem__) if len(joined) > 1 else None
    for name, height in joined.items():
        below = name == lowest
        axes.axhline(height, color=GUIDE, linewidth=0.8, linestyle=":")
        axes.annotate(
            name,
            (0.99 if side == "right" else 0.01, height),
            xycoords=("axes fraction", "data"),
            xytext=(0, -2 if below else 2),
            textcoords="offset points",
            horizontalalignment=side,
            verticalalignment="top" if below else "bottom",
            fontsize=7,
            color=GUIDE,
        )


def _joined(levels: Mapping[str, float], within: float = 0.05) -> dict[str, float]:
    joined: dict[str, float] = {}
    for name, height in sorted(levels.items(), key=lambda level: level[1]):
        last = next(reversed(joined), None)
        if last is not None and height - joined[last] <= within * height:
            joined[f"{last}, {name}"] = joined.pop(last)
        else:
            joined[name] = height
    return joined


def smooth(colour: str, linestyle: str = "-", linewidth: float = 1.5) -> dict[str, Any]:
    """The style of a line without markers."""
    return {"color": colour, "marker": "", "linestyle": linestyle, "linewidth": linewidth}


def dots(colour: str, marker: str = "o", **style: Any) -> dict[str, Any]:
    """The style of markers without a line."""
    return {"color": colour, "marker": marker, "linestyle": "", **style}


def legend_entry(label: str, **style: Any) -> Series:
    """A series without points, which only the legend shows."""
    return Series(label=label, x=(), y=(), style=style)


@dataclass(frozen=True, kw_only=True)
class PlotAxis:
    """What one axis of a panel says, and where."""

    label: str = ""
    scale: Literal["linear", "log", "log2", "symlog"] = "linear"
    ticks: Sequence[float] | Mapping[float, str] = ()
    """Where ticks are, and what they say if it is not their number; matplotlib decides if there are none."""
    low: float | None = None
    high: float | None = None
    inverted: bool = False


@dataclass(frozen=True, kw_only=True)
class Panel:
    """One pair of axes as data: what is drawn on it, and how it is named."""

    title: str = ""
    """Written above."""
    x: PlotAxis
    """The horizontal axis."""
    y: PlotAxis
    """The vertical axis."""
    series: Sequence[Series]
    """The curves."""
    levels: Mapping[str, float] = field(default_factory=dict)
    """Dotted horizontal lines, named where they are."""
    level_side: Literal["left", "right"] = "right"
    """Where levels have their names."""
    guides: Mapping[str, float] = field(default_factory=dict)
    """Dashed horizontal lines, named in the legend."""
    verticals: Sequence[float] = ()
    """Dotted vertical lines."""
    legend: str | None = None
    """The corner of its own legend, or "below" the panel."""
    legend_title: str | None = None
    """Written above the legend."""
    legend_columns: int = 1
    """Columns of the legend."""

    def draw(self, axes: Axes) -> None:
        """Everything, on ``axes``."""
        draw_series(axes, self.series)
        for label, height in self.guides.items():
            axes.axhline(height, color=GUIDE, linewidth=1.0, linestyle="--", label=label)
        for at in self.verticals:
            axes.axvline(at, color=GUIDE, linewidth=0.8, linestyle=":")
        draw_levels(axes, dict(self.levels), side=self.level_side)
        for name, axis in (("x", self.x), ("y", self.y)):
            _set_axis(axes, name, axis)
        axes.set_title(self.title)
        if self.legend is not None:
            below = {"loc": "upper center", "bbox_to_anchor": (0.5, -0.16)}
            place: dict[str, Any] = below if self.legend == "below" else {"loc": self.legend}
            names = {"title": self.legend_title, "title_fontsize": 7, "fontsize": 7, "ncols": self.legend_columns}
            axes.legend(**place, **names)


@dataclass(frozen=True, kw_only=True)
class Picture:
    """Rows of panels under one title."""

    title: str
    panels: Sequence[Sequence[Panel | None]]
    """Rows from above; None leaves a place empty."""
    legend: Literal["right", "below"] | None = None
    """Where the one legend of all panels is, if there is one."""
    legend_columns: int = 3
    """Of a legend below."""
    share_y: bool | Literal["row"] = True
    size: tuple[float, float] = (3.9, 3.9)
    """Of a panel, in inches."""

    def draw(self) -> Figure:
        """The picture in the house style."""
        with house_style():
            rows, columns = len(self.panels), len(self.panels[0])
            figure = new_figure(self.size[0] * columns + 2.1 * (self.legend == "right"), self.size[1] * rows)
            grid = figure.subplots(rows, columns, squeeze=False, sharey=self.share_y)
            for axes, panel in zip(grid.flat, itertools.chain(*self.panels), strict=True):
                if panel is None:
                    axes.set_axis_off()
                    continue
                panel.draw(axes)
                axes.tick_params(labelleft=True)
                if self.share_y and axes not in grid[:, 0]:
                    axes.set_ylabel("")
                    axes.tick_params(labelleft=False)
            if self.legend is not None:
                panels = zip(grid.flat, itertools.chain(*self.panels), strict=True)
                shared = [axes for axes, panel in panels if panel is not None and panel.legend is None]
                share_legend(figure, shared, columns_below=self.legend_columns * (self.legend == "below"))
            figure.suptitle(self.title, fontsize=11)
        return figure


def _set_axis(axes: Axes, name: str, axis: PlotAxis) -> None:
    """``axis`` as the horizontal ("x") or vertical ("y") one of ``axes``."""
    options: dict[str, Any] = {"log2": {"base": 2}, "symlog": {"linthresh": 10}}.get(axis.scale, {})
    getattr(axes, f"set_{name}scale")("log" if axis.scale == "log2" else axis.scale, **options)
    if axis.ticks:
        named = axis.ticks if isinstance(axis.ticks, Mapping) else {tick: f"{tick:g}" for tick in axis.ticks}
        own = getattr(axes, f"{name}axis")
        own.set_ticks(list(named), labels=list(named.values()))
        own.set_minor_locator(_matplotlib_ticker().NullLocator())
    getattr(axes, f"set_{name}label")(axis.label)
    if axis.low is not None or axis.high is not None:
        getattr(axes, f"set_{name}lim")(axis.low, axis.high)
    if axis.inverted:
        getattr(axes, f"invert_{name}axis")()


def _matplotlib_ticker() -> Any:
    from matplotlib import ticker

    return ticker


def share_legend(figure: FigureBase, panels: Sequence[Axes], *, columns_below: int = 0) -> None:
    """One legend for several panels, to their right or in so many columns below them, so that it hides no data."""
    entries: dict[str, Any] = {}
    for axes in panels:
        handles, labels = axes.get_legend_handles_labels()
        entries |= dict(zip(labels, handles, strict=True))
    place: dict[str, Any] = {"loc": "outside right center"}
    if columns_below:
        place = {"loc": "outside lower center", "ncols": columns_below}
    figure.legend(list(entries.values()), list(entries), **place, fontsize=8)
