"""Match2 and Match3: accuracy against heads x rank of one layer, for several numbers of points.

    rankwise reproduce match --preset laptop

Sanford, Hsu and Telgarsky (2023): pairs that sum to 0 are what one small head finds, triples are not; for Match3 one
attention layer needs heads x rank x precision growing almost linearly with N. Match2 is the control. Whether training
finds what a layer could represent is another matter: an upper curve here is what training found.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from rankwise.recipes.cells import chosen_seeds
from rankwise.recipes.registry import Reproduced, pick_preset
from rankwise.recipes.rows import ResultRow, Value, mean_over_seeds, result_row
from rankwise.recipes.tokens.runs import Budget, Shape, require_rows, token_run
from rankwise.recipes.trained import TrainedRun
from rankwise.report.figures import new_figure, save_figure
from rankwise.report.panels import Series, draw_levels, draw_series
from rankwise.spec import MatchSpec, SweepSpec

KEYS = ("task",)


@dataclass(frozen=True, kw_only=True)
class Settings:
    """Every number of points with every (heads, rank), for both tasks."""

    points: tuple[int, ...]
    shapes: tuple[tuple[int, int], ...]
    dim: int
    budget: Budget
    seeds: int = 3


PRESETS: dict[str, Settings] = {
    "smoke": Settings(
        points=(4,), shapes=((1, 2), (2, 8)), dim=16, budget=Budget(steps=40, batch=32, held_out=128), seeds=1
    ),
    "laptop": Settings(
        points=(4, 8, 16),
        shapes=((1, 4), (4, 16), (8, 32)),
        dim=64,
        budget=Budget(steps=3000, batch=64, held_out=1024),
    ),
    "full": Settings(
        points=(8, 16, 32, 64),
        shapes=((1, 4), (1, 16), (4, 16), (8, 32), (16, 64)),
        dim=128,
        budget=Budget(steps=50_000, batch=128, lr=1e-3, held_out=4096),
    ),
}


def sweep(preset: str = "laptop", *, seeds: int | None = None) -> SweepSpec:
    """The runs of the figure."""
    settings = pick_preset(PRESETS, preset)
    runs = [
        token_run(
            MatchSpec(name=name, points=points),
            Shape(dim=settings.dim, layers=1, heads=heads, rank=rank),
            # Pairs are learned within an eighth of the training; triples keep all of it, they may start late.
            replace(settings.budget, patience=2) if name == "match2" else settings.budget,
            seed,
        )
        for name in ("match2", "match3")
        for points in settings.points
        for heads, rank in settings.shapes
        for seed in range(chosen_seeds(seeds, settings.seeds))
    ]
    return SweepSpec(name=f"match ({preset})", runs=tuple(runs))


def rows(runs: Sequence[TrainedRun]) -> list[ResultRow]:
    """One row a run; ``commoner`` is how often the commoner answer is wrong."""
    found = []
    for trained in runs:
        task = trained.run.task
        assert isinstance(task, MatchSpec)
        details = trained.details or {}
        yes = float(details["yes"])
        extra: dict[str, Value] = {"task": task.name, "modulus": task.modulo, "bits": float(details["bits"])}
        found.append(result_row("match", trained, extra | {"commoner": min(yes, 1 - yes)}))
    return found


def present(preset: str, rows: Sequence[ResultRow], stem: Path) -> Reproduced:
    """Figure, table and reading of the rows."""
    require_rows("match", preset, rows)
    means = mean_over_seeds(rows, lambda row: (str(row.extra["task"]), row.points, row.heads * row.rank, row.heads))
    figure = new_figure(9.5, 3.9)
    text = []
    for axes, task in zip(figure.subplots(1, 2, sharey=True), ("match2", "match3"), strict=True):
        series, best = [], []
        for points in sorted({row.points for row in rows if row.extra["task"] == task}):
            line = [mean for key, mean in means.items() if key[:2] == (task, points)]
            spread = [mean.spread for mean in line] if line[0].seeds > 1 else []
            x = [mean.row.heads * mean.row.rank for mean in line]
            series.append(Series(label=f"N = {points}", x=x, y=[mean.error for mean in line], spread=spread))
            winner = min(line, key=lambda mean: mean.error)
            chance = float(winner.row.extra["commoner"])
            best.append(f"N = {points}: {winner.error:.3f} +- {winner.spread:.3f} (commoner answer {chance:.3f})")
        draw_series(axes, series)
        draw_levels(axes, {"coin": 0.5})
        axes.set_xscale("log", base=2)
        axes.set_xlabel("heads x rank")
        axes.set_ylim(0, 0.55)
        axes.set_title(task, fontsize=10)
        axes.grid(True, color="0.92", linewidth=0.6)
        if series:
            axes.legend(fontsize=7)
            text.append(f"{task}: lowest share of wrong answers, {'; '.join(best)}.")
    figure.axes[0].set_ylabel("share of wrong answers")
    lines = [
        (task, points, mean.row.heads, mean.row.rank, mean.error, mean.spread, mean.seeds, mean.row.extra["commoner"])
        for (task, points, _, _), mean in means.items()
    ]
    return Reproduced(
        columns=("task", "points", "heads", "rank", "wrong", "standard error", "seeds", "commoner answer wrong"),
        rows=tuple(lines),
        reading="\n".join(text),
        files=save_figure(figure, stem),
    )
