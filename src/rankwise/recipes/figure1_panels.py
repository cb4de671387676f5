"""The panels of Figure 1: error against rank at every depth, and what of it was learned by heart."""

from __future__ import annotations

from collections.abc import Sequence
from operator import attrgetter
from typing import TYPE_CHECKING, Any, Literal

from rankwise.recipes.cells import REPEATING, depth_name
from rankwise.recipes.figure1_points import EXPONENTS, Point, published_curve
from rankwise.report.figures import COLOURS, MARKERS, new_figure
from rankwise.report.panels import Series, draw_levels, draw_series, rank_axes, share_legend

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_PANEL = (4.2, 3.8)
_OPEN: dict[str, Any] = {"linestyle": ":", "markerfacecolor": "white"}
_STYLES: dict[str, dict[str, Any]] = dict.fromkeys(REPEATING, _OPEN) | {"wide": _OPEN | {"linestyle": "-."}}
_COMPARED: dict[str, tuple[str, dict[str, Any]]] = {
    "capacity": ("capacity, fresh sequences", {"color": COLOURS[0], "marker": "o"}),
    "paper": ("the paper's protocol", {"color": COLOURS[1], "marker": "s"}),
    "recall": ("recall", {"color": COLOURS[2], "marker": "^"}),
    "wide": ("wide, fresh sequences", {"color": COLOURS[3], "marker": "D"}),
}


def draw(
    points: Sequence[Point], levels: dict[str, float], title: str, *, linear_scores: float | None = None
) -> Figure:
    """One panel a depth, one line a budget; ``levels`` are the trivial predictors. Below them, where a protocol that
    repeats its sequences was trained, one panel a curve for what it knows of those and of others; where ``wide`` was
    trained too, with the error of ``linear_scores``, which its heads can have at any rank."""
    depths = sorted({point.layers for point in points})
    curves = known_curves(points)
    columns, rows = max(len(depths), len(curves)), 1 + bool(curves)
    figure = new_figure(max(5.0, _PANEL[0] * columns), _PANEL[1] * rows)
    parts = figure.subfigures(rows, 1, squeeze=False)[:, 0]
    for axes, layers in zip(parts[0].subplots(1, len(depths), squeeze=False, sharey=True)[0], depths, strict=True):
        draw_panel(axes, [point for point in points if point.layers == layers], levels)
    if curves:
        below = parts[1].subplots(1, len(curves), squeeze=False)[0]
        for axes, curve in zip(below, curves, strict=True):
            draw_known(axes, curve)
            if linear_scores is not None and any(point.protocol == "wide" for point in curve):
                draw_levels(axes, {"linear scores": linear_scores}, side=_free_side(curve, linear_scores))
        share_legend(parts[1], below, columns_below=2 * columns)
    parts[0].suptitle(title, fontsize=11)
    return figure


def draw_panel(axes: Axes, points: Sequence[Point], levels: dict[str, float]) -> None:
    """Held-out error against rank at one depth: a colour a budget, full lines ``capacity``, broken ones ``wide``,
    dotted ones the authors' protocol, crosses the authors' values. ``recall``, which is not about held-out errors, only
    where it is alone."""
    series = []
    ranks = {point.rank for point in points}
    for exponent in sorted({point.exponent for point in points}):
        colour = {"color": COLOURS[EXPONENTS.index(exponent)], "marker": MARKERS[EXPONENTS.index(exponent)]}
        own = [point for point in points if point.exponent == exponent]
        curve = published_curve(own[0].layers, exponent) if any(point.authors for point in own) else None
        published = {} if curve is None else curve.points()
        ranks |= published.keys()
        for protocol in sorted({point.protocol for point in own} - {"recall"}) or ["recall"]:
            line = _line(own, protocol)
            series.append(
                Series(
                    label=_budget(line),
                    x=[point.rank for point in line],
                    y=[point.error for point in line],
                    spread=[point.spread for point in line],
                    style=colour | _STYLES.get(protocol, {}),
                    published=published,
                )
            )
            published = {}
    draw_series(axes, series)
    draw_levels(axes, levels)
    layers = points[0].layers
    rank_axes(axes, sorted(ranks), depth_name(layers))
    axes.legend(fontsize=7, loc="lower left")


def known_curves(points: Sequence[Point]) -> list[list[Point]]:
    """The curves, a depth and a budget each, that a repeating protocol was trained on without collapsing; full rank,
    which answers new sequences as well, is left out."""
    curves: dict[tuple[int, float], list[Point]] = {}
    for point in points:
        if point.rank < point.dim and not point.collapsed:
            curves.setdefault((point.layers, point.exponent), []).append(point)
    return [curve for _, curve in sorted(curves.items()) if any(point.protocol in REPEATING for point in curve)]


def draw_known(axes: Axes, points: Sequence[Point]) -> None:
    """Errors of one curve: a colour a protocol, full lines on held-out sequences, dashed ones on those trained on."""
    series = []
    for protocol in sorted({point.protocol for point in points}):
        line = _line(points, protocol)
        name, style = _COMPARED[protocol]
        ranks = [point.rank for point in line]
        series.append(Series(label=f"{name}: held out", x=ranks, y=[point.error for point in line], style=style))
        if protocol in REPEATING:
            known = [point.training for point in line]
            dashed = style | {"linestyle": "--", "markerfacecolor": "white"}
            series.append(Series(label=f"{name}: trained on", x=ranks, y=known, style=dashed))
    published = {point.rank: point.authors for point in points if point.authors}
    if published:
        x = sorted(published)
        crosses = {"color": "0.2", "marker": "x", "linestyle": "none"}
        series.append(Series(label="the authors: trained on", x=x, y=[published[rank] for rank in x], style=crosses))
    draw_series(axes, series)
    layers, exponent = points[0].layers, points[0].exponent
    title = f"{depth_name(layers)}, $d^{{{1 + exponent:g}}}$ parameters: learned or known by heart"
    rank_axes(axes, sorted({point.rank for point in points}), title)
    axes.set_yscale("linear")


def _free_side(points: Sequence[Point], level: float) -> Literal["left", "right"]:
    """Where the curves of a panel end farther from ``level``."""

    def room(rank: int) -> float:
        there = [point for point in points if point.rank == rank]
        heights = [height for point in there for height in (point.error, point.training, point.authors) if height]
        return min(abs(height - level) for height in heights)

    ranks = [point.rank for point in points]
    return "left" if room(min(ranks)) > room(max(ranks)) else "right"


def _line(points: Sequence[Point], protocol: str) -> list[Point]:
    return sorted((point for point in points if point.protocol == protocol), key=attrgetter("rank"))


def _budget(line: Sequence[Point]) -> str:
    """The budget of a line, and with another protocol than ``capacity`` which one, and for how long."""
    exponent, protocol = line[0].exponent, line[0].protocol
    if protocol == "capacity":
        return f"$d^{{{1 + exponent:g}}}$ parameters, $H = d^{{{exponent:g}}}/r$"
    seen = {point.sequences for point in line}
    longest = max(seen)
    most = "up to " * (len(seen) > 1) + (f"{longest / 1e6:.3g} million" if longest >= 1e6 else f"{longest:,}")
    if protocol == "wide":  # whose parameters differ along the line
        return f"$H = d^{{{exponent:g}}}/r$, wide values, {most}"
    return f"$d^{{{1 + exponent:g}}}$, {_COMPARED[protocol][0]}, {most}"
