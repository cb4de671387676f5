"""The theorem's own setting: two orthogonal points, one query, one attention layer and nothing else.

    rankwise reproduce theorem --preset laptop        (minutes on two cores; preset full: hours)

Four things on one axis, against the number of heads: trained softmax heads (any value matrices), trained generalised
heads (scores are a small network of the projected points and the whole query; values a multiple of the identity),
random rank-1 features with their best weights (closed form, mean of five draws), and the lower bound. Nothing may lie
below the bound that holds for it by more than four standard errors: softmax heads are held against the bound for any
values, the other two against the sharper one for scaled-identity values.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from rankwise.errors import require_choice
from rankwise.recipes.cells import seeded_sweep
from rankwise.recipes.registry import Reproduced
from rankwise.recipes.rows import ResultRow, mean_over_seeds, result_row
from rankwise.recipes.trained import TrainedRun
from rankwise.report.figures import COLOURS, MARKERS, house_style, new_figure, ramp, save_figure
from rankwise.report.panels import Series, draw_levels, draw_series, heads_axes
from rankwise.spec import LrMultipliers, ModelSpec, OptimSpec, RunSpec, SweepSpec, TaskSpec
from rankwise.theory.bounds import Values, error_lower_bound
from rankwise.theory.kernels import optimal_weights, random_features

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

Kind = Literal["softmax", "generalised", "random features"]
KEYS = ("kind",)
DRAWS = 5
_SCORE_WIDTH = 32
_ROUNDING = 1e-9
_BOUNDS: tuple[tuple[Values, str], ...] = (("scaled_identity", "-"), ("any", "--"))
_LABELS: dict[Kind, str] = {
    "softmax": "softmax heads",
    "generalised": "generalised heads",
    "random features": "random heads, best weights",
}


@dataclass(frozen=True, kw_only=True)
class Grid:
    """Ranks and numbers of heads in one dimension."""

    ranks: tuple[int, ...]
    heads: tuple[int, ...]


def _every_rank(dim: int) -> Grid:
    """r = 1..d, and H = 1, 2, 4, ..., 4d."""
    return Grid(ranks=tuple(range(1, dim + 1)), heads=tuple(2**step for step in range((4 * dim).bit_length())))


@dataclass(frozen=True, kw_only=True)
class Settings:
    """A grid for each dimension, and the steps of every run."""

    steps: int
    grids: dict[int, Grid]


PRESETS: dict[str, Settings] = {
    "smoke": Settings(steps=300, grids={8: Grid(ranks=(1, 8), heads=(1, 8))}),
    "demo": Settings(steps=800, grids={8: Grid(ranks=(1, 4, 7, 8), heads=(1, 4, 16))}),
    "laptop": Settings(
        steps=1500,
        grids={
            8: Grid(ranks=(1, 2, 4, 6, 7, 8), heads=(1, 8, 32)),
            16: Grid(ranks=(1, 4, 8, 12, 16), heads=(1, 16, 64)),
            32: Grid(ranks=(1, 16, 32), heads=(1, 32, 128)),
        },
    ),
    "full": Settings(steps=1500, grids={dim: _every_rank(dim) for dim in (8, 16, 32)}),
}


def sweep(preset: str = "laptop", *, seeds: int = 1) -> SweepSpec:
    """The trained runs of the figure; the rest is closed form."""
    require_choice("preset", preset, tuple(PRESETS))
    settings = PRESETS[preset]
    runs = [
        _run(dim, rank, heads, kind, settings.steps)
        for dim, grid in settings.grids.items()
        for rank in grid.ranks
        for heads in grid.heads
        for kind in ("softmax", "generalised")
    ]
    return seeded_sweep(f"theorem ({preset})", runs, seeds)


def _run(dim: int, rank: int, heads: int, kind: str, steps: int) -> RunSpec:
    bare = ModelSpec(dim=dim, rank=rank, heads=heads, norm="none", residual=False, bias=False)
    if kind == "softmax":
        model = replace(bare, value_rank=dim, temperature="learned")
    else:
        model = replace(bare, generalized=_SCORE_WIDTH)
    return RunSpec(
        protocol="capacity",
        task=TaskSpec(name="nearest", dim=dim, points=2, distribution="orthogonal"),
        model=model,
        optim=OptimSpec(
            lr=0.01,
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


@dataclass(frozen=True, kw_only=True)
class Point:
    """An error that ``heads`` heads of ``rank`` reached in the setting, and the bound that holds for their kind."""

    kind: Kind
    dim: int
    rank: int
    heads: int
    error: float
    error_se: float
    bound: float

    @property
    def margin(self) -> float:
        """Standard errors above the bound. The errors of random features are exact: theirs is a spread of draws, each
        of which the bound holds for, so that no mean may lie below it at all."""
        if self.kind == "random features" or not self.error_se:
            return -math.inf if self.error < self.bound * (1 - _ROUNDING) else math.inf
        return (self.error - self.bound) / self.error_se


def rows(runs: Sequence[TrainedRun]) -> list[ResultRow]:
    """One row a run, with the kind of its heads."""
    return [
        result_row("theorem", run, {"kind": "softmax" if run.run.model.generalized is None else "generalised"})
        for run in runs
    ]


def points_of(rows: Sequence[ResultRow]) -> list[Point]:
    """The trained cells as points, seeds averaged."""
    means = mean_over_seeds(rows, lambda row: (row.dim, row.rank, row.heads, str(row.extra["kind"])))
    return [
        _point("softmax" if kind == "softmax" else "generalised", dim, rank, heads, mean.error, mean.spread)
        for (dim, rank, heads, kind), mean in means.items()
    ]


def random_feature_points(preset: str, seed: int = 0) -> list[Point]:
    """Rank-1 hardmax heads drawn at random with the weights that are best for them: mean of five draws."""
    points = []
    for dim, grid in PRESETS[preset].grids.items():
        for heads in grid.heads:
            errors = [optimal_weights(*random_features(dim, heads, seed + draw))[1] for draw in range(DRAWS)]
            mean = sum(errors) / DRAWS
            spread = (sum((error - mean) ** 2 for error in errors) / (DRAWS - 1) / DRAWS) ** 0.5
            points.append(_point("random features", dim, 1, heads, mean, spread))
    return points


def below_bound(points: Sequence[Point], standard_errors: float = 4.0) -> list[Point]:
    """The points that would refute the bound: there must be none."""
    return [point for point in points if point.margin < -standard_errors]


def reading(points: Sequence[Point]) -> str:
    """One line computed from the points."""
    closest = min((point for point in points if point.rank < point.dim and point.bound > 0.01), key=_excess)
    refuting = below_bound(points)
    verdict = f"{len(refuting)} of {len(points)} points lie" if refuting else f"none of {len(points)} points lies"
    return (
        f"Theorem's setting: {verdict} below the bound beyond 4 standard errors; the closest is {closest.kind} heads, "
        f"d = {closest.dim}, r = {closest.rank}, H = {closest.heads}: {closest.error:.3f} against {closest.bound:.3f}."
    )


def _excess(point: Point) -> float:
    return point.error / point.bound


def _point(kind: Kind, dim: int, rank: int, heads: int, error: float, error_se: float) -> Point:
    values: Values = "any" if kind == "softmax" else "scaled_identity"
    bound = error_lower_bound(dim, rank, heads, values=values).value
    return Point(kind=kind, dim=dim, rank=rank, heads=heads, error=error, error_se=error_se, bound=bound)


def draw(points: Sequence[Point]) -> Figure:
    """One panel a dimension."""
    dims = sorted({point.dim for point in points})
    figure = new_figure(4.6 * len(dims), 5.0)
    for axes, dim in zip(figure.subplots(1, len(dims), squeeze=False)[0], dims, strict=True):
        draw_panel(axes, [point for point in points if point.dim == dim])
    figure.suptitle("Nearest of two orthogonal points, one bare attention layer", fontsize=11)
    return figure


def draw_panel(axes: Axes, points: Sequence[Point]) -> None:
    """Error against heads in one dimension: a colour a rank, a marker a kind, lines for the bound."""
    dim = points[0].dim
    ranks = sorted({point.rank for point in points})
    most = max(point.heads for point in points)
    heads = sorted({point.heads for point in points})
    fine = [most ** (step / 60) for step in range(61)]
    series = []
    colours = COLOURS if len(ranks) <= len(COLOURS) else ramp(len(ranks))
    for colour, rank in zip(colours, ranks, strict=False):
        for values, line in _BOUNDS:
            bound = [error_lower_bound(dim, rank, count, values=values).value for count in fine]
            named = values == "scaled_identity" and (len(ranks) <= len(COLOURS) or rank in (1, dim // 2, dim))
            label = f"bound, r = {rank}" if named else ""
            style = {"color": colour, "marker": "", "linestyle": line, "linewidth": 1.2}
            series.append(Series(label=label, x=fine, y=bound, style=style))
        for marker, kind in zip(MARKERS, _LABELS, strict=False):
            found = sorted((p for p in points if p.kind == kind and p.rank == rank), key=lambda point: point.heads)
            style = {"color": colour, "marker": marker, "linestyle": "", "fillstyle": "none"}
            x, y = [point.heads for point in found], [point.error for point in found]
            series.append(Series(label="", x=x, y=y, spread=[point.error_se for point in found], style=style))
    draw_series(axes, series)
    for marker, kind in zip(MARKERS, _LABELS, strict=False):
        axes.plot([], [], color="0.3", marker=marker, linestyle="", fillstyle="none", label=_LABELS[kind])
    axes.plot([], [], color="0.3", linestyle="--", label="bound, any values")
    draw_levels(axes, {"mean of the points": 0.5})
    heads_axes(axes, heads, f"d = {dim}: trained, random, and the bound")
    axes.legend(fontsize=6.5, ncols=2, loc="upper center", bbox_to_anchor=(0.5, -0.16))


def present(preset: str, rows: Sequence[ResultRow], stem: Path) -> Reproduced:
    """Figure, table and reading of the rows; random features are computed here."""
    points = points_of(rows) + random_feature_points(preset)
    with house_style():
        figure = draw(points)
    return Reproduced(
        columns=("dim", "rank", "heads", "kind", "error", "standard error", "bound"),
        rows=tuple((p.dim, p.rank, p.heads, p.kind, p.error, p.error_se, p.bound) for p in points),
        reading=reading(points),
        files=save_figure(figure, stem),
    )
