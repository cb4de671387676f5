"""The figure of a comparison: how far every head moved from one model to the other."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rankwise.audit import Comparison
from rankwise.report.figures import COLOURS, GUIDE, house_style, new_figure

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_SPREAD = 0.3
"""Heads of a layer stand side by side within this distance of its number."""


def draw_comparison(comparison: Comparison) -> Figure:
    """Change of QK and OV over the size of the form, rounding subtracted; one point per head."""
    with house_style():
        figure = new_figure(9.2, 4.0)
        for axes, form, colour in zip(figure.subplots(1, 2, sharey=True), ("qk", "ov"), COLOURS, strict=False):
            for place, layer in enumerate(comparison.layers):
                count = max(len(layer.head_changes) - 1, 1)
                for head in layer.head_changes:
                    change = getattr(head, form)
                    if change is not None:
                        beside = (head.head / count - 0.5) * 2 * _SPREAD
                        axes.plot(place + beside, change.beyond, "o", color=colour, markersize=3.5)
                        axes.plot(place + beside, change.rounding, "_", color=GUIDE, markersize=4)
            step = max(1, len(comparison.layers) // 12)
            axes.set_xticks(range(0, len(comparison.layers), step))
            axes.set_xticklabels([str(layer.layer) for layer in comparison.layers][::step])
            axes.set_xlabel("layer")
            axes.set_title("QK: what a head looks for" if form == "qk" else "OV: what a head writes")
        figure.axes[0].set_ylabel("moved, of the form's size")
        figure.supxlabel("points: beyond rounding; grey: what rounding alone moves", fontsize=8, color=GUIDE)
        figure.suptitle(f"{comparison.second} against {comparison.first}".replace("$", r"\$"), fontsize=11)
    return figure
