"""Loss against rank at equal budget, one panel per budget."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rankwise.choose import Choice
from rankwise.report.figures import GUIDE, new_figure
from rankwise.report.panels import Series, draw_series

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def draw_choice(choice: Choice) -> Figure:
    """The best shape of every rank, with the standard error over seeds; each point names its heads."""
    figure = new_figure(4.6 * len(choice.searches), 3.7)
    for axes, one in zip(figure.subplots(1, len(choice.searches), squeeze=False)[0], choice.searches, strict=True):
        shapes = sorted(one.shapes, key=lambda shape: shape.rank)
        ranks = [shape.rank for shape in shapes]
        spread = [shape.standard_error for shape in shapes]
        draw_series(axes, [Series(label="loss", x=ranks, y=[shape.loss for shape in shapes], spread=spread)])
        for shape in shapes:
            label = f"{shape.heads} x {shape.rank}, v {shape.value_rank}, G {shape.kv_heads}"
            axes.annotate(
                label, (shape.rank, shape.loss), xytext=(0, 7), textcoords="offset points", ha="center", fontsize=6
            )
        axes.axvline(one.best.rank, color=GUIDE, linewidth=0.8, linestyle=":")
        axes.set_xscale("log", base=2)
        axes.set_xticks(ranks, [str(rank) for rank in ranks])
        axes.minorticks_off()
        axes.margins(x=0.15, y=0.15)
        axes.set_xlabel("rank of a head")
        axes.set_ylabel("held-out loss, bits per byte")
        axes.set_title(one.budget.words, fontsize=10)
    return figure
