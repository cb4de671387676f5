"""The frontier of a reduction: cost against the share that is kept, and against parameters, for all methods."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rankwise.reduce import Reduction
from rankwise.report.figures import new_figure
from rankwise.report.panels import Series, draw_series

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def draw_frontier(report: Reduction, *, title: str | None = None) -> Figure:
    """Two panels, with one standard error on either side of every point."""
    figure = new_figure(8.4, 3.6)
    shares, sizes = figure.subplots(1, 2, sharey=True)
    methods = dict.fromkeys(point.method for point in report.frontier)
    for axes, label in ((shares, "kept of the cache, %"), (sizes, "parameters of the model, millions")):
        series = []
        for method in methods:
            points = sorted(
                (
                    100 * point.keep if axes is shares else point.parameters / 1e6,
                    max(point.cost.cost, 1e-5),
                    point.cost.standard_error,
                )
                for point in report.frontier
                if point.method == method
            )
            x, y, error = zip(*points, strict=True)
            series.append(Series(label=method, x=list(x), y=list(y), spread=list(error)))
        draw_series(axes, series)
        axes.set_yscale("log")
        axes.set_xlabel(label if report.cache_numbers.before or axes is sizes else "kept of the heads' coordinates, %")
    shares.set_ylabel(f"cost: {report.unit}")
    shares.legend()
    figure.suptitle(title or report.model)
    return figure


def frontier_rows(report: Reduction) -> list[dict[str, float | str | None]]:
    """The points as rows of a table."""
    return [
        {
            "method": point.method,
            "keep": point.keep,
            "parameters": point.parameters,
            "cost": point.cost.cost,
            "standard_error": point.cost.standard_error,
            "neighbours_kept": point.cost.neighbours_kept,
        }
        for point in report.frontier
    ]
