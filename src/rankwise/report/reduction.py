"""Pictures of a reduction: what each layer keeps; and, where it was measured, cost against share for all methods."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rankwise.reduce import Reduction
from rankwise.report.figures import COLOURS, GUIDE, house_style, new_figure
from rankwise.report.panels import Series, draw_series

if TYPE_CHECKING:
    from matplotlib.figure import Figure


_WHAT_TO_DO = {
    "worth trying": "Try the smaller model on your own task, then use it.",
    "a trade": "Use the smaller model only if you can bear what it loses.",
    "not worth it": "Leave this model as it is.",
    "not measured": "Do not use the smaller model before its cost is measured: give texts.",
}


def what_to_do(report: Reduction) -> str:
    """One sentence by the verdict's judgement, and how sure it is."""
    done = _WHAT_TO_DO[report.judgement]
    if report.texts is None:
        return done
    return f"{done} Measured on {report.texts.evaluation} held-out pieces of text; other texts may cost more."


def draw_frontier(report: Reduction, *, title: str | None = None) -> Figure:
    """Two panels, with one standard error on either side of every point."""
    from matplotlib.ticker import LogLocator, StrMethodFormatter

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
        axes.yaxis.set_major_formatter(StrMethodFormatter("{x:g}"))  # 0.1, not 10^-1
        axes.yaxis.set_minor_locator(LogLocator(subs=(2, 5)))
        axes.yaxis.set_minor_formatter(StrMethodFormatter("{x:g}"))
        axes.set_xlabel(label if report.cache_numbers.before or axes is sizes else "kept of the heads' coordinates, %")
    shares.set_ylabel(f"cost: {report.unit}")
    shares.legend()
    figure.suptitle(title or report.model)
    return figure


def draw_kept(report: Reduction) -> Figure:
    """What each layer keeps, and what is left of the whole."""
    with house_style():
        figure = new_figure(9.2, 3.6)
        layers, whole = figure.subplots(1, 2)
        kept = [100 * sum(layer.ranks) / layer.size for layer in report.layers]
        layers.bar(range(len(kept)), kept, color=COLOURS[0])
        layers.axhline(100, color=GUIDE, linewidth=0.9, linestyle="--")
        step = max(1, len(kept) // 12)
        layers.set_xticks(range(0, len(kept), step), [layer.name.split()[-1] for layer in report.layers][::step])
        layers.set_xlabel("layer")
        layers.set_ylabel("kept, % of the original")
        layers.set_title("cache of each layer" if report.cache_numbers.before else "heads' coordinates of each layer")

        changes = [(what, change) for what, change in report.changes() if change.before]
        left = [100 * change.after / change.before for _, change in changes]
        bars = whole.barh(range(len(left)), left, color=COLOURS[1])
        whole.bar_label(bars, [f"{share:.0f} %" for share in left], label_type="center", fontsize=8, color="white")
        whole.axvline(100, color=GUIDE, linewidth=0.9, linestyle="--")
        whole.set_yticks(range(len(left)), [what for what, _ in changes])
        whole.set_xlim(0, 1.05 * max(100, *left))
        whole.invert_yaxis()
        whole.set_xlabel("left, % of the original")
        whole.set_title("the whole model")
        figure.suptitle(f"{report.model}, reduced".replace("$", r"\$"), fontsize=11)
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
