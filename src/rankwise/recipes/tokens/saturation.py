"""Do attention rank and performance saturate together? Both against the size of the heads, with the knee of each.

    rankwise reproduce saturation

The claim of "On the Limitation and Redundancy of Transformers: A Rank Perspective": as the head dimension grows, rank
and performance stop growing at the same place, also for latent attention (MLA), whose ``kv_lora_rank`` is swept here
at a fixed head dimension. Its definitions of rank and its tables are not public; ours: hardmax rank over n, mean over
heads and eight held-out sequences, and one rule for all knees (``measure.knee``). One panel per family of runs that
differ in that one size. Runs of ``in-context``, ``language`` and ``images`` are among them: with the same store they
are not trained again.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from rankwise.recipes.marks import curve, lines_of, ticked
from rankwise.recipes.rows import Point
from rankwise.recipes.tokens import images, in_context, language
from rankwise.recipes.tokens.families import FamiliesFigure, Family, knee_of, random_rank, size_name
from rankwise.recipes.tokens.runs import split_data
from rankwise.recipes.trained_figure import Settings
from rankwise.report.figures import COLOURS
from rankwise.report.panels import Axis, Panel, Picture, Series, dots
from rankwise.spec import RunSpec

_RANK, _PERFORMANCE, _EFFECTIVE = COLOURS[:3]
_COLUMNS = 3


@dataclass(frozen=True, kw_only=True)
class Families(Settings):
    """Families of in-context learning, of language and of images."""

    learned: Sequence[Family]
    spoken: Sequence[Family]
    seen: Sequence[Family]


def _varied(base: Family, *, heads: tuple[int, ...], layers: tuple[int, ...]) -> list[Family]:
    """Half the dim, other head counts, other depths: one changed at a time."""
    shapes = [replace(base, dim=base.dim // 2)]
    shapes += [replace(base, heads=count) for count in heads]
    return [*shapes, *(replace(base, layers=count) for count in layers)]


def _smoke() -> Families:
    seen = images.PRESETS["smoke"]
    return Families(
        learned=[in_context.PRESETS["smoke"].family(4, (1, 4))],
        spoken=[language.PRESETS["smoke"]],
        seen=[seen, replace(seen, latent=4, sizes=(1, 8))],
        seeds=1,
    )


def _laptop() -> Families:
    """Every task; on images, the cheapest, also another dim, head count, depth and sequence length.

    Sizes are few, so that all of it takes less than an hour on two cores; ``language`` has more of them.
    """
    spoken, seen = language.PRESETS["laptop"], images.PRESETS["laptop"]
    few = replace(seen, sizes=(1, 2, 4, 8))
    return Families(
        learned=[in_context.PRESETS["laptop"].family(4, (1, 4, 16))],
        spoken=[replace(spoken, sizes=(1, 4, 16, 32, 64)), replace(spoken, latent=16, sizes=(2, 8, 32))],
        seen=[
            seen,
            replace(seen, latent=8, sizes=(1, 4, 16)),
            *_varied(few, heads=(2,), layers=(1,)),
            replace(few, task=partial(images.digits, shift=1, patch=4, mnist_patch=7)),
        ],
    )


def _full() -> Families:
    spoken, seen = language.PRESETS["full"], images.PRESETS["full"]
    learned = in_context.PRESETS["full"].family(8, (1, 2, 4, 8, 16, 32, 64))
    return Families(
        learned=[learned, *_varied(learned, heads=(4, 16), layers=(6,))],
        spoken=[
            spoken,
            replace(spoken, latent=32, sizes=(1, 2, 4, 8, 16, 32, 64, 128)),
            *_varied(spoken, heads=(4, 16), layers=(1, 8)),
            *(replace(spoken, task=partial(language.text, context=length)) for length in (64, 1024)),
        ],
        seen=[
            seen,
            replace(seen, latent=16, sizes=(1, 2, 4, 8, 16, 32)),
            *_varied(seen, heads=(2, 8), layers=(1, 8)),
            replace(seen, task=partial(images.mnist, shift=2, patch=7)),
        ],
    )


PRESETS = {"smoke": _smoke(), "laptop": _laptop(), "full": _full()}


class _Saturation(FamiliesFigure[Families]):
    """Attention rank and performance against the size of the heads, and their knees."""

    name = "saturation"
    presets = PRESETS
    keys = ("family", "size")

    def runs(self, settings: Families, *, data: str | None = None) -> Iterable[RunSpec]:
        """All families; ``data`` is a text file, or a directory of MNIST."""
        text, pictures = split_data(data)
        for families, own in ((settings.learned, None), (settings.spoken, text), (settings.seen, pictures)):
            for family in families:
                yield from family.runs(own)

    def reading(self, settings: Families, marks: Sequence[Point]) -> list[str]:
        """Every family, and in how many of them the knees agree."""
        families = [line for line in lines_of(marks, "family").values() if len(line) > 1]
        agree = [knee_of(line, "performance").agrees_with(knee_of(line, "hardmax_end")) for line in families]
        both = "The knees of performance and of the trained hardmax rank"
        total = f"{both} agree in {sum(agree)} of {len(agree)} families."
        return [*super().reading(settings, marks), *([total] if agree else [])]

    def picture(self, settings: Families, marks: Sequence[Point]) -> Picture:
        """One panel per family."""
        panels: list[Panel | None] = [_panel(str(name), line) for name, line in lines_of(marks, "family").items()]
        panels += [None] * (-len(panels) % _COLUMNS)
        rows = [panels[start : start + _COLUMNS] for start in range(0, len(panels), _COLUMNS)]
        title = "Attention rank against the size of the heads"
        return Picture(title=title, panels=rows, legend="below", size=(5.2, 3.9))


def _panel(name: str, points: Sequence[Point]) -> Panel:
    drawn: tuple[tuple[str, str, dict[str, Any]], ...] = (
        ("hardmax_end", "hardmax rank / n, trained", {"color": _RANK}),
        ("hardmax_start", "before training", {"color": _RANK, "marker": "o", "linestyle": ":", "fillstyle": "none"}),
        ("effective_end", "effective rank / n, trained", {"color": _EFFECTIVE, "linewidth": 1.0}),
    )
    series = [curve(label, points, x="size", y=column, **style) for column, label, style in drawn]
    for height, colour, column, label in (
        (-0.09, _RANK, "hardmax_end", "knee of the trained hardmax rank"),
        (-0.04, _PERFORMANCE, "performance", "knee of performance"),
    ):
        if len(points) > 1:
            series.append(
                Series(label=label, x=[knee_of(points, column).at], y=[height], style=dots(colour, "v", markersize=7))
            )
    return Panel(
        title=name.replace(": ", "\n"),
        x=ticked(points, "size", size_name(points)),
        y=Axis(label="attention rank / n", low=-0.14, high=1.02),
        series=series,
        guides=random_rank(points),
    )


FIGURE = _Saturation()
