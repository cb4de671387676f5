"""Figure 4: the number of points. Does low rank fail when there are many?

    rankwise reproduce figure4

Farthest neighbour with two layers and H = d^2 / r heads of rank r, trained with N points; the paper shows the error
growing with N at every rank below d. Beside it, what the paper did not do: every trained model is tested with 4 to 1024
points without being trained again, next to the exact head ``X sm(-beta X^T y)`` whose beta gives it the error that the
trained full-rank model has at its own N, and to the best linear predictor. The conjecture is that low rank fails for
large N.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from rankwise.recipes.baselines import trivial_errors
from rankwise.recipes.cells import LATER_RATE, TWENTIETH, budget, farthest, train_as
from rankwise.recipes.curves import curve, titled
from rankwise.recipes.paper_figures import published
from rankwise.recipes.rows import Point, Value, lines_of, select
from rankwise.recipes.trained_figure import Settings, TrainedFigure
from rankwise.report.figures import GUIDE, new_figure
from rankwise.report.panels import Series, draw_series, rank_axes
from rankwise.spec import RunSpec, heads_for_budget
from rankwise.sweep.trained import TrainedRun
from rankwise.train.protocols import Cell

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

TESTED = (4, 8, 16, 32, 64, 128, 256, 512, 1024)
_LAYERS, _EXPONENT = 2, 2.0
_QUERIES = 2**14


@dataclass(frozen=True, kw_only=True)
class Sizes(Settings):
    """The sizes of a preset; every run sees ``queries`` queries, N per sequence."""

    dim: int
    ranks: tuple[int, ...]
    points: tuple[int, ...]
    queries: int


PRESETS = {
    "smoke": Sizes(dim=8, ranks=(4, 8), points=(4, 16), queries=256_000, seeds=1),
    "laptop": Sizes(dim=16, ranks=(2, 4, 8, 16), points=(4, 16, 64), queries=1_024_000),
    "paper": Sizes(dim=64, ranks=(1, 8, 16, 32, 64), points=(4, 16, 64, 256), queries=16 * TWENTIETH, seeds=1),
}


class _Figure4(TrainedFigure[Sizes]):
    """Error against rank for several N; and the error of each model against the N that it is tested with."""

    name = "figure4"
    keys = ("points", "rank", "tested_points")
    tabled = ("tested_error",)
    presets = PRESETS

    def runs(self, settings: Sizes, *, protocol: str = "capacity", sequences: int | None = None) -> Iterable[RunSpec]:
        """Every rank with every number of points; a sequence has as many queries as points."""
        for points in settings.points:
            for rank in settings.ranks:
                cell = Cell(
                    task=farthest(settings.dim, points),
                    layers=_LAYERS,
                    heads=heads_for_budget(settings.dim, rank, _EXPONENT),
                    rank=rank,
                    sequences=budget(sequences, settings.queries // points),
                )
                yield train_as(protocol, cell, paper_rate=LATER_RATE)

    def measured(self, trained: TrainedRun) -> Iterable[Mapping[str, Value]]:
        """One row for every number of points that the model is tested with."""
        from rankwise.sweep.trained_weights import error_of, trained_model
        from rankwise.tasks import FarthestNeighbor

        model = trained_model(trained)
        for points in TESTED:
            task = FarthestNeighbor(trained.run.neighbors.dim, points)
            found = error_of(model, task, _examples(points), trained.run.model.heads)
            yield {"tested_points": points, "tested_error": found.mean, "tested_error_se": found.standard_error}

    def reading(self, settings: Sizes, points: Sequence[Point]) -> list[str]:
        """Error against N, and whether models carry over to more points."""
        few, many = (extreme(point.row.points for point in points) for extreme in (min, max))
        lines, exact = [], _exact_heads(points)
        for rank in (settings.dim // 2, settings.dim):
            first, last = (select(points, points=count, rank=rank) for count in (few, many))
            if few < many and first and last:
                change = f"from {first[0].error:.2g} to {last[0].error:.2g}"
                lines.append(f"Rank {rank}, trained with {few} and with {many} points: error {change}.")
        for count, line in exact.items():
            most = max(line)
            for low in select(points, points=count, rank=settings.dim // 2, tested_points=most):
                (full,) = select(points, points=count, rank=settings.dim, tested_points=most)
                lines.append(
                    f"Trained with {count} points, tested with {most}: rank {low.row.rank} "
                    f"{low.mean('tested_error'):.2g}, rank {full.row.rank} {full.mean('tested_error'):.2g}; an exact "
                    f"head as soft as that {line[most]:.2g}."
                )
        return lines

    def draw(self, settings: Sizes, points: Sequence[Point]) -> Figure:
        """Left the paper's picture; then a panel for every number of points in training, against the number tested."""
        trained, exact = lines_of(points, "points"), _exact_heads(points)
        figure = new_figure(4.0 * (1 + len(trained)), 3.9)
        first, *panels = figure.subplots(1, 1 + len(trained), sharey=True)
        lines = []
        for count, own in trained.items():
            once = [point for point in own if point.get("tested_points") == TESTED[0]]
            lines.append(
                curve(
                    f"N = {count}", once, x="rank", published=published("figure4", dim=settings.dim, points=int(count))
                )
            )
        draw_series(first, lines)
        rank_axes(first, sorted({point.row.rank for point in points}), "trained and tested with N points")
        first.legend(fontsize=7, loc="lower left")
        linear = {count: trivial_errors(settings.dim, count, _examples(count))["best linear"] for count in TESTED}
        for axes, (count, own) in zip(panels, trained.items(), strict=True):
            _draw_tested(axes, int(count), own, exact.get(int(count)), linear)
        return titled(figure, panels, f"Farthest neighbour in {settings.dim} dimensions, two layers, $H = d^2/r$")


def _draw_tested(
    axes: Axes, count: int, points: Sequence[Point], exact: dict[int, float] | None, linear: dict[int, float]
) -> None:
    lines = [
        curve(f"rank {rank}", own, x="tested_points", y="tested_error")
        for rank, own in lines_of(points, "rank").items()
    ]
    grey = {"color": "0.25", "marker": "", "linewidth": 1.1}
    if exact is not None:
        lines.append(Series(label="exact head, softmax", x=list(exact), y=list(exact.values()), style=grey))
    dashed = {**grey, "color": GUIDE, "linestyle": "--"}
    lines.append(Series(label="best linear", x=list(linear), y=list(linear.values()), style=dashed))
    draw_series(axes, lines)
    axes.axvline(count, color=GUIDE, linewidth=0.8, linestyle=":")
    rank_axes(axes, TESTED, f"trained with {count} points", "points it is tested with")
    axes.set_ylabel("")


def _examples(points: int) -> int:
    """Queries count, not sequences: with many points few sequences are enough."""
    return max(8, _QUERIES // points)


def _exact_heads(points: Sequence[Point]) -> dict[int, dict[int, float]]:
    """For every number of points that a full-rank model was trained with, the exact head that agrees with it there."""
    found = {
        point.row.points: exact_head(point.row.dim, point.row.points, point.mean("tested_error"))
        for point in points
        if point.row.rank == point.row.dim and point.get("tested_points") == point.row.points
    }
    return {count: line for count, line in found.items() if line is not None}


def exact_head(dim: int, points: int, error: float) -> dict[int, float] | None:
    """The exact head's error at every number of points, at the beta that gives ``error`` with ``points``.

    Found by bisection on the same examples at every step, so that the error is a decreasing function of beta. None
    where no beta from 1 to 1e5 gives that error: a model that learned next to nothing, or is all but exact.
    """
    from rankwise.nn.constructions import exact_farthest
    from rankwise.sweep.trained_weights import error_of
    from rankwise.tasks import FarthestNeighbor

    def at(beta: float, count: int) -> float:
        return error_of(exact_farthest(dim, beta=beta), FarthestNeighbor(dim, count), _examples(count)).mean

    low, high = 1.0, 1e5
    if not at(low, points) >= error >= at(high, points):
        return None
    for _ in range(24):
        middle = (low * high) ** 0.5
        low, high = (middle, high) if at(middle, points) > error else (low, middle)
    return {count: at(high, count) for count in TESTED}


FIGURE = _Figure4()
