"""Families of runs that differ in one size of their heads, and how they are drawn."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from rankwise.measure import Knee, find_knee
from rankwise.recipes.curves import counted, curve, ticked
from rankwise.recipes.points import Point, Value
from rankwise.recipes.tokens.runs import TIMES, TokenFigure
from rankwise.recipes.trained_figure import S, Settings
from rankwise.report import COLOURS, Panel, Picture, PlotAxis, Series, ramp
from rankwise.spec import RunSpec, TaskSpec
from rankwise.theory import hardmax_rank_mean
from rankwise.train import Budget, token_run

_LEVELS = ("unigram", "bigram", "logistic")
_DRAWN = ("bigram", "logistic")  # single bytes lie so far off that they would flatten the curve
_SHOWN = {"hardmax": "hardmax", "effective": "effective", "above_0.01": "above 1 % of the largest"}


@dataclass(frozen=True, kw_only=True)
class Family(Settings):
    """``sizes`` of the head dimension; everything else stays."""

    task: Callable[[str | None], TaskSpec]
    """The task on the user's own data, if any, which it reads and checks."""
    model: Mapping[str, int]
    """``dim``, ``layers`` and ``heads``."""
    sizes: tuple[int, ...]
    budget: Budget

    def runs(self, data: str | None) -> list[RunSpec]:
        """Every size."""
        task = self.task(data)
        return [token_run(task, self.budget, **self.model, rank=size) for size in self.sizes]


class FamilyFigure(TokenFigure[S]):
    """A figure of families: column ``family`` names each, ``size`` is what varies in it."""

    tabled: ClassVar[tuple[str, ...]] = ("performance", "hardmax_start", "hardmax_end", "effective_end")

    def columns(self, run: RunSpec) -> Mapping[str, Value]:
        """The family and the size besides."""
        model = run.model
        shape = f"d = {model.dim}, {counted(model.layers, 'layer')}, {counted(model.heads, 'head')}"
        name = f"{run.task.name}, ordinary attention: {shape}, n = {run.task.tokens}"
        return {**super().columns(run), "family": name, "size": model.rank}


class OneFamilyFigure(FamilyFigure[Family]):
    """One family: performance, ranks before and after training, and hardmax rank through training."""

    keys = ("data", "rank")

    def runs(self, settings: Family, *, data: str | None = None) -> Iterable[RunSpec]:
        """Every head dimension."""
        return settings.runs(data)

    def reading(self, settings: Family, points: Sequence[Point]) -> list[str]:
        """Where performance and rank stop growing, and what is reached without attention."""
        told, unit = [], task_of(points).performance
        if len(points) > 1:
            best = knee_of(points, "performance")
            told.append(f"Performance is within 2 % of its best from head dim {best} on.")
            for when, column in (("after", "hardmax_end"), ("before", "hardmax_start")):
                knee = knee_of(points, column)
                found = "overlap" if best.agrees_with(knee) else "do not overlap"
                within = f"The hardmax rank {when} training is within 2 % of its largest from head dim {knee} on"
                told.append(f"{within}; the two ranges over seeds {found}.")
        values = [value for point in points for value in point.values("performance")]
        worst, best_run = sorted((min(values), max(values)), reverse=task_of(points).lower_is_better)
        told.append(f"The best run has {best_run:.3f} {unit}, the worst {worst:.3f}.")
        levels = ", ".join(f"{name} {value:.3f}" for name, value in drawn_levels(points, _LEVELS).items())
        return [*told, f"Without attention: {levels}."] if levels else told

    def picture(self, settings: Family, points: Sequence[Point]) -> Picture:
        unit, size = task_of(points).performance, ticked(points, "size", "head dim")
        performance = Panel(
            title="performance",
            x=size,
            y=PlotAxis(label=unit),
            series=[curve(unit, points, x="size", y="performance")],
            levels=drawn_levels(points),
        )
        ranks = []
        for colour, (name, label) in zip(COLOURS, _SHOWN.items(), strict=False):
            before: dict[str, Any] = {"color": colour, "linestyle": ":", "fillstyle": "none"}
            ranks.append(curve(f"{label}, trained", points, x="size", y=f"{name}_end", color=colour))
            ranks.append(curve(f"{label}, before training", points, x="size", y=f"{name}_start", **before))
        times, few = [f"hardmax_{time}" for time in TIMES], points if len(points) <= 6 else points[::2]
        shares = [index / (len(TIMES) - 1) for index in range(len(TIMES))]
        during = []
        for colour, point in zip(ramp(len(few)), few, strict=True):
            y, style = [point.mean(time) for time in times], {"color": colour, "marker": "."}
            during.append(Series(label=str(point["size"]), x=shares, y=y, style=style))
        rank, n = PlotAxis(label="attention rank / n, mean over heads", low=0, high=1.02), points[0]["points"]
        random = {"random hardmax heads": hardmax_rank_mean(n, points[0]["mask"]) / n}  # independent random scores
        after = Panel(title="attention rank", x=size, y=rank, series=ranks, guides=random, legend="best")
        through = Panel(
            title="hardmax rank during training",
            x=PlotAxis(label="share of the training"),
            y=rank,
            series=during,
            guides=random,
            legend="best",
            legend_title="head dim",
            legend_columns=2,
        )
        panels = [[performance, after, through]]
        return Picture(title=points[0]["family"], panels=panels, share_y=False, size=(4.5, 4.0))


def task_of(points: Sequence[Point]) -> type[TaskSpec]:
    """The kind of task that all have."""
    name = points[0]["task"]
    return TaskSpec.by_name(name)[name]


def knee_of(points: Sequence[Point], column: str) -> Knee:
    """Of performance, or of a rank (where more is better), in one family."""
    lower = column == "performance" and task_of(points).lower_is_better
    values = {int(point["size"]): point.values(column) for point in points}
    return find_knee(values, lower_is_better=lower)


def drawn_levels(points: Sequence[Point], names: Sequence[str] = _DRAWN) -> dict[str, float]:
    """What is reached without attention."""
    return {name: float(points[0][name]) for name in names if name in points[0]}
