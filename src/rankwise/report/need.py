"""Figures of a measured need."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from rankwise.need import NeedAsked, NeedMeasurement, NeedReport
from rankwise.report.figures import COLOURS, GUIDE, MARKERS, drawn_bytes, house_style, label_level, new_figure, ramp
from rankwise.whole_file import write_whole

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_KINDS = {
    "best": "best form found",
    "pca": "PCA of the keys",
    "random": "random projection",
}
_MOST_TICKS = 12


def draw_need(report: NeedReport) -> Figure:
    """One set of vectors: error and recall against rank. Several: their errors, and the need of each."""
    measurements, settings = report.measurements, report.settings
    with house_style():
        figure = new_figure(9.2, 4.3)
        left, right = figure.subplots(1, 2)
        if len(measurements) == 1:
            _draw_one(left, right, measurements[0], settings)
        else:
            _draw_several(left, right, measurements, settings)
        handles, labels = left.get_legend_handles_labels()
        title = None if len(measurements) == 1 else "attention block"
        figure.legend(handles, labels, loc="outside lower center", ncols=min(len(labels), 5), title=title)
    return figure


def save_need_figure(report: NeedReport, path: Path) -> None:
    """The figure as PNG at ``path``."""
    figure = draw_need(report)
    with house_style():
        write_whole(path, drawn_bytes(figure, "png"))


def _draw_one(left: Axes, right: Axes, one: NeedMeasurement, settings: NeedAsked) -> None:
    for order, ((kind, label), colour, marker) in enumerate(zip(_KINDS.items(), COLOURS, MARKERS, strict=False)):
        points = one.curves[kind]
        ranks = [point.rank for point in points]
        for axes, what in ((left, "error"), (right, "recall")):
            axes.fill_between(
                ranks,
                [getattr(point, f"{what}_low") for point in points],
                [getattr(point, f"{what}_high") for point in points],
                color=colour,
                alpha=0.2,
                linewidth=0,
            )
            axes.plot(
                ranks,
                [getattr(point, what) for point in points],
                color=colour,
                marker=marker,
                label=label,
                zorder=4 - order,
            )
    _draw_worst_case(left, one, settings)
    # Both names stand outside: inside, some data put a curve behind any place.
    left.axhline(settings.target, color=GUIDE, linewidth=0.8, linestyle="--")
    _beside(left, (1, settings.target), ("axes fraction", "data"), f"target {settings.target:g}", GUIDE)
    left.axvline(one.need, color=COLOURS[0], linewidth=0.9, linestyle=":")
    _beside(left, (one.need, 1), ("data", "axes fraction"), f"need {one.need}", COLOURS[0])
    _rank_axis(left, one.dim)
    _rank_axis(right, one.dim)
    left.set_ylim(0, 1)
    right.set_ylim(0, 1)
    left.set_ylabel("retrieval error (1 = a random key)")
    right.set_ylabel("share of queries")
    left.set_title(f"Nearest of {one.candidates} keys, {settings.similarity}, d = {one.dim}", pad=16)
    right.set_title("Recall of the nearest key", pad=16)


def _beside(axes: Axes, at: tuple[float, float], where: tuple[str, str], text: str, colour: str) -> None:
    """``text`` just outside the frame, beside a line that ends there: to its right, or above it."""
    above = where[1] == "axes fraction"
    axes.annotate(
        text,
        at,
        xycoords=where,
        xytext=(0, 2) if above else (2, 0),
        textcoords="offset points",
        ha="center" if above else "left",
        va="bottom" if above else "center",
        fontsize=8,
        color=colour,
        annotation_clip=False,
    )


def _draw_worst_case(axes: Axes, one: NeedMeasurement, settings: NeedAsked) -> None:
    ranks = [point.rank for point in one.isotropic]
    axes.plot(
        ranks,
        [point.error for point in one.isotropic],
        color=GUIDE,
        linestyle="--",
        label="isotropic data, best form",
    )
    heads = settings.heads
    axes.plot(
        ranks,
        [point.bound for point in one.isotropic],
        color=GUIDE,
        linestyle=":",
        label=f"isotropic bound, 2 keys, {heads} head{'s' if heads > 1 else ''}, any values",
    )


def _draw_several(left: Axes, right: Axes, measurements: Sequence[NeedMeasurement], settings: NeedAsked) -> None:
    for one, colour in zip(measurements, ramp(len(measurements)), strict=True):
        points = one.curves["best"]
        left.plot([point.rank for point in points], [point.error for point in points], color=colour, label=_block(one))
    _draw_worst_case(left, measurements[0], settings)
    label_level(left, settings.target, f"target {settings.target:g}", at=0.99)
    _rank_axis(left, measurements[0].dim)
    left.set_ylim(0, 1)
    left.set_ylabel("retrieval error (1 = a random key)")
    left.set_title(f"Nearest of {measurements[0].candidates} keys, best form, block by block")

    at = list(range(len(measurements)))
    need = [one.need for one in measurements]
    spread = [
        [one.need - one.need_low for one in measurements],
        [one.need_high - one.need for one in measurements],
    ]
    right.errorbar(at, need, yerr=spread, color=COLOURS[0], marker=MARKERS[0], capsize=2, label="need")
    right.plot(at, [one.need_pca for one in measurements], color=COLOURS[1], marker=MARKERS[1], label="need, PCA")
    ratio = [one.participation_ratio.keys for one in measurements]
    right.plot(at, ratio, color=COLOURS[2], marker=MARKERS[2], label="participation ratio")
    label_level(right, measurements[0].need_isotropic, "need of isotropic data", at=0.01)
    right.set_ylim(0, 1.08 * measurements[0].dim)
    step = -(-len(at) // _MOST_TICKS)
    right.set_xticks(at[::step], [_block(one) for one in measurements[::step]])
    right.set_xlabel("attention block")
    right.set_ylabel("rank")
    right.set_title(f"Smallest rank for error {settings.target:g}")
    right.legend(loc="center left")


def _block(one: NeedMeasurement) -> str:
    """``3`` of ``layer 3 (encoder.layer.3.attention.self)``."""
    return one.name.split(" (", maxsplit=1)[0].removeprefix("layer ")


def _rank_axis(axes: Axes, dim: int) -> None:
    axes.set_xlim(0, dim * 1.02)
    axes.set_xlabel("rank of the form")
