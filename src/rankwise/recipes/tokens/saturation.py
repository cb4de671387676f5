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
from typing import TYPE_CHECKING, Any

from rankwise.recipes.curves import curve
from rankwise.recipes.rows import Point, lines_of
from rankwise.recipes.tokens import images, in_context, language
from rankwise.recipes.tokens.families import FamiliesFigure, Family, draw_random, knee_of, size_axes, size_name, task_of
from rankwise.recipes.tokens.runs import split_data
from rankwise.recipes.trained_figure import Settings
from rankwise.report.figures import COLOURS, new_figure
from rankwise.report.panels import draw_series, share_legend
from rankwise.spec import RunSpec

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

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

    def reading(self, settings: Families, points: Sequence[Point]) -> list[str]:
        """Every family, and in how many of them the knees agree."""
        families = [line for line in lines_of(points, "family").values() if len(line) > 1]
        agree = [knee_of(line, "performance").agrees_with(knee_of(line, "hardmax_end")) for line in families]
        both = "The knees of performance and of the trained hardmax rank"
        total = f"{both} agree in {sum(agree)} of {len(agree)} families."
        return [*super().reading(settings, points), *([total] if agree else [])]

    def draw(self, settings: Families, points: Sequence[Point]) -> Figure:
        """One panel per family."""
        families = lines_of(points, "family")
        across = min(_COLUMNS, len(families)) if len(families) != 4 else 2
        down = -(-len(families) // across)
        figure = new_figure(5.2 * across, 3.9 * down)
        panels = list(figure.subplots(down, across, squeeze=False).flat)
        for axes, (name, line) in zip(panels, families.items(), strict=False):
            _draw(axes, line)
            axes.set_title(str(name).replace(": ", "\n"), fontsize=8.5)
        for axes in panels[len(families) :]:
            axes.set_axis_off()
        figure.suptitle("Attention rank and performance against the size of the heads", fontsize=11)
        share_legend(figure, panels, columns_below=3)
        return figure


def _draw(axes: Axes, points: Sequence[Point]) -> None:
    drawn: tuple[tuple[str, str, dict[str, Any]], ...] = (
        ("hardmax_end", "hardmax rank / n, trained", {"color": _RANK}),
        ("hardmax_start", "before training", {"color": _RANK, "marker": "o", "linestyle": ":", "fillstyle": "none"}),
        ("effective_end", "effective rank / n, trained", {"color": _EFFECTIVE, "linewidth": 1.0}),
    )
    draw_series(axes, [curve(label, points, x="size", y=column, **style) for column, label, style in drawn])
    draw_random(axes, points)
    axes.set_ylim(-0.14, 1.02)  # the knees are below 0
    axes.set_ylabel("attention rank / n", color=_RANK)
    other, unit = axes.twinx(), task_of(points).performance
    draw_series(other, [curve(unit, points, x="size", y="performance", color=_PERFORMANCE, marker="s")])
    other.margins(y=0.2)
    other.set_ylabel(unit, color=_PERFORMANCE)
    other.spines["right"].set_visible(True)
    other.grid(visible=False)
    if task_of(points).lower_is_better:
        other.invert_yaxis()  # up is better on both axes
    for height, colour, column, label in (
        (-0.09, _RANK, "hardmax_end", "knee of the trained hardmax rank, and its range over seeds"),
        (-0.04, _PERFORMANCE, "performance", "knee of performance (right axis), and its range over seeds"),
    ):
        if len(points) > 1:
            knee = knee_of(points, column)
            axes.plot([knee.low, knee.high], [height] * 2, color=colour, linewidth=3, alpha=0.4, solid_capstyle="round")
            axes.plot([knee.at], [height], color=colour, marker="v", markersize=7, linestyle="", label=label)
    size_axes(axes, points, size_name(points))


FIGURE = _Saturation()
