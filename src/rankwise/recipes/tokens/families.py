"""Families of runs that differ in one size of their heads, and how they are drawn."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from rankwise.recipes.registry import Reproduced
from rankwise.recipes.rows import Mean, ResultRow, mean_over_seeds
from rankwise.recipes.tokens.knees import Knee, find_knee
from rankwise.recipes.tokens.runs import TIMES, Budget, Shape, lower_is_better, require_rows, token_run
from rankwise.report.figures import COLOURS, GUIDE, label_level, new_figure, ramp, save_figure
from rankwise.report.panels import Series, draw_levels, draw_series
from rankwise.spec import AnyTaskSpec, RunSpec
from rankwise.theory.occupancy import hardmax_rank_mean

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

PERFORMANCE = {"text": "bits per byte", "images": "accuracy", "in_context": "squared error / variance"}
LEVELS = ("unigram", "bigram", "logistic")
DRAWN = ("bigram", "logistic")  # single bytes lie so far off that they would flatten the curve
_SHOWN = {"hardmax": "hardmax", "effective": "effective", "above_0.01": "above 1 % of the largest"}


@dataclass(frozen=True, kw_only=True)
class Family:
    """``sizes`` of ``rank``, or with ``latent`` (the fixed rank) of ``kv_lora_rank``; everything else stays."""

    task: AnyTaskSpec
    dim: int
    layers: int
    heads: int
    sizes: tuple[int, ...]
    budget: Budget
    latent: int | None = None

    def runs(self, seeds: int) -> list[RunSpec]:
        """Every size with every seed."""
        fixed = {"dim": self.dim, "layers": self.layers, "heads": self.heads}
        shapes = [
            Shape(**fixed, rank=size) if self.latent is None else Shape(**fixed, rank=self.latent, kv_lora_rank=size)
            for size in self.sizes
        ]
        return [token_run(self.task, shape, self.budget, seed) for shape in shapes for seed in range(seeds)]


@dataclass(frozen=True, kw_only=True)
class Curves:
    """The rows of one family."""

    rows: tuple[ResultRow, ...]

    @property
    def first(self) -> ResultRow:
        """A row that stands for what all have in common."""
        return self.rows[0]

    @property
    def latent(self) -> bool:
        """Whether the latent's dimension is what varies."""
        return self.first.extra["attention"] == "latent"

    @property
    def task(self) -> str:
        """The name of the task."""
        return str(self.first.extra["task"])

    @property
    def lower_is_better(self) -> bool:
        """Whether performance counts errors."""
        return lower_is_better(self.task)

    @property
    def name(self) -> str:
        """What a reader calls it."""
        row = self.first
        kind = f"MLA, head dim {row.rank}" if self.latent else "ordinary attention"
        return f"{self.task}, {kind}: d = {row.dim}, layers = {row.layers}, heads = {row.heads}, n = {row.points}"

    def size(self, row: ResultRow) -> int:
        """What varies."""
        return int(row.extra["kv_lora_rank"]) if self.latent else row.rank

    def sizes(self) -> list[int]:
        """Every size."""
        return sorted({self.size(row) for row in self.rows})

    def by_seed(self, column: str) -> dict[int, list[float]]:
        """``column`` by size, one value a seed."""
        ordered = sorted(self.rows, key=lambda row: row.seed)
        return {size: [float(row.extra[column]) for row in ordered if self.size(row) == size] for size in self.sizes()}

    def means(self, column: str) -> dict[int, Mean]:
        """``column`` by size, mean over seeds."""
        means = mean_over_seeds(self.rows, lambda row: (self.size(row),), lambda row: float(row.extra[column]))
        return {size: mean for (size,), mean in means.items()}

    def series(self, column: str, label: str, **style: object) -> Series:
        """Mean over seeds and its standard error against the size."""
        means = self.means(column)
        spread = [mean.spread for mean in means.values()] if all(mean.seeds > 1 for mean in means.values()) else []
        y = [mean.error for mean in means.values()]
        return Series(label=label, x=self.sizes(), y=y, spread=spread, style=dict(style))

    def shared_sizes(self) -> list[int]:
        """The sizes that every seed has been trained at: only these compare, and while a store is trained some lag."""
        seeds = {row.seed for row in self.rows}
        return [size for size in self.sizes() if {row.seed for row in self.rows if self.size(row) == size} == seeds]

    def knee(self, column: str) -> Knee | None:
        """Of performance, or of a rank (where more is better); None where fewer than two sizes have every seed."""
        shared, curve = self.shared_sizes(), self.by_seed(column)
        if len(shared) < 2:
            return None
        lower = column == "performance" and self.lower_is_better
        return find_knee({size: curve[size] for size in shared}, lower_is_better=lower)

    @property
    def random_rank(self) -> float:
        """The mean hardmax rank over n of heads with independent random scores under this task's mask."""
        causal = self.task in ("text", "in_context")
        return hardmax_rank_mean(self.first.points, "causal" if causal else "full") / self.first.points


def families_of(rows: Sequence[ResultRow]) -> list[Curves]:
    """The rows sorted into families."""
    found: dict[tuple[object, ...], list[ResultRow]] = {}
    for row in rows:
        fixed_rank = row.rank if row.extra["attention"] == "latent" else 0
        kind = (row.extra["task"], row.extra["data"], row.extra["attention"])
        key = (*kind, row.dim, row.layers, row.heads, row.points, fixed_rank)
        found.setdefault(key, []).append(row)
    return [Curves(rows=tuple(group)) for group in found.values()]


def table_of(families: Sequence[Curves]) -> tuple[tuple[str, ...], tuple[tuple[str | int | float | None, ...], ...]]:
    """Columns and rows for a terminal: every size of every family."""
    columns = (
        *("task", "attention", "dim", "layers", "heads", "n", "size", "performance", "standard error", "seeds"),
        *("hardmax/n start", "hardmax/n end", "effective/n end", "parameters"),
    )
    lines: list[tuple[str | int | float | None, ...]] = []
    for curves in families:
        ranks = [curves.means(name) for name in ("hardmax_start", "hardmax_end", "effective_end")]
        for size, mean in curves.means("performance").items():
            row = mean.row
            shape = (curves.task, str(row.extra["attention"]), row.dim, row.layers, row.heads, row.points, size)
            measured = (rank[size].error for rank in ranks)
            lines.append((*shape, mean.error, mean.spread, mean.seeds, *measured, row.parameters))
    return columns, tuple(lines)


def reading(curves: Curves) -> list[str]:
    """The knees of one family, and whether they agree; levels of the predictors without attention."""
    lines = [f"{curves.name}: {_knees(curves)}."]
    levels = {name: float(curves.first.extra[name]) for name in LEVELS if name in curves.first.extra}
    if levels:
        values = [float(row.extra["performance"]) for row in curves.rows]
        best, worst = (min(values), max(values)) if curves.lower_is_better else (max(values), min(values))
        named = ", ".join(f"{name} {value:.3f}" for name, value in levels.items())
        lines.append(
            f"Best run {best:.3f}, worst run {worst:.3f} {PERFORMANCE[curves.task]}; without attention: {named}."
        )
    return lines


def _knees(curves: Curves) -> str:
    what = "kv_lora_rank" if curves.latent else "head_dim"
    performance = curves.knee("performance")
    if performance is None:
        return f"no knees yet, which take two sizes of {what} with every seed"
    told = []
    for when, column in (("after training", "hardmax_end"), ("at the start", "hardmax_start")):
        if (knee := curves.knee(column)) is not None:
            told.append(f"{knee} {when} ({'agrees' if performance.agrees_with(knee) else 'does not agree'})")
    late = [str(size) for size in curves.sizes() if size not in curves.shared_sizes()]
    return (
        f"performance is within 2 % of its best from {what} {performance}; hardmax rank from {' and from '.join(told)}"
        + f"; {', '.join(late)} left out, for want of seeds" * bool(late)
    )


def present_families(figure: str, preset: str, rows: Sequence[ResultRow], stem: Path) -> Reproduced:
    """Table and reading of all families of ``rows``, and a figure of the first."""
    require_rows(figure, preset, rows)
    families = families_of(rows)
    columns, lines = table_of(families)
    drawn = draw_family(families[0], families[0].name)
    text = "\n".join(line for curves in families for line in reading(curves))
    return Reproduced(columns=columns, rows=lines, reading=text, files=save_figure(drawn, stem))


def draw_family(curves: Curves, title: str) -> Figure:
    """Three panels: performance, ranks at start and end, and hardmax rank through training, one line a size."""
    figure = new_figure(13.5, 4.0)
    performance, ranks, during = figure.subplots(1, 3)
    draw_series(performance, [curves.series("performance", PERFORMANCE[curves.task])])
    draw_levels(performance, {name: float(curves.first.extra[name]) for name in DRAWN if name in curves.first.extra})
    performance.set_ylabel(PERFORMANCE[curves.task])
    series = []
    for colour, (name, label) in zip(COLOURS, _SHOWN.items(), strict=False):
        series.append(curves.series(f"{name}_end", f"{label}, trained", color=colour))
        series.append(
            curves.series(f"{name}_start", f"{label}, at the start", color=colour, linestyle=":", fillstyle="none")
        )
    draw_series(ranks, series)
    label_level(ranks, curves.random_rank, "random hardmax heads")
    ranks.set_ylabel("attention rank / n, mean over heads")
    ranks.set_ylim(0, 1.02)
    ranks.legend(fontsize=6.5)
    for axes in (performance, ranks):
        size_axes(axes, curves)
    _draw_during(during, curves)
    figure.suptitle(title, fontsize=11)
    return figure


def _draw_during(axes: Axes, curves: Curves) -> None:
    sizes = curves.sizes()
    series = []
    for colour, size in zip(ramp(len(sizes)), sizes, strict=True):
        times = [time for time in TIMES if f"hardmax_{time}" in curves.first.extra]
        y = [sum(values := curves.by_seed(f"hardmax_{time}")[size]) / len(values) for time in times]
        x = [TIMES.index(time) / 4 for time in times]
        series.append(Series(label=f"{size}", x=x, y=y, style={"color": colour, "marker": "."}))
    draw_series(axes, series)
    axes.axhline(curves.random_rank, color=GUIDE, linewidth=0.8, linestyle="--", label="random")
    axes.set_xlabel("share of the training")
    axes.set_ylabel("hardmax rank / n, mean over heads")
    axes.set_ylim(0, 1.02)
    axes.legend(title="head dim" if not curves.latent else "kv_lora_rank", fontsize=6.5, title_fontsize=7, ncols=2)


def size_axes(axes: Axes, curves: Curves) -> None:
    """Sizes on a logarithmic axis, a tick at each."""
    sizes = curves.sizes()
    axes.set_xscale("log", base=2)
    axes.set_xticks(sizes, [str(size) for size in sizes])
    axes.minorticks_off()
    axes.set_xlabel("kv_lora_rank" if curves.latent else "head dim")
    axes.grid(True, color="0.92", linewidth=0.6)
