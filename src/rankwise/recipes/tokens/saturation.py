"""Does the head dimension at which rank and performance saturate grow with the sequence, and together?

    rankwise reproduce saturation

The claim of "On the Limitation and Redundancy of Transformers: A Rank Perspective" in its own terms: rank stops growing
at a head dimension of order log n, and performance with it. Text at several lengths n and images in several numbers of
patches; at each n everything but the head dimension stays, and all n see as many tokens per step.

The knee is the first head dimension within 2 % of the best (``measure.knee``), its interval the range over seeds.
Beside the knees: our quadrature for random heads (90 % of the barrier, ``theory.saturation``), and c log n through its
first value. The paper's own definitions and tables are not public. Runs of ``language`` and ``images`` are among these.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import partial

from rankwise.recipes.curves import curves, ticked
from rankwise.recipes.points import Point, lines_of
from rankwise.recipes.tokens import images, language
from rankwise.recipes.tokens.families import Family, FamilyFigure, knee_of, task_of
from rankwise.recipes.tokens.runs import split_data
from rankwise.recipes.trained_figure import Settings
from rankwise.report import COLOURS, GUIDE, MARKERS, Panel, Picture, PlotAxis, Series, dots, smooth
from rankwise.spec import RunSpec
from rankwise.theory import saturation_dim

KNEES = {
    "performance": "performance",
    "hardmax_start": "initial hardmax rank",
    "hardmax_end": "trained hardmax rank",
    "effective_start": "initial effective rank",
    "effective_end": "trained effective rank",
}
_SIZES = (1, 2, 4, 8, 16, 32, 64)


@dataclass(frozen=True, kw_only=True)
class Lengths(Settings):
    """Families that differ in their length alone, of text and of images."""

    texts: Sequence[Family]
    pictures: Sequence[Family]


def _of_lengths(base: Family, lengths: Sequence[int], tokens: int, sizes: Sequence[int]) -> list[Family]:
    """Text at every length, ``tokens`` tokens per step."""
    budgets = {length: replace(base.budget, batch=tokens // length) for length in lengths}
    sized = replace(base, sizes=tuple(sizes))
    return [replace(sized, task=partial(language.text, context=n), budget=budget) for n, budget in budgets.items()]


class _Saturation(FamilyFigure[Lengths]):
    """Rank and performance against the head dimension for every length, and their knees against the length."""

    name = "saturation"
    keys = ("task", "points", "rank")
    tabled = tuple(KNEES)

    def runs(self, settings: Lengths, *, data: str | None = None) -> Iterable[RunSpec]:
        """All lengths; ``data`` is a text file, or a directory of MNIST."""
        for families, own in zip((settings.texts, settings.pictures), split_data(data), strict=True):
            for family in families:
                yield from family.runs(own)

    def reading(self, settings: Lengths, points: Sequence[Point]) -> list[str]:
        """How the knees grow from the first length to the last, and where rank and performance agree."""
        lines = []
        for task, own in lines_of(points, "task").items():
            lengths = {n: line for n, line in lines_of(own, "points").items() if len(line) > 1}
            if len(lengths) < 2:
                continue
            first, last = lengths[min(lengths)], lengths[max(lengths)]
            for column in ("performance", "hardmax_end", "hardmax_start"):
                low, high = knee_of(first, column), knee_of(last, column)
                grown = f"head dim {low} at n = {min(lengths)}, {high} at n = {max(lengths)}"
                lines.append(f"{task}, knee of {KNEES[column]}: {grown}.")
            knees = {n: (knee_of(line, "performance"), knee_of(line, "hardmax_end")) for n, line in lengths.items()}
            agree = [n for n, (performance, rank) in knees.items() if performance.agrees_with(rank)]
            where = f"at n = {', '.join(map(str, agree))}" if agree else "at no n"
            lines[-2] += f" Its range over seeds and that of performance overlap {where}."
            lines[-1] += f" The quadrature for random heads: {quadrature(first)} and {quadrature(last)}."
        return lines

    def picture(self, settings: Lengths, points: Sequence[Point]) -> Picture:
        """One row per task: ranks at the start, trained, performance, and the knees of all against the length."""
        rows = [_row(task, own) for task, own in lines_of(points, "task").items()]
        title = "Saturation over n: attention rank and performance against the head dimension, and their knees"
        return Picture(title=title, panels=rows, share_y=False, size=(3.7, 3.7))


def _row(task: str, points: Sequence[Point]) -> list[Panel]:
    x, panels = ticked(points, "rank", "head dim"), []
    rank, unit = PlotAxis(label="hardmax rank / n", low=0, high=1), PlotAxis(label=task_of(points).performance)
    for column, y in (("hardmax_start", rank), ("hardmax_end", rank), ("performance", unit)):
        series = curves(points, "points", "n = {}".format, shades=True, x="rank", y=column)
        panels.append(Panel(title=f"{task}: {KNEES[column]}", x=x, y=y, series=series, legend="best"))
    return [*panels, _knees(task, {n: line for n, line in lines_of(points, "points").items() if len(line) > 1})]


def _knees(task: str, lengths: dict[int, list[Point]]) -> Panel:
    """Knees against the length; those of one length stand side by side."""
    series = []
    for place, column in enumerate(column for column in KNEES if column != "effective_start"):
        knees = [knee_of(line, column) for line in lengths.values()]
        x, at = [n * 1.06 ** (place - 1.5) for n in lengths], [knee.at for knee in knees]
        interval = [knee.at - knee.low for knee in knees], [knee.high - knee.at for knee in knees]
        look = dots(COLOURS[place], MARKERS[place])
        series.append(Series(label=KNEES[column], x=x, y=at, spread=interval, style=look))
    if lengths:
        needed = [quadrature(line) for line in lengths.values()]
        law = [needed[0] * math.log(n) / math.log(min(lengths)) for n in lengths]
        series.append(Series(label="quadrature, 90 %", x=list(lengths), y=needed, style=smooth("0.25")))
        series.append(Series(label="$c \\log n$", x=list(lengths), y=law, style=smooth(GUIDE, "--")))
    return Panel(
        title=f"{task}: knees",
        x=PlotAxis(label="n", scale="log2", ticks=sorted(lengths)),
        y=PlotAxis(label="head dim", scale="log2", ticks=_SIZES, low=0.4, high=600),
        series=series,
        legend="upper left",
        legend_columns=2,
    )


def quadrature(points: Sequence[Point]) -> int:
    """The head dimension at which random heads of this length and mask have 90 % of their barrier."""
    return saturation_dim(points[0]["points"], mask=points[0]["mask"]).value


_text, _picture = language.FIGURE.settings, images.FIGURE.settings
_tiny, _small = replace(_picture("smoke"), sizes=(1, 4)), replace(_picture("laptop"), sizes=_SIZES)
FIGURE = _Saturation(
    smoke=Lengths(
        texts=_of_lengths(_text("smoke"), (8, 16), 256, (1, 4)),
        pictures=[replace(_tiny, task=partial(images.digits, shift=0, patch=4, mnist_patch=7)), _tiny],
        seeds=1,
    ),
    laptop=Lengths(  # at 64 tokens and 16 patches the runs are those of language and images
        texts=_of_lengths(_text("laptop"), (32, 64, 128, 256), 2048, _SIZES),
        pictures=[_small, replace(_small, task=partial(images.digits, shift=1, patch=1, mnist_patch=2))],
    ),
    full=Lengths(
        texts=_of_lengths(_text("full"), (64, 256, 1024), 64 * 256, _text("full").sizes),
        pictures=[replace(_picture("full"), task=partial(images.mnist, shift=2, patch=p)) for p in (7, 4, 2)],
    ),
)
