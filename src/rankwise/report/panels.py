"""Panels of the figures that come from training: error against rank, and error against heads with the bound.

Matplotlib's object interface only: nothing here opens a window or changes a global setting.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from rankwise.report.figures import COLOURS, GUIDE, MARKERS

if TYPE_CHECKING:
    from matplotlib.axes import Axes


@dataclass(frozen=True, kw_only=True)
class Series:
    """A line with its uncertainty; empty ``spread`` draws none. ``style`` is passed to matplotlib."""

    label: str
    x: Sequence[float]
    y: Sequence[float]
    spread: Sequence[float] = ()
    style: dict[str, Any] | None = None


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
        if one.spread:
            axes.errorbar(one.x, one.y, yerr=one.spread, label=one.label, capsize=2, **style)
        else:
            axes.plot(one.x, one.y, label=one.label, **style)


def draw_levels(axes: Axes, levels: dict[str, float]) -> None:
    """Horizontal lines with their names at the left end: what trivial predictors reach. Near ones share a name."""
    for name, height in _joined(levels).items():
        axes.axhline(height, color=GUIDE, linewidth=0.8, linestyle=":")
        axes.annotate(
            name,
            (0.01, height),
            xycoords=("axes fraction", "data"),
            xytext=(0, 2),
            textcoords="offset points",
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


def rank_axes(axes: Axes, ranks: Sequence[int], title: str) -> None:
    """Both axes logarithmic, a tick at every rank."""
    axes.set_xscale("log", base=2)
    axes.set_yscale("log")
    axes.set_xticks(list(ranks), [str(rank) for rank in ranks])
    axes.minorticks_off()
    _name(axes, "rank of a head", title)


def heads_axes(axes: Axes, heads: Sequence[int], title: str) -> None:
    """Heads logarithmic, errors linear from 0."""
    axes.set_xscale("log", base=2)
    axes.set_xticks(list(heads), [str(count) for count in heads])
    axes.minorticks_off()
    axes.set_ylim(bottom=0)
    _name(axes, "heads", title)


def _name(axes: Axes, x: str, title: str) -> None:
    axes.set_xlabel(x)
    axes.set_ylabel("squared error a query")
    axes.set_title(title, fontsize=10)
    axes.grid(True, color="0.92", linewidth=0.6)
    axes.set_axisbelow(True)
