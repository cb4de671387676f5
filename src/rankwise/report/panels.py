"""Panels of the figures that come from training: error against rank, and error against heads with the bound.

Matplotlib's object interface only: nothing here opens a window or changes a global setting.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rankwise.errors import MissingExtraError

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

# Wong (2011): told apart with any kind of colour vision, and in grey by their markers.
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9")
MARKERS = ("o", "s", "^", "D", "v", "P")


@dataclass(frozen=True, kw_only=True)
class Series:
    """A line with its uncertainty; empty ``spread`` draws none. ``style`` is passed to matplotlib."""

    label: str
    x: Sequence[float]
    y: Sequence[float]
    spread: Sequence[float] = ()
    style: dict[str, Any] | None = None


def new_figure(width: float, height: float) -> Figure:
    """An empty figure that belongs to no window."""
    try:
        from matplotlib.figure import Figure
    except ImportError:
        raise MissingExtraError("report", "drawing a figure") from None
    return Figure(figsize=(width, height), layout="constrained")


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
    """Horizontal lines with their names at the left end: what trivial predictors reach."""
    for name, height in levels.items():
        axes.axhline(height, color="0.55", linewidth=0.8, linestyle=":")
        axes.annotate(
            name,
            (0.01, height),
            xycoords=("axes fraction", "data"),
            xytext=(0, 2),
            textcoords="offset points",
            fontsize=7,
            color="0.35",
        )


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


def save_figure(figure: Figure, stem: Path) -> tuple[Path, Path]:
    """``stem``.png and ``stem``.svg, the same bytes for the same figure."""
    stem.parent.mkdir(parents=True, exist_ok=True)
    png, svg = stem.with_suffix(".png"), stem.with_suffix(".svg")
    figure.savefig(png, dpi=160, metadata={"Software": "rankwise"})
    import matplotlib

    with matplotlib.rc_context({"svg.hashsalt": "rankwise", "svg.fonttype": "none"}):
        figure.savefig(svg, metadata={"Date": None, "Creator": "rankwise"})
    return png, svg


def _name(axes: Axes, x: str, title: str) -> None:
    axes.set_xlabel(x)
    axes.set_ylabel("squared error a query")
    axes.set_title(title, fontsize=10)
    axes.grid(True, color="0.92", linewidth=0.6)
    axes.set_axisbelow(True)
