"""Panels of the figures that come from training: error against rank, and error against heads with the bound.

Matplotlib's object interface only: nothing here opens a window or changes a global setting.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from rankwise.report.figures import COLOURS, GUIDE, MARKERS

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import FigureBase


@dataclass(frozen=True, kw_only=True)
class Series:
    """A line with its uncertainty; no ``spread``, or only zeros, draws none. ``style`` is passed to matplotlib.

    ``published`` are the paper's training errors at some x, drawn as crosses of the same colour.
    """

    label: str
    x: Sequence[float]
    y: Sequence[float]
    spread: Sequence[float] = ()
    style: Mapping[str, Any] | None = None
    published: Mapping[int, float] | None = None


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
        if one.published:
            x = sorted(one.published)
            axes.plot(x, [one.published[at] for at in x], color=style["color"], **_PUBLISHED)
    if any(one.published for one in series):
        axes.plot([], [], color="0.4", label="paper (training error)", **_PUBLISHED)


def draw_levels(axes: Axes, levels: dict[str, float], *, side: Literal["left", "right"] = "right") -> None:
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


def _joined(levels: dict[str, float], within: float = 0.05) -> dict[str, float]:
    joined: dict[str, float] = {}
    for name, height in sorted(levels.items(), key=lambda level: level[1]):
        last = next(reversed(joined), None)
        if last is not None and height - joined[last] <= within * height:
            joined[f"{last}, {name}"] = joined.pop(last)
        else:
            joined[name] = height
    return joined


def rank_axes(axes: Axes, ranks: Sequence[float], title: str, name: str = "rank of a head") -> None:
    """Both axes logarithmic, a tick at every rank (or whatever ``name`` says it is)."""
    axes.set_xscale("log", base=2)
    axes.set_yscale("log")
    axes.set_xticks(list(ranks), [f"{rank:g}" for rank in ranks])
    axes.minorticks_off()
    _name(axes, name, title)


def fine_axes(axes: Axes, ticks: Sequence[int], title: str, name: str) -> None:
    """A linear axis for fine steps, errors logarithmic."""
    axes.set_yscale("log")
    axes.set_xticks(list(ticks), [str(tick) for tick in ticks])
    axes.minorticks_off()
    _name(axes, name, title)


def heads_axes(axes: Axes, heads: Sequence[int], title: str) -> None:
    """Heads logarithmic, errors linear from 0."""
    axes.set_xscale("log", base=2)
    axes.set_xticks(list(heads), [str(count) for count in heads])
    axes.minorticks_off()
    axes.set_ylim(bottom=0)
    _name(axes, "heads", title)


def share_legend(figure: FigureBase, panels: Sequence[Axes], *, columns_below: int | None = None) -> None:
    """One legend for several panels, to their right or in so many columns below them, so that it hides no data."""
    entries: dict[str, Any] = {}
    for axes in panels:
        handles, labels = axes.get_legend_handles_labels()
        entries |= dict(zip(labels, handles, strict=True))
    place: dict[str, Any] = {"loc": "outside right center"}
    if columns_below is not None:
        place = {"loc": "outside lower center", "ncols": columns_below}
    figure.legend(list(entries.values()), list(entries), **place, fontsize=8)


def _name(axes: Axes, x: str, title: str) -> None:
    axes.set_xlabel(x)
    axes.set_ylabel("squared error per query")
    axes.set_title(title, fontsize=10)
    axes.grid(True, color="0.92", linewidth=0.6)
    axes.set_axisbelow(True)
