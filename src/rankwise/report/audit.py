"""The figure of an audit: every head's effective rank beside that of random weights."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from rankwise.audit import AuditReport, Baseline, HeadReport, LayerReport, Ranks
from rankwise.report.figures import COLOURS, GUIDE, house_style, new_figure

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_SPREAD = 0.3
"""Heads of a layer stand side by side within this distance of its number."""


def draw_audit(report: AuditReport) -> Figure:
    """Effective rank of QK and OV as a share of random weights of the same shape; one point per head."""
    with house_style():
        figure = new_figure(9.2, 4.0)
        left, right = figure.subplots(1, 2, sharey=True)
        _draw(left, report, "QK: what a head looks for", lambda head: head.qk, lambda layer: layer.qk_baseline)
        _draw(right, report, "OV: what a head writes", lambda head: head.ov, lambda layer: layer.ov_baseline)
        left.set_ylabel("effective rank / that of random weights")
        figure.supxlabel("grey: where all heads of a random model lie; orange: heads below it", fontsize=8, color=GUIDE)
        figure.suptitle(f"Heads of {report.model}".replace("$", r"\$"), fontsize=11)
    return figure


def _draw(
    axes: Axes,
    report: AuditReport,
    title: str,
    of_head: Callable[[HeadReport], Ranks | None],
    of_layer: Callable[[LayerReport], Baseline | None],
) -> None:
    for place, layer in enumerate(report.layers):
        baseline = of_layer(layer)
        if baseline is None:
            continue
        mean, low, high = baseline.effective.mean, baseline.effective.low, baseline.effective.high
        axes.fill_between([place - 0.45, place + 0.45], low / mean, high / mean, color=GUIDE, alpha=0.25, linewidth=0)
        for head in layer.head_reports:
            ranks = of_head(head)
            if ranks is None:
                continue
            beside = 0.0 if layer.heads == 1 else (head.head / (layer.heads - 1) - 0.5) * 2 * _SPREAD
            colour = COLOURS[1] if ranks.effective < low else COLOURS[0]
            axes.plot(place + beside, ranks.effective / mean, "o", color=colour, markersize=3.5)
    axes.axhline(1.0, color=GUIDE, linewidth=0.9, linestyle="--", zorder=1)
    step = max(1, len(report.layers) // 12)
    axes.set_xticks(range(0, len(report.layers), step))
    axes.set_xticklabels([str(layer.layer) for layer in report.layers][::step])
    axes.set_xlabel("layer")
    axes.set_title(title)
