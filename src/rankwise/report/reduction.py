"""What smaller heads cost: cost against rank for both ways of cutting, and each layer cut alone."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from rankwise.report.figures import COLOURS, GUIDE, label_level, new_figure
from rankwise.report.panels import Series, draw_series

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_LABELS = {"activations": "by activations", "weights": "by weights alone"}


def draw_reduction(document: Mapping[str, Any], *, title: str | None = None) -> Figure:
    """The figure of a document ``rankwise-reduction/1`` with a curve."""
    alone = document["sensitivity"]
    figure = new_figure(8.4 if alone else 4.6, 3.6)
    panels = figure.subplots(1, 2 if alone else 1, squeeze=False)[0]
    axes = panels[0]
    by_method = [
        (method, sorted((point["rank"], point["cost"]) for point in document["curve"] if point["method"] == method))
        for method in _LABELS
    ]
    draw_series(
        axes,
        [
            Series(label=_LABELS[method], x=[rank for rank, _ in points], y=[cost for _, cost in points])
            for method, points in by_method
            if points
        ],
    )
    full = document["original_rank"]
    ranks = sorted({point["rank"] for point in document["curve"]})
    axes.axvline(document["rank"], color=GUIDE, linewidth=0.9, linestyle=":", zorder=1)
    if document["tolerance"] is not None:
        label_level(axes, document["tolerance"], f"tolerance {document['tolerance']:g}", at=0.01)
    axes.annotate(
        f"rank {document['rank']}",
        (document["rank"], 0.97),
        xycoords=("data", "axes fraction"),
        xytext=(3, 0),
        textcoords="offset points",
        fontsize=8,
        color=GUIDE,
    )
    axes.set_xticks([rank for rank in ranks if rank % 4 == 0 or rank == min(ranks)])
    axes.set_xlim(0, full + 1)
    axes.set_xlabel(f"rank kept of each head ({full} in the model)")
    axes.set_ylabel(f"cost: {document['cost_unit']}")
    axes.set_ylim(bottom=min(0.0, *(point["cost"] for point in document["curve"])))
    axes.legend()
    axes.set_title(title or str(document["model"]))
    if alone:
        side = panels[1]
        places = range(len(alone))
        side.barh(places, [point["cost"] for point in alone], color=COLOURS[0])
        side.set_yticks(list(places), [point["layer"] for point in alone], fontsize=8 if len(alone) <= 12 else 5)
        side.invert_yaxis()
        side.set_xlabel(f"cost at rank {document['rank']}")
        side.locator_params(axis="x", nbins=4)
        side.set_title("each layer cut alone")
    return figure
