"""The figure of an advice: the ranks it compares, on one line each."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from rankwise.report.figures import COLOURS, GUIDE, house_style, new_figure

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def draw_ranks(rows: Sequence[Mapping[str, Any]]) -> Figure:
    """``rows`` with ``what``, ``rank``, ``low`` and ``high``: a point, an interval, or both."""
    with house_style():
        figure = new_figure(7.2, 0.9 + 0.42 * len(rows))
        axes = figure.subplots()
        for place, row in enumerate(reversed(rows)):
            if row["low"] is not None:
                axes.plot([row["low"], row["high"]], [place, place], color=GUIDE, linewidth=3, solid_capstyle="butt")
            if row["rank"] is not None:
                colour = COLOURS[1] if row["what"] == "rank now" else COLOURS[0]
                axes.plot(row["rank"], place, "o", color=colour, markersize=7)
            shown = f"{row['low']}-{row['high']}" if row["rank"] is None else str(row["rank"])
            right = row["rank"] if row["high"] is None else row["high"]
            axes.annotate(shown, (right, place), (7, 0), textcoords="offset points", va="center")
        axes.set_xscale("log", base=2)
        axes.xaxis.set_major_formatter("{x:.0f}")
        axes.set_yticks(range(len(rows)), [row["what"] for row in reversed(rows)])
        axes.margins(x=0.12, y=0.12)
        axes.set_xlabel("rank of a head")
    return figure
