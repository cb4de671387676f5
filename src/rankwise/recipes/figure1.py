"""Figure 1: rank against error, for three budgets of heads and several depths.

    rankwise reproduce figure1 --preset laptop        (about 7 minutes on 2 quiet cores; smoke: under 1)

Farthest neighbour among N points; H = d^c / r heads of rank r, so that every point of a curve (c = 1, 1.5, 2) has the
same number of attention parameters. What the paper shows, and what to expect here: with one layer only full rank
works, however many heads; with three layers low rank gets better. At preset "demo" (one seed): full rank .016 to .017
with one layer and .025 to .034 with three; half rank .577, .416, .354 (c = 1, 1.5, 2) with one and .428, .311, .266
with three.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from rankwise.errors import require_choice
from rankwise.recipes.baselines import trivial_errors
from rankwise.recipes.registry import Reproduced
from rankwise.recipes.trained import TrainedRun, write_csv
from rankwise.report.figures import new_figure, save_figure
from rankwise.report.panels import Series, draw_levels, draw_series, rank_axes
from rankwise.spec import RunSpec, SweepSpec, heads_for_budget
from rankwise.train.protocols import PAPER_SEQUENCES, Cell, capacity, paper

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

EXPONENTS = (1.0, 1.5, 2.0)
_PROTOCOLS: dict[str, Callable[[Cell], RunSpec]] = {"capacity": capacity, "paper": paper}


@dataclass(frozen=True, kw_only=True)
class Settings:
    """The sizes of a preset; ``sequences`` is the budget of a run by its number of layers."""

    dim: int
    points: int
    ranks: tuple[int, ...]
    sequences: dict[int, int]
    exponents: tuple[float, ...] = EXPONENTS
    seeds: tuple[int, ...] = (0,)


PRESETS: dict[str, Settings] = {
    "smoke": Settings(dim=16, points=8, ranks=(8, 16), exponents=(1.0, 1.5), sequences={1: 64_000, 3: 64_000}),
    "demo": Settings(dim=16, points=8, ranks=(4, 8, 16), sequences={1: 64_000, 3: 64_000}),
    "laptop": Settings(dim=16, points=8, ranks=(2, 4, 8, 16), sequences={1: 96_000, 3: 128_000}),
    "paper": Settings(
        dim=64,
        points=16,
        ranks=(1, 2, 4, 8, 16, 32, 64),
        sequences={1: PAPER_SEQUENCES // 20, 3: PAPER_SEQUENCES // 20, 5: PAPER_SEQUENCES // 20},
    ),
}


def sweep(preset: str = "laptop", protocol: str = "capacity") -> SweepSpec:
    """The runs of the figure. ``protocol`` "paper" spends the paper's full 25.6 million sequences at preset "paper"."""
    require_choice("preset", preset, tuple(PRESETS))
    require_choice("protocol", protocol, tuple(_PROTOCOLS))
    grid = PRESETS[preset]
    runs = []
    for layers, sequences in grid.sequences.items():
        for exponent in grid.exponents:
            for rank in grid.ranks:
                for seed in grid.seeds:
                    cell = Cell(
                        dim=grid.dim,
                        points=grid.points,
                        layers=layers,
                        heads=heads_for_budget(grid.dim, rank, exponent),
                        rank=rank,
                        seed=seed,
                        sequences=PAPER_SEQUENCES if (preset, protocol) == ("paper", "paper") else sequences,
                    )
                    runs.append(_PROTOCOLS[protocol](cell))
    return SweepSpec(name=f"figure1 ({preset}, {protocol})", runs=tuple(runs))


@dataclass(frozen=True, kw_only=True)
class Point:
    """One point of the figure: the mean over seeds of a cell's error.

    ``spread`` is the standard error of that mean: between seeds where there are several, else of the one validation.
    """

    layers: int
    exponent: float
    heads: int
    rank: int
    error: float
    spread: float
    seeds: int
    parameters: int


def points_of(runs: Sequence[TrainedRun]) -> list[Point]:
    """The runs of the figure, seeds averaged, in the order layers, budget, rank."""
    cells: dict[tuple[int, int, int], list[TrainedRun]] = {}
    for trained in runs:
        model = trained.run.model
        cells.setdefault((model.layers, model.heads * model.rank, model.rank), []).append(trained)
    points = []
    for (layers, budget, rank), group in sorted(cells.items()):
        errors = [trained.error for trained in group]
        mean = sum(errors) / len(errors)
        between = sum((error - mean) ** 2 for error in errors) / max(1, len(errors) - 1) / len(errors)
        model = group[0].run.model
        exponent = min(EXPONENTS, key=lambda c: abs(model.dim**c - budget))
        points.append(
            Point(
                layers=layers,
                exponent=exponent,
                heads=model.heads,
                rank=rank,
                error=mean,
                spread=between**0.5 if len(errors) > 1 else group[0].error_se,
                seeds=len(errors),
                parameters=model.parameters(),
            )
        )
    return points


@dataclass(frozen=True, kw_only=True)
class Gap:
    """How many times worse half rank is than full rank, at one depth and budget."""

    layers: int
    exponent: float
    full: float
    half: float

    @property
    def ratio(self) -> float:
        return self.half / self.full


def gaps(points: Sequence[Point]) -> list[Gap]:
    """Full rank against half rank wherever both were trained."""
    full_rank = max(point.rank for point in points)
    found = {(point.layers, point.exponent, point.rank): point.error for point in points}
    return [
        Gap(layers=layers, exponent=exponent, full=error, half=found[layers, exponent, full_rank // 2])
        for (layers, exponent, rank), error in found.items()
        if rank == full_rank and (layers, exponent, full_rank // 2) in found
    ]


def reading(points: Sequence[Point]) -> list[str]:
    """What the numbers say, computed from them."""
    by_depth: dict[int, list[Gap]] = {}
    for gap in gaps(points):
        by_depth.setdefault(gap.layers, []).append(gap)
    lines = []
    for layers, found in sorted(by_depth.items()):
        least, best_half = min(found, key=lambda gap: gap.ratio), min(found, key=lambda gap: gap.half)
        worst_full = max(gap.full for gap in found)
        lines.append(
            f"{layers} layer{'s' * (layers > 1)}: full rank reaches {worst_full:.3g} or less at every budget; half "
            f"rank errs at least {least.ratio:.2g} times as much, and its best budget (d^{1 + best_half.exponent:g}) "
            f"stays at {best_half.half:.2g}."
        )
    if 1 in by_depth and len(by_depth) > 1:
        deepest = max(by_depth)
        shallow = min(gap.half for gap in by_depth[1])
        deep = min(gap.half for gap in by_depth[deepest])
        verb = "narrows" if deep < shallow else "does not narrow"
        lines.append(
            f"Depth {verb} it: the best half rank error goes from {shallow:.2g} to {deep:.2g} with {deepest} layers."
        )
    return lines


def draw(points: Sequence[Point], levels: dict[str, float], title: str) -> Figure:
    """One panel a depth, one line a budget; ``levels`` are the trivial predictors."""
    depths = sorted({point.layers for point in points})
    figure = new_figure(4.2 * len(depths), 3.8)
    panels = figure.subplots(1, len(depths), squeeze=False, sharey=True)[0]
    for axes, layers in zip(panels, depths, strict=True):
        draw_panel(axes, [point for point in points if point.layers == layers], levels)
    figure.suptitle(title, fontsize=11)
    return figure


def draw_panel(axes: Axes, points: Sequence[Point], levels: dict[str, float]) -> None:
    """Error against rank at one depth."""
    budgets = sorted({point.exponent for point in points})
    series = []
    for exponent in budgets:
        line = sorted((point for point in points if point.exponent == exponent), key=lambda point: point.rank)
        series.append(
            Series(
                label=f"$d^{{{1 + exponent:g}}}$ parameters, $H = d^{{{exponent:g}}}/r$",
                x=[point.rank for point in line],
                y=[point.error for point in line],
                spread=[point.spread for point in line],
            )
        )
    draw_series(axes, series)
    draw_levels(axes, levels)
    layers = points[0].layers
    rank_axes(axes, sorted({point.rank for point in points}), f"{layers} layer{'s' * (layers > 1)}")
    axes.legend(fontsize=7, loc="lower left")


def present(preset: str, runs: Sequence[TrainedRun], out: Path) -> Reproduced:
    """Figure, CSV, table and reading of trained runs."""
    points = points_of(runs)
    settings = PRESETS[preset]
    title = f"Farthest of {settings.points} points in {settings.dim} dimensions"
    figure = draw(points, trivial_errors(settings.dim, settings.points), title)
    rows = [
        (
            point.layers,
            f"d^{1 + point.exponent:g}",
            point.heads,
            point.rank,
            point.error,
            point.spread,
            point.parameters,
        )
        for point in points
    ]
    return Reproduced(
        columns=("layers", "budget", "heads", "rank", "error", "standard error", "parameters"),
        rows=tuple(rows),
        reading="\n".join(reading(points)),
        files=(*save_figure(figure, out / "figure1"), write_csv("figure1", runs, out / "figure1.csv")),
    )
