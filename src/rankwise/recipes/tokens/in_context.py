"""More heads or more rank? In-context learning at equal parameters: H heads of rank d / H.

    rankwise reproduce in-context

The opening experiment of the slides on the rank of attention: the published in-context code with only the number of
heads changed; fewer heads, lower error. Kuang, Amsel et al. (2025) see the error rise once the rank falls below the
dimension of the inputs, so the laptop preset has inputs of 10 dimensions and ranks from 64 to 1. Beside the models, two
learners that need no training, on prompts of the same law; least squares is exact after as many examples as there are
dimensions. ``full`` has the size and the curriculum of Garg et al. (2022), and more function classes.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean

from rankwise.recipes.curves import curve, heads_of, profile, ticked
from rankwise.recipes.points import Point, Value, compared, select
from rankwise.recipes.trained_figure import Settings, TrainedFigure
from rankwise.report import GUIDE, Panel, Picture, PlotAxis, Series, smooth
from rankwise.spec import InContextSpec, RunSpec
from rankwise.sweep import TrainedRun
from rankwise.tasks import baseline_curves
from rankwise.train import Budget, token_run

_BESIDE = 2  # the best learners without training are drawn
_CURVES = 4  # some shapes have a curve of their own


@dataclass(frozen=True, kw_only=True)
class Sizes(Settings):
    """``heads`` at rank dim / heads, for every task."""

    tasks: tuple[InContextSpec, ...]
    dim: int
    layers: int
    heads: tuple[int, ...]
    budget: Budget
    prompts: int = 1024
    """On which the learners without training are measured."""


class _InContext(TrainedFigure[Sizes]):
    """Some shapes against the examples (``after_K``), and all shapes against their rank; a row per function class."""

    name = "in-context"
    keys = ("function", "heads", "rank")
    tabled = ("error", "last")

    def runs(self, settings: Sizes) -> Iterable[RunSpec]:
        """Every number of heads on every function class."""
        shape = {"dim": settings.dim, "layers": settings.layers}
        for task in settings.tasks:
            for heads in settings.heads:
                yield token_run(task, settings.budget, **shape, heads=heads, rank=settings.dim // heads)

    def columns(self, run: RunSpec) -> Mapping[str, Value]:
        assert isinstance(run.task, InContextSpec)
        return {"function": run.task.function, "input_dim": run.task.dim, "examples": run.task.points - 1}

    def measured(self, trained: TrainedRun) -> Iterable[Mapping[str, Value]]:
        by_examples = [float(error) for error in trained.result["details"]["by_examples"]]
        yield {"last": by_examples[-1], **{f"after_{count}": error for count, error in enumerate(by_examples)}}

    def reading(self, settings: Sizes, points: Sequence[Point]) -> list[str]:
        """Few heads against many, ranks below the input dimension against others, and the learners beside them."""
        lines = []
        for task, own in _by_task(settings, points).items():
            high, low = ([p for p in own if (p["rank"] < task.dim) == below] for below in (False, True))
            if high and low:
                best, other = (min(some, key=lambda point: point.error) for some in (high, low))
                verdicts = ("Rank below the input dimension hurts", "Rank below it does not hurt")
                found = compared(best, other, *verdicts, heads_of)
                lines.append(f"{task.function}, the best rank of at least the input dimension and below it: {found}")
            if len(own) > 1:
                found = compared(own[0], own[-1], "Fewer heads win", "More heads win", heads_of)
                lines.append(f"{task.function}, {found}")
            beside = [f"{name} {fmean(line):.3g}" for name, line in _beside(task, settings).items()]
            lines.append(f"{task.function}, without training: {', '.join(beside)}. All are means over the prompt.")
        return lines

    def picture(self, settings: Sizes, points: Sequence[Point]) -> Picture:
        rows = [_row(settings, task, own) for task, own in _by_task(settings, points).items()]
        title = f"In-context learning at equal parameters: $H$ heads of rank {settings.dim}/$H$"
        return Picture(title=title, panels=rows, share_y=False, size=(4.8, 3.9))


def _row(settings: Sizes, task: InContextSpec, points: Sequence[Point]) -> list[Panel]:
    counts, beside = range(task.points), _beside(task, settings)
    after = [f"after_{count}" for count in counts]
    left = [profile(heads_of(point), point, after, counts) for point in _few(points)]
    for style, (name, line) in zip(("--", ":"), beside.items(), strict=False):
        left.append(Series(label=name, x=counts, y=line, style=smooth(GUIDE, style, 1.2)))
    right = [
        curve("mean over the prompt", points, x="rank"),
        curve("after the last example", points, x="rank", y="last"),
    ]
    error = PlotAxis(label="squared error / variance of f", low=0)
    examples = PlotAxis(label="examples in the prompt", ticks=counts[:: -(-task.points // 12)])
    name, best = next(iter(beside.items()))
    title = f"{task.function}, {task.dim} dimensions"
    return [
        Panel(title=title, x=examples, y=error, series=left, legend="upper right"),
        Panel(
            title=f"{title} (dotted: rank {task.dim})",
            x=ticked(points),
            y=error,
            series=right,
            guides={f"{name}, mean over the prompt": fmean(best)},
            verticals=[task.dim],
            legend="upper right",
        ),
    ]


def _few(points: Sequence[Point]) -> list[Point]:
    """At most four of the shapes, the first and the last among them."""
    most = min(_CURVES, len(points))
    return [points[round(step * (len(points) - 1) / max(1, most - 1))] for step in range(most)]


def _beside(task: InContextSpec, settings: Sizes) -> dict[str, list[float]]:
    return dict(list(baseline_curves(task, settings.prompts).items())[:_BESIDE])


def _by_task(settings: Sizes, points: Sequence[Point]) -> dict[InContextSpec, list[Point]]:
    found = {task: select(points, function=task.function) for task in settings.tasks}
    return {task: own for task, own in found.items() if own}


FIGURE = _InContext(
    smoke=Sizes(
        tasks=(InContextSpec(function="linear", dim=4, points=9),),
        dim=16,
        layers=1,
        heads=(1, 4, 16),
        budget=Budget(steps=60, batch=32, held_out=128),
        seeds=1,
        prompts=64,
    ),
    laptop=Sizes(
        tasks=(InContextSpec(function="linear", dim=10, points=21),),
        dim=64,
        layers=3,
        heads=(1, 2, 4, 8, 16, 32, 64),
        budget=Budget(steps=3000, batch=64, held_out=1024, weight_decay=0.0),
    ),
    full=Sizes(
        tasks=tuple(InContextSpec.published(function) for function in ("linear", "sparse_linear", "relu", "tree")),
        dim=256,
        layers=12,
        heads=(1, 2, 4, 8, 16, 32, 64),
        budget=Budget(steps=500_000, batch=64, lr=1e-3, held_out=1024, weight_decay=0.0),
        prompts=256,
    ),
)
