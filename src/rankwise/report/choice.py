"""Loss against rank at equal budget, one panel per budget."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rankwise.choose import Choice
from rankwise.report.figures import GUIDE, new_figure
from rankwise.report.panels import Series, draw_series

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def draw_choice(choice: Choice) -> Figure:
    """The best shape of every rank, with the standard error over seeds; its heads stand below each rank."""
    figure = new_figure(4.6 * len(choice.searches), 3.7)
    for axes, one in zip(figure.subplots(1, len(choice.searches), squeeze=False)[0], choice.searches, strict=True):
        shapes = sorted(one.shapes, key=lambda shape: shape.rank)
        ranks = [shape.rank for shape in shapes]
        spread = [shape.standard_error for shape in shapes]
        draw_series(axes, [Series(label="loss", x=ranks, y=[shape.loss for shape in shapes], spread=spread)])
        axes.axvline(one.best.rank, color=GUIDE, linewidth=0.8, linestyle=":")
        axes.set_xscale("log", base=2)
        named = [f"{s.rank}\nheads {s.heads}\nkey heads {s.kv_heads}\nvalue rank {s.value_rank}" for s in shapes]
        axes.set_xticks(ranks, named, fontsize=7)
        axes.minorticks_off()
        axes.margins(x=0.15, y=0.15)
        axes.set_xlabel("rank of a head, and the best shape of that rank")
        axes.set_ylabel("held-out loss, bits per byte")
        axes.set_title(one.budget.words, fontsize=10)
    return figure
