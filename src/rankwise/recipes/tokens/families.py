"""Families of runs that differ in one size of their heads, and how they are drawn."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from rankwise.measure.knee import Knee, find_knee
from rankwise.recipes.cells import counted
from rankwise.recipes.curves import curve
from rankwise.recipes.rows import Point, Value, lines_of
from rankwise.recipes.tokens.runs import TIMES, Budget, TokenFigure, token_run
from rankwise.recipes.trained_figure import S, Settings
from rankwise.report.figures import COLOURS, GUIDE, new_figure, ramp
from rankwise.report.panels import Series, draw_levels, draw_series
from rankwise.spec import RunSpec, TaskSpec
from rankwise.theory.occupancy import hardmax_rank_mean

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_LEVELS = ("unigram", "bigram", "logistic")
_DRAWN = ("bigram", "logistic")  # single bytes lie so far off that they would flatten the curve
_SHOWN = {"hardmax": "hardmax", "effective": "effective", "above_0.01": "above 1 % of the largest"}


@dataclass(frozen=True, kw_only=True)
class Family(Settings):
    """``sizes`` of ``rank``, or with ``latent`` (the fixed rank) of ``kv_lora_rank``; everything else stays."""

    task: Callable[[str | None], TaskSpec]
    """The task on the user's own data, if any, which it reads and checks."""
    dim: int
    layers: int
    heads: int
    sizes: tuple[int, ...]
    budget: Budget
    latent: int | None = None

    def runs(self, data: str | None) -> list[RunSpec]:
        """Every size."""
        task, shape = self.task(data), {"dim": self.dim, "layers": self.layers, "heads": self.heads}
        if self.latent is None:
            return [token_run(task, self.budget, **shape, rank=size) for size in self.sizes]
        return [token_run(task, self.budget, **shape, rank=self.latent, kv_lora_rank=size) for size in self.sizes]


class FamiliesFigure(TokenFigure[S]):
    """A figure of one or more families: column ``family`` names each, ``size`` is what varies in it."""

    tabled = ("performance", "hardmax_start", "hardmax_end", "effective_end")

    def columns(self, run: RunSpec) -> Mapping[str, Value]:
        """The family and the size besides."""
        model, latent = run.model, run.model.kv_lora_rank
        kind = "ordinary attention" if latent is None else f"MLA of head dim {model.rank}"
        shape = f"d = {model.dim}, {counted(model.layers, 'layer')}, {counted(model.heads, 'head')}"
        name = f"{run.task.name}, {kind}: {shape}, n = {run.task.tokens}"
        return {**super().columns(run), "family": name, "size": latent or model.rank}

    def reading(self, settings: S, points: Sequence[Point]) -> list[str]:
        """For every family: where performance and rank stop growing, and what is reached without attention."""
        lines = []
        for name, line in lines_of(points, "family").items():
            lines.append(" ".join([f"{name}.", *_knees(line), *_reached(line)]))
        return lines


class FamilyFigure(FamiliesFigure[Family]):
    """One family: performance and ranks against the head dimension."""

    keys = ("data", "rank")

    def runs(self, settings: Family, *, data: str | None = None) -> Iterable[RunSpec]:
        """Every head dimension."""
        return settings.runs(data)

    def draw(self, settings: Family, points: Sequence[Point]) -> Figure:
        """Three panels: performance, ranks before and after training, and hardmax rank through training."""
        figure = new_figure(13.5, 4.0)
        performance, ranks, during = figure.subplots(1, 3)
        unit = task_of(points).performance
        draw_series(performance, [curve(unit, points, x="size", y="performance")])
        draw_levels(performance, drawn_levels(points))
        performance.set_ylabel(unit)
        _draw_ranks(ranks, points)
        for axes in (performance, ranks):
            size_axes(axes, points, size_name(points))
        _draw_during(during, points)
        figure.suptitle(str(points[0].get("family")), fontsize=11)
        return figure


def task_of(points: Sequence[Point]) -> type[TaskSpec]:
    """The kind of task that all have."""
    name = str(points[0].get("task"))
    return TaskSpec.by_name(name)[name]


def size_name(points: Sequence[Point]) -> str:
    """What varies in a family."""
    return "kv_lora_rank" if points[0].get("attention") == "latent" else "head dim"


def draw_random(axes: Axes, points: Sequence[Point], label: str = "random hardmax heads") -> None:
    """The mean hardmax rank over n of heads with independent random scores under this task's mask."""
    tokens, mask = points[0].row.points, str(points[0].get("mask"))
    height = hardmax_rank_mean(tokens, mask) / tokens
    axes.axhline(height, color=GUIDE, linewidth=0.8, linestyle="--", label=label)


def knee_of(points: Sequence[Point], column: str) -> Knee:
    """Of performance, or of a rank (where more is better), in one family."""
    lower = column == "performance" and task_of(points).lower_is_better
    values = {int(point.get("size")): [float(row.get(column)) for row in point.rows] for point in points}
    return find_knee(values, lower_is_better=lower)


def drawn_levels(points: Sequence[Point], names: Sequence[str] = _DRAWN) -> dict[str, float]:
    """What is reached without attention."""
    return {name: float(points[0].get(name)) for name in names if name in points[0].row.extra}


def _knees(points: Sequence[Point]) -> list[str]:
    if len(points) < 2:
        return []
    best = knee_of(points, "performance")
    told = [f"Performance is within 2 % of its best from {size_name(points)} {best} on."]
    for when, column in (("after training", "hardmax_end"), ("before training", "hardmax_start")):
        knee = knee_of(points, column)
        verdict = "agrees" if best.agrees_with(knee) else "does not agree"
        told.append(f"For the hardmax rank {when} it is {knee}, which {verdict}.")
    return told


def _reached(points: Sequence[Point]) -> list[str]:
    values = [float(row.get("performance")) for point in points for row in point.rows]
    worst, best = sorted((min(values), max(values)), reverse=task_of(points).lower_is_better)
    told = [f"The best run has {best:.3f} {task_of(points).performance}, the worst {worst:.3f}."]
    levels = ", ".join(f"{name} {value:.3f}" for name, value in drawn_levels(points, _LEVELS).items())
    return [*told, f"Without attention: {levels}."] if levels else told


def _draw_ranks(axes: Axes, points: Sequence[Point]) -> None:
    series = []
    for colour, (name, label) in zip(COLOURS, _SHOWN.items(), strict=False):
        before: dict[str, Any] = {"color": colour, "linestyle": ":", "fillstyle": "none"}
        series.append(curve(f"{label}, trained", points, x="size", y=f"{name}_end", color=colour))
        series.append(curve(f"{label}, before training", points, x="size", y=f"{name}_start", **before))
    draw_series(axes, series)
    draw_random(axes, points)
    axes.set_ylabel("attention rank / n, mean over heads")
    axes.set_ylim(0, 1.02)
    axes.legend(fontsize=6.5)


def _draw_during(axes: Axes, points: Sequence[Point]) -> None:
    series = []
    for colour, point in zip(ramp(len(points)), points, strict=True):
        shares = [index / (len(TIMES) - 1) for index in range(len(TIMES))]
        ranks = [point.mean(f"hardmax_{time}") for time in TIMES]
        style = {"color": colour, "marker": "."}
        series.append(Series(label=str(point.get("size")), x=shares, y=ranks, style=style))
    draw_series(axes, series)
    draw_random(axes, points, "random")
    axes.set_xlabel("share of the training")
    axes.set_ylabel("hardmax rank / n, mean over heads")
    axes.set_ylim(0, 1.02)
    axes.legend(title=size_name(points), fontsize=6.5, title_fontsize=7, ncols=2)


def size_axes(axes: Axes, points: Sequence[Point], name: str) -> None:
    """A logarithmic axis with a tick at every size."""
    sizes = sorted({int(point.get("size")) for point in points})
    axes.set_xscale("log", base=2)
    axes.set_xticks(sizes, [str(size) for size in sizes])
    axes.minorticks_off()
    axes.set_xlabel(name)
