"""Do attention rank and performance saturate together? Both against the size of the heads, with the knee of each.

    rankwise reproduce saturation --preset laptop

The claim of "On the Limitation and Redundancy of Transformers: A Rank Perspective": as the head dimension grows, rank
and performance stop growing at the same place, also for latent attention (MLA), whose ``kv_lora_rank`` is swept here
at a fixed head dimension. Its definitions of rank and its tables are not public; ours: hardmax rank over n, mean over
heads and eight held-out sequences, and one rule for all knees (``knees.py``). One panel a family of runs that differ in
that one size. Runs of ``in-context``, ``language`` and ``images`` are among them: with the same store they are not
trained again.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from rankwise.recipes.cells import chosen_seeds
from rankwise.recipes.registry import Reproduced, pick_preset
from rankwise.recipes.rows import ResultRow
from rankwise.recipes.tokens import images, in_context, language
from rankwise.recipes.tokens.families import (
    PERFORMANCE,
    Curves,
    Family,
    families_of,
    reading,
    size_axes,
    table_of,
)
from rankwise.recipes.tokens.runs import require_rows, split_data, token_rows
from rankwise.recipes.trained import TrainedRun
from rankwise.report.figures import COLOURS, GUIDE, new_figure, save_figure
from rankwise.report.panels import draw_series, share_legend
from rankwise.spec import SweepSpec

if TYPE_CHECKING:
    from matplotlib.axes import Axes

KEYS = ("task", "data", "attention", "kv_lora_rank")
_RANK, _PERFORMANCE = COLOURS[0], COLOURS[1]
_COLUMNS = 3


@dataclass(frozen=True, kw_only=True)
class Settings:
    """``families`` makes them from the files of text and of images, if any are given."""

    families: Callable[[str | None, str | None], list[Family]]
    seeds: int = 3


def _smoke(text: str | None, pictures: str | None) -> list[Family]:
    seen = images.PRESETS["smoke"].family(pictures)
    learned = in_context.PRESETS["smoke"].family(4, (1, 4))
    return [learned, language.PRESETS["smoke"].family(text), seen, replace(seen, latent=4, sizes=(1, 8))]


def _laptop(text: str | None, pictures: str | None) -> list[Family]:
    """Every task; on images, the cheapest, also another dim, head count, depth and sequence length.

    Sizes are few, so that all of it takes less than an hour on two cores; ``language`` has more of them.
    """
    spoken = language.PRESETS["laptop"].family(text)
    seen = images.PRESETS["laptop"].family(pictures)
    return [
        in_context.PRESETS["laptop"].family(4, (1, 4, 16)),
        replace(spoken, sizes=(1, 4, 16, 32, 64)),
        replace(spoken, latent=16, sizes=(2, 8, 32)),
        seen,
        replace(seen, latent=8, sizes=(1, 4, 16)),
        *(replace(other, sizes=(1, 2, 4, 8)) for other in _varied(seen, heads=(2,), layers=(1,))),
        replace(images.PRESETS["laptop"], patch=4, mnist_patch=7, ranks=(1, 2, 4, 8)).family(pictures),
    ]


def _full(text: str | None, pictures: str | None) -> list[Family]:
    spoken = language.PRESETS["full"].family(text)
    seen = images.PRESETS["full"].family(pictures)
    learned = in_context.PRESETS["full"].family(8, (1, 2, 4, 8, 16, 32, 64))
    return [
        learned,
        *_varied(learned, heads=(4, 16), layers=(6,)),
        spoken,
        replace(spoken, latent=32, sizes=(1, 2, 4, 8, 16, 32, 64, 128)),
        *_varied(spoken, heads=(4, 16), layers=(1, 8)),
        *(replace(language.PRESETS["full"], context=length).family(text) for length in (64, 1024)),
        seen,
        replace(seen, latent=16, sizes=(1, 2, 4, 8, 16, 32)),
        *_varied(seen, heads=(2, 8), layers=(1, 8)),
        replace(images.PRESETS["full"], mnist_patch=7).family(pictures),
    ]


def _varied(base: Family, *, heads: tuple[int, ...], layers: tuple[int, ...]) -> list[Family]:
    """Half the dim, other head counts, other depths: one changed at a time."""
    shapes = [replace(base, dim=base.dim // 2)]
    shapes += [replace(base, heads=count) for count in heads]
    return [*shapes, *(replace(base, layers=count) for count in layers)]


PRESETS: dict[str, Settings] = {
    "smoke": Settings(families=_smoke, seeds=1),
    "laptop": Settings(families=_laptop),
    "full": Settings(families=_full),
}


def sweep(preset: str = "laptop", *, seeds: int | None = None, data: str | None = None) -> SweepSpec:
    """The runs of all families; ``data`` is a text file, or a directory of MNIST."""
    settings = pick_preset(PRESETS, preset)
    families = settings.families(*split_data(data))
    runs = [run for family in families for run in family.runs(chosen_seeds(seeds, settings.seeds))]
    return SweepSpec(name=f"saturation ({preset})", runs=tuple(runs))


def rows(runs: Sequence[TrainedRun]) -> list[ResultRow]:
    """One row a run."""
    return token_rows("saturation", runs)


def present(preset: str, rows: Sequence[ResultRow], stem: Path) -> Reproduced:
    """Figure, table and reading of the rows."""
    require_rows("saturation", preset, rows)
    families = families_of(rows)
    columns, lines = table_of(families)
    across = min(_COLUMNS, len(families)) if len(families) != 4 else 2
    down = -(-len(families) // across)
    figure = new_figure(5.2 * across, 3.9 * down)
    panels = list(figure.subplots(down, across, squeeze=False).flat)
    for axes, curves in zip(panels, families, strict=False):
        _draw(axes, curves)
    for axes in panels[len(families) :]:
        axes.set_axis_off()
    figure.suptitle("Attention rank and performance against the size of the heads", fontsize=11)
    share_legend(figure, panels, columns_below=3)
    text = [line for curves in families for line in reading(curves)]
    knees = [(curves.knee("performance"), curves.knee("hardmax_end")) for curves in families]
    agree = [one.agrees_with(other) for one, other in knees if one is not None and other is not None]
    if agree:
        text.append(
            f"The knees of performance and of the trained hardmax rank agree in {sum(agree)} of {len(agree)} families."
        )
    return Reproduced(columns=columns, rows=lines, reading="\n".join(text), files=save_figure(figure, stem))


def _draw(axes: Axes, curves: Curves) -> None:
    ranks = [
        curves.series("hardmax_end", "hardmax rank / n, trained", color=_RANK, marker="o"),
        curves.series(
            "hardmax_start", "at the start", color=_RANK, marker="o", linestyle=":", fillstyle="none", linewidth=1.0
        ),
        curves.series("effective_end", "effective rank / n, trained", color=COLOURS[2], marker="^", linewidth=1.0),
    ]
    draw_series(axes, ranks)
    axes.axhline(curves.random_rank, color=GUIDE, linewidth=0.8, linestyle="--", label="random hardmax heads")
    axes.set_ylim(0, 1.02)
    axes.set_ylabel("attention rank / n", color=_RANK)
    other = axes.twinx()
    draw_series(other, [curves.series("performance", PERFORMANCE[curves.task], color=_PERFORMANCE, marker="s")])
    other.set_ylabel(PERFORMANCE[curves.task], color=_PERFORMANCE)
    other.spines["right"].set_visible(True)
    other.grid(visible=False)
    if curves.lower_is_better:
        other.invert_yaxis()  # up is better on both axes
    for height, colour, column, label in (
        (0.05, _RANK, "hardmax_end", "knee of the trained hardmax rank, and its range over seeds"),
        (0.10, _PERFORMANCE, "performance", "knee of performance (right axis), and its range over seeds"),
    ):
        if (knee := curves.knee(column)) is None:
            continue
        axes.plot([knee.low, knee.high], [height] * 2, color=colour, linewidth=3, alpha=0.4, solid_capstyle="round")
        axes.plot([knee.at], [height], color=colour, marker="v", markersize=7, linestyle="", label=label)
    size_axes(axes, curves)
    axes.set_title(curves.name.replace(": ", "\n"), fontsize=8.5)
