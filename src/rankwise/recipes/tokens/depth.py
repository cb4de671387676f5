"""Does depth make up for low rank, and at what cost? Language and images with 1, 2 and 4 layers.

    rankwise reproduce depth --preset laptop

Heads of rank 1, of rank 4 and of full rank (the model's dimension), the number of heads fixed. Performance against the
operations of a forward pass, which together with the seconds of a run is the cost. In the paper's training errors on
the sphere three layers of low rank come near one of full rank (``figure1`` has what is left of it on new points); here
the feed-forward layers and the value ranks grow along.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from rankwise.recipes.cells import chosen_seeds, depth_name
from rankwise.recipes.registry import Reproduced, pick_preset
from rankwise.recipes.rows import Mean, ResultRow, mean_over_seeds
from rankwise.recipes.tokens import images, language
from rankwise.recipes.tokens.families import DRAWN, PERFORMANCE, Family
from rankwise.recipes.tokens.runs import Shape, lower_is_better, require_rows, split_data, token_rows, token_run
from rankwise.recipes.trained import TrainedRun
from rankwise.report.figures import COLOURS, new_figure, save_figure
from rankwise.report.panels import Series, draw_levels, draw_series
from rankwise.spec import RunSpec, SweepSpec

if TYPE_CHECKING:
    from matplotlib.axes import Axes

KEYS = ("task", "data", "attention", "kv_lora_rank")


@dataclass(frozen=True, kw_only=True)
class Settings:
    """``base`` is the preset of the tasks whose models are made shallower and deeper."""

    base: str
    layers: tuple[int, ...]
    ranks: tuple[int, ...]
    seeds: int = 3


PRESETS: dict[str, Settings] = {
    "smoke": Settings(base="smoke", layers=(1, 2), ranks=(1,), seeds=1),
    "laptop": Settings(base="laptop", layers=(1, 2, 4), ranks=(1, 4)),
    "full": Settings(base="full", layers=(1, 2, 4, 8), ranks=(1, 4, 16)),
}


def sweep(preset: str = "laptop", *, seeds: int | None = None, data: str | None = None) -> SweepSpec:
    """The runs of both tasks; ``data`` is a text file, or a directory of MNIST."""
    settings = pick_preset(PRESETS, preset)
    text_data, image_data = split_data(data)
    runs = []
    for base in (language.PRESETS[settings.base].family(text_data), images.PRESETS[settings.base].family(image_data)):
        runs += _runs(base, settings, chosen_seeds(seeds, settings.seeds))
    return SweepSpec(name=f"depth ({preset})", runs=tuple(runs))


def _runs(base: Family, settings: Settings, seeds: int) -> list[RunSpec]:
    shapes = [
        Shape(dim=base.dim, layers=layers, heads=base.heads, rank=rank)
        for layers in settings.layers
        for rank in (*settings.ranks, base.dim)
    ]
    return [token_run(base.task, shape, base.budget, seed) for shape in shapes for seed in range(seeds)]


def rows(runs: Sequence[TrainedRun]) -> list[ResultRow]:
    """One row a run."""
    return token_rows("depth", runs)


def present(preset: str, rows: Sequence[ResultRow], stem: Path) -> Reproduced:
    """Figure, table and reading of the rows."""
    require_rows("depth", preset, rows)
    tasks = list(dict.fromkeys(str(row.extra["task"]) for row in rows))
    figure = new_figure(5.4 * len(tasks), 4.0)
    lines: list[tuple[str | int | float | None, ...]] = []
    text = []
    for axes, task in zip(figure.subplots(1, len(tasks), squeeze=False)[0], tasks, strict=True):
        own = [row for row in rows if row.extra["task"] == task]
        means = _means(own, "performance")
        seconds = mean_over_seeds(own, _shape, lambda row: row.seconds)
        for shape, mean in means.items():
            flops = float(mean.row.extra["forward_flops"])
            cost = (flops, seconds[shape].error, mean.row.parameters)
            lines.append((task, *shape, mean.error, mean.spread, mean.seeds, *cost))
        _draw(axes, task, own, means)
        text += reading(task, means)
    return Reproduced(
        columns=(
            *("task", "rank", "layers", "performance", "standard error", "seeds"),
            *("forward FLOPs", "seconds", "parameters"),
        ),
        rows=tuple(lines),
        reading="\n".join(text),
        files=save_figure(figure, stem),
    )


def reading(task: str, means: dict[tuple[int, int], Mean]) -> list[str]:
    """Whether the deepest model of each low rank reaches the shallowest of full rank, and what it costs."""
    full_rank = next(iter(means.values())).row.dim
    full = min((mean for (rank, _), mean in means.items() if rank == full_rank), key=_layers, default=None)
    sign = 1 if lower_is_better(task) else -1
    lines = []
    for rank in sorted({rank for rank, _ in means} - {full_rank}):
        low = max((mean for (own, _), mean in means.items() if own == rank), key=_layers)
        reached = _reached(task, f"rank {rank}", low)
        if full is None or _layers(full) >= _layers(low):
            lines.append(f"{reached}; nothing of full rank with fewer layers to compare with yet.")
            continue
        noise = (low.spread**2 + full.spread**2) ** 0.5
        behind = sign * (low.error - full.error)
        verdict = (
            "no clear difference"
            if abs(behind) <= 2 * noise
            else "depth does not make up"
            if behind > 0
            else "depth wins"
        )
        ratio = float(low.row.extra["forward_flops"]) / float(full.row.extra["forward_flops"])
        lines.append(
            f"{reached}, full rank with {depth_name(_layers(full))} {full.error:.3f} +- {full.spread:.3f}: {verdict} "
            f"(2 standard errors decide), at {ratio:.2g} times the operations."
        )
    if full is not None and not lines:
        lines.append(f"{_reached(task, 'full rank', full)}; nothing of lower rank to compare with yet.")
    return lines


def _reached(task: str, who: str, mean: Mean) -> str:
    shown = f"{mean.error:.3f} +- {mean.spread:.3f} {PERFORMANCE[task]}"
    return f"{task}: {who} with {depth_name(_layers(mean))} reaches {shown}"


def _layers(mean: Mean) -> int:
    return mean.row.layers


def _shape(row: ResultRow) -> tuple[int, int]:
    return row.rank, row.layers


def _means(rows: Sequence[ResultRow], column: str) -> dict[tuple[int, int], Mean]:
    return mean_over_seeds(rows, _shape, lambda row: float(row.extra[column]))


def _draw(axes: Axes, task: str, rows: Sequence[ResultRow], means: dict[tuple[int, int], Mean]) -> None:
    series: list[Series] = []
    for rank in sorted({rank for rank, _ in means}):
        line = [mean for (own, _), mean in means.items() if own == rank]
        spread = [mean.spread for mean in line] if line[0].seeds > 1 else []
        flops = [float(mean.row.extra["forward_flops"]) for mean in line]
        label = f"rank {rank}" + " (full)" * (rank == line[0].row.dim)
        colour = COLOURS[len(series)]
        series.append(
            Series(label=label, x=flops, y=[mean.error for mean in line], spread=spread, style={"color": colour})
        )
        below = rank == line[0].row.dim  # beside lower ranks of more layers, whose numbers are above
        for x, mean in zip(flops, line, strict=True):
            axes.annotate(
                f"{mean.row.layers}",
                (x, mean.error),
                xytext=(4, -10 if below else 4),
                textcoords="offset points",
                fontsize=7,
                color=colour,
            )
    draw_series(axes, series)
    draw_levels(axes, {name: float(rows[0].extra[name]) for name in DRAWN if name in rows[0].extra})
    axes.set_xscale("log")
    axes.tick_params(axis="x", which="minor", labelbottom=False)
    axes.set_xlabel("operations of a forward pass, one sequence (numbers: layers)")
    axes.set_ylabel(PERFORMANCE[task])
    axes.set_title(f"{task}: {rows[0].heads} heads, d = {rows[0].dim}", fontsize=10)
    axes.grid(True, color="0.92", linewidth=0.6)
    axes.legend(fontsize=7)
