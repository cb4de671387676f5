"""In-context learning: error against the number of examples, with heads traded for rank and with heads added.

    rankwise reproduce in-context

Left, equal parameters: H heads of rank d / H, as in the opening experiment of the slides on the rank of attention (the
published in-context code with only the number of heads changed: fewer heads, lower error). Right, a fixed rank and more
heads. Beside them the learners of Garg et al. (2022) on prompts of the same law. The laptop preset has linear functions
in 5 dimensions without a curriculum (it starts where it would end: 5 dimensions, 11 examples); ``full`` has the
published curriculum, 20 dimensions and every function class.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache

import torch

from rankwise.recipes.cells import counted
from rankwise.recipes.marks import Value, select
from rankwise.recipes.rows import Point
from rankwise.recipes.tokens.families import Family
from rankwise.recipes.tokens.runs import Budget, token_run, verdict
from rankwise.recipes.trained_figure import Settings, TrainedFigure
from rankwise.report.figures import GUIDE
from rankwise.report.panels import Axis, Panel, Picture, Series, smooth
from rankwise.spec import Curriculum, InContextSpec, RunSpec
from rankwise.sweep.trained import TrainedRun
from rankwise.tasks.in_context import InContext
from rankwise.tasks.in_context_baselines import baselines_of

_LINES = ("-", "--", ":", "-.", (0, (1, 4)))


@dataclass(frozen=True, kw_only=True)
class Sizes(Settings):
    """``heads`` at rank dim / heads, and again at rank ``fixed_rank``, for every task."""

    tasks: tuple[InContextSpec, ...]
    dim: int
    layers: int
    heads: tuple[int, ...]
    fixed_rank: int
    budget: Budget
    prompts: int = 1024

    def panels(self) -> dict[str, list[tuple[int, int]]]:
        """The heads and ranks that each panel shows."""
        return {
            "equal parameters": [(heads, self.dim // heads) for heads in self.heads],
            "fixed rank": [(heads, self.fixed_rank) for heads in self.heads],
        }

    def family(self, heads: int, sizes: tuple[int, ...]) -> Family:
        """The first function learned by ``heads`` heads of each size."""
        shape = {"dim": self.dim, "layers": self.layers, "heads": heads}
        return Family(task=lambda _: self.tasks[0], sizes=sizes, budget=self.budget, **shape)


_CURRICULUM = Curriculum(dims_start=5, points_start=11, points_step=2)
_NEAREST = InContextSpec(function="nearest", dim=20, points=41, anchors=10, curriculum=_CURRICULUM)
PRESETS = {
    "smoke": Sizes(
        tasks=(InContextSpec(function="linear", dim=2, points=5),),
        dim=16,
        layers=1,
        heads=(1, 4),
        fixed_rank=4,
        budget=Budget(steps=60, batch=32, held_out=128),
        seeds=1,
        prompts=64,
    ),
    "laptop": Sizes(
        tasks=(InContextSpec(function="linear", dim=5, points=11),),
        dim=64,
        layers=3,
        heads=(1, 4, 16),
        fixed_rank=4,
        budget=Budget(steps=4000, batch=64, held_out=1024, weight_decay=0.0),
    ),
    "full": Sizes(
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


class _InContextLearning(TrainedFigure[Sizes]):
    """Error against examples, heads traded for rank beside heads added."""

    name = "in-context"
    presets = PRESETS
    keys = ("function", "heads", "rank")

    def runs(self, settings: Sizes) -> Iterable[RunSpec]:
        """A shape that belongs to both panels is trained once."""
        shape = {"dim": settings.dim, "layers": settings.layers}
        for task in settings.tasks:
            for shapes in settings.panels().values():
                for heads, rank in shapes:
                    yield token_run(task, settings.budget, **shape, heads=heads, rank=rank)

    def columns(self, run: RunSpec) -> Mapping[str, Value]:
        """The function class, and how many examples a prompt has."""
        assert isinstance(run.task, InContextSpec)
        return {"function": run.task.function, "examples": run.task.points - 1}

    def measured(self, trained: TrainedRun) -> Iterable[Mapping[str, Value]]:
        """``after_K`` is the error after K examples."""
        by_examples = trained.result["details"]["by_examples"]
        yield {f"after_{count}": float(error) for count, error in enumerate(by_examples)}

    def picture(self, settings: Sizes, marks: Sequence[Point]) -> Picture:
        """One row per function."""
        rows = [
            [_panel(settings, task, name, _chosen(own, shapes)) for name, shapes in settings.panels().items()]
            for task, own in _by_task(settings, marks).items()
        ]
        return Picture(title="In-context learning: heads traded for rank, and heads added", panels=rows, share_y="row")

    def reading(self, settings: Sizes, marks: Sequence[Point]) -> list[str]:
        """Whether fewer heads help at equal parameters and more heads at equal rank; the best beside baselines."""
        lines = []
        for task, own in _by_task(settings, marks).items():
            for panel, shapes in settings.panels().items():
                chosen = _chosen(own, shapes)
                if len(chosen) > 1:
                    found = verdict(chosen[0], chosen[-1], "Fewer heads win", "More heads win")
                    lines.append(f"{task.function}, {panel}: {_reached(chosen[0])}, {_reached(chosen[-1])}. {found}")
            best = min(own, key=lambda point: point.error)
            curves = baseline_curves(task, settings.prompts).items()
            beside = ", ".join(f"{name} {sum(curve) / len(curve):.3f}" for name, curve in curves)
            lines.append(f"{task.function}: the best is {_reached(best)}, mean over the prompt. Beside it: {beside}.")
        return lines


@lru_cache(maxsize=16)
def baseline_curves(task: InContextSpec, prompts: int) -> dict[str, list[float]]:
    """Error after 0, 1, ... examples of each baseline, means over fresh prompts, over the variance of f."""
    x, y = InContext(task).prompts(prompts, torch.Generator().manual_seed(0), dtype=torch.float64)
    return {
        name: ((predict(x, y) - y).square().mean(dim=0) / task.variance).tolist()
        for name, predict in baselines_of(task).items()
    }


def _by_task(settings: Sizes, points: Sequence[Point]) -> dict[InContextSpec, list[Point]]:
    found = {task: select(points, function=task.function) for task in settings.tasks}
    return {task: own for task, own in found.items() if own}


def _chosen(points: Sequence[Point], shapes: Sequence[tuple[int, int]]) -> list[Point]:
    return [point for point in points if (point.row.heads, point.row.rank) in shapes]


def _shape(point: Point) -> str:
    return f"{counted(point.row.heads, 'head')} of rank {point.row.rank}"


def _reached(point: Point) -> str:
    return f"{point.error:.3f} ± {point.spread():.3f} with {_shape(point)}"


def _panel(settings: Sizes, task: InContextSpec, name: str, points: Sequence[Point]) -> Panel:
    counts = range(task.points)
    after = [f"after_{count}" for count in counts]
    series = [
        Series(label=_shape(point), x=counts, y=list(map(point.mean, after)), spread=list(map(point.spread, after)))
        for point in points
    ]
    for style, (label, line) in zip(_LINES, baseline_curves(task, settings.prompts).items(), strict=False):
        series.append(Series(label=label, x=counts, y=line, style={**smooth(GUIDE, "-", 1.0), "linestyle": style}))
    return Panel(
        title=f"{task.function}, {task.dim} dimensions: {name}",
        x=Axis(label="examples in the prompt", ticks=counts[:: -(-task.points // 12)]),
        y=Axis(label="squared error / variance of f", low=0, high=1.4),
        series=series,
        legend="best",
    )


FIGURE = _InContextLearning()
