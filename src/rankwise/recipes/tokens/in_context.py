"""In-context learning: error against the number of examples, with heads traded for rank and with heads added.

    rankwise reproduce in-context --preset laptop

Left, equal parameters: H heads of rank d / H, as in the opening experiment of the slides on the rank of attention (the
published in-context code with only the number of heads changed: fewer heads, lower error). Right, a fixed rank and more
heads. Beside them the learners of Garg et al. (2022) on prompts of the same law. The laptop preset has linear functions
in 5 dimensions without a curriculum (it starts where it would end: 5 dimensions, 11 examples); ``full`` has the
published curriculum, 20 dimensions and every function class.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import torch

from rankwise.recipes.cells import chosen_seeds
from rankwise.recipes.registry import Reproduced, pick_preset
from rankwise.recipes.rows import Mean, ResultRow, Value, mean_over_seeds, result_row
from rankwise.recipes.tokens.families import Family
from rankwise.recipes.tokens.runs import Budget, Shape, require_rows, token_run
from rankwise.recipes.trained import TrainedRun
from rankwise.report.figures import GUIDE, new_figure, save_figure
from rankwise.report.panels import Series, draw_series
from rankwise.spec import Curriculum, InContextSpec, RunSpec, SweepSpec
from rankwise.tasks.in_context import InContext
from rankwise.tasks.in_context_baselines import baselines_of

if TYPE_CHECKING:
    from matplotlib.axes import Axes

KEYS = ("function",)
_LINES = ("-", "--", ":", "-.", (0, (1, 4)))


@dataclass(frozen=True, kw_only=True)
class Settings:
    """``heads`` at rank dim / heads, and again at rank ``fixed_rank``, for every task."""

    tasks: tuple[InContextSpec, ...]
    dim: int
    layers: int
    heads: tuple[int, ...]
    fixed_rank: int
    budget: Budget
    seeds: int = 3
    prompts: int = 1024

    def shapes(self) -> list[tuple[str, Shape]]:
        """What each panel trains."""
        equal = [("equal parameters", heads, self.dim // heads) for heads in self.heads]
        fixed = [("fixed rank", heads, self.fixed_rank) for heads in self.heads]
        return [
            (panel, Shape(dim=self.dim, layers=self.layers, heads=heads, rank=rank))
            for panel, heads, rank in equal + fixed
        ]

    def family(self, heads: int, sizes: tuple[int, ...]) -> Family:
        """The first function learned by ``heads`` heads of each size."""
        shape = {"dim": self.dim, "layers": self.layers, "heads": heads}
        return Family(task=self.tasks[0], sizes=sizes, budget=self.budget, **shape)


_NEAREST = InContextSpec(
    function="nearest",
    dim=20,
    points=41,
    anchors=10,
    curriculum=Curriculum(dims_start=5, points_start=11, points_step=2),
)
PRESETS: dict[str, Settings] = {
    "smoke": Settings(
        tasks=(InContextSpec(function="linear", dim=2, points=5),),
        dim=16,
        layers=1,
        heads=(1, 4),
        fixed_rank=4,
        budget=Budget(steps=60, batch=32, held_out=128),
        seeds=1,
        prompts=64,
    ),
    "laptop": Settings(
        tasks=(InContextSpec(function="linear", dim=5, points=11),),
        dim=64,
        layers=3,
        heads=(1, 4, 16),
        fixed_rank=4,
        budget=Budget(steps=4000, batch=64, held_out=1024, weight_decay=0.0),
    ),
    "full": Settings(
        tasks=(
            InContextSpec.published("linear"),
            InContextSpec.published("sparse_linear"),
            InContextSpec.published("relu"),
            InContextSpec.published("tree"),
            _NEAREST,
        ),
        dim=256,
        layers=12,
        heads=(1, 2, 4, 8, 16, 32),
        fixed_rank=8,
        budget=Budget(steps=500_000, batch=64, lr=1e-3, held_out=1024, weight_decay=0.0),
        prompts=256,
    ),
}


def sweep(preset: str = "laptop", *, seeds: int | None = None) -> SweepSpec:
    """The runs of the figure; a shape that belongs to both panels is trained once."""
    settings = pick_preset(PRESETS, preset)
    runs: dict[str, RunSpec] = {}
    for task in settings.tasks:
        for _, shape in settings.shapes():
            for seed in range(chosen_seeds(seeds, settings.seeds)):
                run = token_run(task, shape, settings.budget, seed)
                runs.setdefault(run.id, run)
    return SweepSpec(name=f"in-context ({preset})", runs=tuple(runs.values()))


def rows(runs: Sequence[TrainedRun]) -> list[ResultRow]:
    """One row a run; ``after_K`` is its error after K examples."""
    found = []
    for trained in runs:
        task = trained.run.task
        assert isinstance(task, InContextSpec)
        by_examples = (trained.details or {}).get("by_examples", ())
        extra: dict[str, Value] = {"function": task.function, "examples": task.points - 1}
        extra |= {f"after_{count}": float(error) for count, error in enumerate(by_examples)}
        found.append(result_row("in-context", trained, extra))
    return found


def baseline_curves(task: InContextSpec, prompts: int) -> dict[str, list[float]]:
    """Error after 0, 1, ... examples of each baseline, means over fresh prompts, over the variance of f."""
    x, y = InContext(task).prompts(prompts, torch.Generator().manual_seed(0), dtype=torch.float64)
    return {
        name: ((predict(x, y) - y).square().mean(dim=0) / task.variance).tolist()
        for name, predict in baselines_of(task).items()
    }


def present(preset: str, rows: Sequence[ResultRow], stem: Path) -> Reproduced:
    """Figure, table and reading of the rows."""
    settings = pick_preset(PRESETS, preset)
    require_rows("in-context", preset, rows)
    figure = new_figure(9.5, 3.9 * len(settings.tasks))
    panels = figure.subplots(len(settings.tasks), 2, squeeze=False, sharey="row")
    lines: list[tuple[str | int | float | None, ...]] = []
    text = []
    for (left, right), task in zip(panels, settings.tasks, strict=True):
        own = [row for row in rows if row.extra["function"] == task.function]
        if not own:
            left.set_axis_off()
            right.set_axis_off()
            continue
        curves = baseline_curves(task, settings.prompts)
        for axes, panel in ((left, "equal parameters"), (right, "fixed rank")):
            wanted = [shape for name, shape in settings.shapes() if name == panel]
            _draw(axes, own, wanted, curves, f"{task.function}, {task.dim} dimensions: {panel}")
        left.set_ylabel("squared error / variance of f")
        for shape, mean in _means(own).items():
            last = _means(own, f"after_{task.points - 1}")[shape]
            last_spread = last.spread if last.seeds > 1 else None
            lines.append((task.function, *shape, mean.error, mean.spread, last.error, last_spread, mean.seeds))
        for name, curve in curves.items():
            lines.append((f"{task.function}: {name}", None, None, sum(curve) / len(curve), None, curve[-1], None, None))
        text += reading(own, settings, task, curves)
    return Reproduced(
        columns=("learner", "heads", "rank", "error", "standard error", "after all", "standard error ", "seeds"),
        rows=tuple(lines),
        reading="\n".join(text),
        files=save_figure(figure, stem),
    )


def reading(
    rows: Sequence[ResultRow], settings: Settings, task: InContextSpec, curves: dict[str, list[float]]
) -> list[str]:
    """Whether fewer heads help at equal parameters and more heads at equal rank; the best model beside baselines."""
    means = _means(rows)
    lines = []
    for panel in ("equal parameters", "fixed rank"):
        every = [(shape.heads, shape.rank) for name, shape in settings.shapes() if name == panel]
        shapes = [shape for shape in every if shape in means]
        told = ", ".join(f"H = {h}, r = {r}: {means[h, r].error:.3f} +- {means[h, r].spread:.3f}" for h, r in shapes)
        if len(shapes) < 2:
            if shapes:
                lines.append(f"{task.function}, {panel}: {told}; no other number of heads to compare with yet.")
            continue
        few, many = means[shapes[0]], means[shapes[-1]]
        difference, noise = many.error - few.error, (many.spread**2 + few.spread**2) ** 0.5
        winner = "fewer heads win" if difference > 0 else "more heads win"
        verdict = "no clear difference" if abs(difference) <= 2 * noise else winner
        lines.append(
            f"{task.function}, {panel}: {told}; H = {shapes[0][0]} against H = {shapes[-1][0]}: {verdict} "
            f"(+- one standard error; a difference needs two)."
        )
    best = min(means.values(), key=lambda mean: mean.error)
    beside = ", ".join(f"{name} {sum(curve) / len(curve):.3f}" for name, curve in curves.items())
    lines.append(f"Best: {best.error:.3f} (H = {best.row.heads}, r = {best.row.rank}), mean over the prompt; {beside}.")
    return lines


def _means(rows: Sequence[ResultRow], column: str | None = None) -> dict[tuple[int, int], Mean]:
    value = None if column is None else lambda row: float(row.extra[column])
    return mean_over_seeds(rows, lambda row: (row.heads, row.rank), value)


def _draw(
    axes: Axes, rows: Sequence[ResultRow], shapes: Sequence[Shape], curves: dict[str, list[float]], title: str
) -> None:
    counts = list(range(int(rows[0].extra["examples"]) + 1))
    series = []
    trained = _means(rows)
    for shape in (shape for shape in shapes if (shape.heads, shape.rank) in trained):
        means = [_means(rows, f"after_{count}")[shape.heads, shape.rank] for count in counts]
        spread = [mean.spread for mean in means] if means[0].seeds > 1 else []
        label = f"{shape.heads} head{'s' * (shape.heads > 1)} of rank {shape.rank}"
        series.append(Series(label=label, x=counts, y=[mean.error for mean in means], spread=spread))
    draw_series(axes, series)
    for line, (name, curve) in zip(_LINES, curves.items(), strict=False):
        axes.plot(counts, curve, color=GUIDE, linestyle=line, linewidth=1.0, label=name)
    axes.set_xlabel("examples in the prompt")
    axes.set_xticks(counts[:: -(-len(counts) // 12)])
    axes.set_title(title, fontsize=10)
    axes.set_ylim(0, 1.4)
    axes.grid(True, color="0.92", linewidth=0.6)
    axes.legend(fontsize=7)
