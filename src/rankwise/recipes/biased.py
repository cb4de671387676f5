"""The biased target: what a head of rank r misses, against d - r, for several biases.

    rankwise reproduce biased --preset laptop --seeds 3

Two orthogonal points and one query y ~ N(0, I/d); the answer is x_1 if ``<x_1 - x_2, y> + b > 0``, else x_2. The
paper's third theorem is about sums of such functions; its constants are not computable, so this is a measurement of
single ones, and no constant is claimed. The bias is given in standard deviations sqrt(2/d) of ``<x_1 - x_2, y>``.

One bare layer of H softmax heads (any values). To tell x_1 from x_2 each point carries one more learned coordinate, so
that a head of rank d + 1 computes the target exactly and d - r begins at -1; without bias rank d is enough. The larger
the bias, the easier the answer "x_1" is, so errors are also shown relative to the best linear predictor's.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from rankwise.errors import require_choice
from rankwise.recipes.cells import seeded_sweep
from rankwise.recipes.registry import Reproduced
from rankwise.recipes.rows import Mean, ResultRow, mean_over_seeds, result_row
from rankwise.recipes.trained import TrainedRun
from rankwise.report.figures import house_style, new_figure, ramp, save_figure
from rankwise.report.panels import Series, draw_series, fine_axes, share_legend
from rankwise.spec import LrMultipliers, ModelSpec, OptimSpec, RunSpec, SweepSpec, TaskSpec

if TYPE_CHECKING:
    from matplotlib.figure import Figure

KEYS = ("bias",)


@dataclass(frozen=True, kw_only=True)
class Settings:
    """The sizes of a preset; ``biases`` in standard deviations of the margin."""

    dim: int
    heads: int
    ranks: tuple[int, ...]
    biases: tuple[float, ...]
    steps: int


PRESETS: dict[str, Settings] = {
    "smoke": Settings(dim=8, heads=4, ranks=(4, 8, 9), biases=(0.0, 1.0), steps=400),
    "laptop": Settings(
        dim=16, heads=4, ranks=(1, 4, 8, 10, 12, 14, 15, 16, 17), biases=(0.0, 0.5, 1.0, 2.0), steps=1500
    ),
    "paper": Settings(
        dim=64,
        heads=16,
        ranks=(1, 8, 16, 32, 40, 48, 52, 56, 60, 62, 63, 64, 65),
        biases=(0.0, 0.5, 1.0, 2.0),
        steps=10_000,
    ),
}


def sweep(preset: str = "laptop", *, seeds: int = 1) -> SweepSpec:
    """The runs of the figure."""
    require_choice("preset", preset, tuple(PRESETS))
    settings = PRESETS[preset]
    runs = [_run(settings, rank, bias) for bias in settings.biases for rank in settings.ranks]
    return seeded_sweep(f"biased ({preset})", runs, seeds)


def margin_deviation(dim: int) -> float:
    """The standard deviation of ``<x_1 - x_2, y>``: sqrt(2/d)."""
    return math.sqrt(2 / dim)


def _run(settings: Settings, rank: int, bias: float) -> RunSpec:
    dim, steps = settings.dim, settings.steps
    return RunSpec(
        protocol="capacity",
        task=TaskSpec(
            name="biased",
            dim=dim,
            points=2,
            distribution="orthogonal",
            biases=(bias * margin_deviation(dim),),
            coefficients=(1.0,),
        ),
        model=ModelSpec(
            dim=dim,
            heads=settings.heads,
            rank=rank,
            value_rank=dim,
            temperature="learned",
            norm="none",
            residual=False,
            positions="concatenated",
            position_dim=1,
            max_points=2,
        ),
        optim=OptimSpec(
            lr=min(0.01, 0.16 / dim),
            lr_multipliers=LrMultipliers(temperature=20.0),
            steps=steps,
            batch=256,
            schedule="linear",
            warmup=min(50, steps // 10),
            epoch_steps=steps // 4,
            validation_batches=32,
            validation_batch=512,
        ),
    )


def rows(runs: Sequence[TrainedRun]) -> list[ResultRow]:
    """One row a run, with its bias and the error of the best linear predictor (and constant) for it."""
    import torch

    from rankwise.train.build import build_neighbors

    linear: dict[float, float] = {}
    found = []
    for trained in runs:
        task = trained.run.neighbors
        (bias,) = task.biases
        if bias not in linear:
            linear[bias] = build_neighbors(task).baselines(torch.Generator().manual_seed(0), 20_000).linear.mean
        extra = {"bias": round(bias / margin_deviation(task.dim), 6), "linear_error": linear[bias]}
        found.append(result_row("biased", trained, extra))
    return found


def lines_of(rows: Sequence[ResultRow]) -> dict[float, dict[int, Mean]]:
    """For every bias the errors by rank, seeds averaged."""
    lines: dict[float, dict[int, Mean]] = {}
    for (bias, rank), mean in mean_over_seeds(rows, lambda row: (float(row.extra["bias"]), row.rank)).items():
        lines.setdefault(bias, {})[rank] = mean
    return lines


def reading(lines: dict[float, dict[int, Mean]], dim: int) -> str:
    """For every bias, the share of the linear error that remains at half rank, at d, and at d + 1."""
    said = []
    for bias, line in lines.items():
        telling = [rank for rank in (dim // 2, dim - 1, dim, dim + 1) if rank in line]
        parts = ", ".join(f"{_relative(line[rank]):.2g} at rank {rank}" for rank in telling)
        said.append(f"Bias {bias:g}: of the best linear predictor's error there remains {parts}.")
    return "\n".join(said)


def _relative(mean: Mean) -> float:
    return mean.error / float(mean.row.extra["linear_error"])


def draw(lines: dict[float, dict[int, Mean]], dim: int, title: str) -> Figure:
    """Errors left, errors relative to the best linear predictor's right, both against d - r."""
    figure = new_figure(10.0, 3.9)
    panels = figure.subplots(1, 2)
    for axes, relative in zip(panels, (False, True), strict=True):
        series = []
        for (bias, line), colour in zip(lines.items(), ramp(len(lines)), strict=True):
            scales = [1 / float(mean.row.extra["linear_error"]) if relative else 1.0 for mean in line.values()]
            series.append(
                Series(
                    label=f"bias {bias:g} deviations",
                    x=[dim - rank for rank in line],
                    y=[mean.error * scale for mean, scale in zip(line.values(), scales, strict=True)],
                    spread=[mean.spread * scale for mean, scale in zip(line.values(), scales, strict=True)],
                    style={"color": colour},
                )
            )
        draw_series(axes, series)
        name = "relative to the best linear predictor" if relative else "squared error"
        fine_axes(axes, _ticks(dim, lines), name, "d - r")
        axes.invert_xaxis()
    panels[1].set_ylabel("error / error of the best linear predictor")
    share_legend(figure, panels)
    figure.suptitle(title, fontsize=11)
    return figure


def _ticks(dim: int, lines: dict[float, dict[int, Mean]]) -> list[int]:
    """The codimensions that were trained, without those too near the last to be read."""
    found = sorted({dim - rank for line in lines.values() for rank in line})
    near = dim / 16
    return [gap for gap in found if gap in (found[0], found[-1]) or gap - found[0] >= near]


def present(preset: str, rows: Sequence[ResultRow], stem: Path) -> Reproduced:
    """Figure, table and reading of the rows."""
    settings, lines = PRESETS[preset], lines_of(rows)
    title = f"Biased nearest of two orthogonal points in {settings.dim} dimensions, {settings.heads} heads"
    with house_style():
        figure = draw(lines, settings.dim, title)
    return Reproduced(
        columns=("bias", "rank", "d - rank", "error", "standard error", "seeds", "of linear"),
        rows=tuple(
            (bias, rank, settings.dim - rank, mean.error, mean.spread, mean.seeds, _relative(mean))
            for bias, line in lines.items()
            for rank, mean in line.items()
        ),
        reading=reading(lines, settings.dim),
        files=save_figure(figure, stem),
    )
