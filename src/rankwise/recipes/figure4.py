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

from rankwise.recipes.cells import LATER_RATE, TWENTIETH, cell_trainer, farthest
from rankwise.recipes.curves import ERROR, curve, curves, ticked
from rankwise.recipes.paper_figures import published
from rankwise.recipes.points import Point, Value, estimated, lines_of, select
from rankwise.recipes.trained_figure import Settings, TrainedFigure
from rankwise.report import GUIDE, Panel, Picture, PlotAxis, Series, smooth
from rankwise.spec import RunSpec, heads_for_budget
from rankwise.sweep import TrainedRun, exact_head, examples_with
from rankwise.tasks import trivial_errors

TESTED = (4, 8, 16, 32, 64, 128, 256, 512, 1024)
_LAYERS, _EXPONENT = 2, 2.0


@dataclass(frozen=True, kw_only=True)
class Sizes(Settings):
    """The sizes of a preset; every run sees ``queries`` queries, N per sequence."""

    dim: int
    ranks: tuple[int, ...]
    points: tuple[int, ...]
    queries: int


class _Figure4(TrainedFigure[Sizes]):
    """Error against rank for several N; and the error of each model against the N that it is tested with."""

    name = "figure4"
    keys = ("points", "rank", "tested_points")
    tabled = ("tested_error",)

    def runs(self, settings: Sizes, *, protocol: str = "capacity", sequences: int | None = None) -> Iterable[RunSpec]:
        """Every rank with every number of points; a sequence has as many queries as points."""
        for points in settings.points:
            seen = settings.queries // points
            train = cell_trainer(sequences, seen, protocol=protocol, paper_rate=LATER_RATE)
            for rank in settings.ranks:
                heads = heads_for_budget(settings.dim, rank, _EXPONENT)
                yield train(farthest(settings.dim, points), layers=_LAYERS, heads=heads, rank=rank)

    def measured(self, trained: TrainedRun) -> Iterable[Mapping[str, Value]]:
        """One row for every number of points that the model is tested with."""
        from rankwise.sweep import error_of, trained_model
        from rankwise.tasks import FarthestNeighbor

        model = trained_model(trained)
        for points in TESTED:
            task = FarthestNeighbor(trained.run.neighbors.dim, points)
            found = error_of(model, task, examples_with(points), trained.run.model.heads)
            yield {"tested_points": points, **estimated("tested_error", found)}

    def reading(self, settings: Sizes, points: Sequence[Point]) -> list[str]:
        """Error against N, and whether the models of the largest N carry over to more points."""
        lines, counts, ranks = [], list(lines_of(points, "points")), {"Half": settings.dim // 2, "Full": settings.dim}
        few, many, most = counts[0], counts[-1], max(TESTED)
        for name, rank in ranks.items():
            first, last = (select(points, points=count, rank=rank) for count in (few, many))
            if few < many and first and last:
                errors = f"{first[0].error:.2g} with {few} points and {last[0].error:.2g} with {many}"
                lines.append(f"{name} rank, trained with as many points as tested with: {errors}.")
            for point in select(last, tested_points=most):
                found = point.mean("tested_error")
                lines.append(f"{name} rank, trained with {many} points: {found:.2g} when tested with {most}.")
        exact = _exact_heads(points).get(many)
        return (
            [*lines, f"An exact head with the same temperature as full rank has {exact[most]:.2g} there."]
            if exact
            else lines
        )

    def picture(self, settings: Sizes, points: Sequence[Point]) -> Picture:
        """Left the paper's picture; then a panel for every number of points in training, against the number tested."""
        trained, once = lines_of(points, "points"), select(points, tested_points=TESTED[0])
        own = [
            curve(f"N = {count}", line, x="rank", published=published("figure4", dim=settings.dim, points=count))
            for count, line in lines_of(once, "points").items()
        ]
        title = "trained and tested with N points"
        first = Panel(title=title, x=ticked(once), y=ERROR, series=own, legend="lower left")
        exact = _exact_heads(points)
        linear = {count: trivial_errors(settings.dim, count, examples_with(count))["best linear"] for count in TESTED}
        panels = [_tested(count, line, exact.get(count), linear) for count, line in trained.items()]
        title = f"Farthest neighbour in {settings.dim} dimensions, two layers, $H = d^2/r$"
        return Picture(title=title, panels=[[first, *panels]], legend="below", legend_columns=7)


def _tested(count: int, points: Sequence[Point], exact: dict[int, float] | None, linear: dict[int, float]) -> Panel:
    """The error of models trained with ``count`` points against the number of points that they are tested with."""
    series = curves(points, "rank", "rank {}".format, x="tested_points", y="tested_error")
    if exact is not None:
        series.append(Series(label="exact head, softmax", x=list(exact), y=list(exact.values()), style=smooth("0.25")))
    series.append(Series(label="best linear", x=list(linear), y=list(linear.values()), style=smooth(GUIDE, "--")))
    x = PlotAxis(label="points it is tested with", scale="log2", ticks=TESTED)
    return Panel(title=f"trained with {count} points", x=x, y=ERROR, series=series, verticals=[count])


def _exact_heads(points: Sequence[Point]) -> dict[int, dict[int, float]]:
    """For every number of points that a full-rank model was trained with, the exact head that agrees with it there."""
    found = {
        point["points"]: exact_head(point["dim"], point["points"], point.mean("tested_error"), TESTED)
        for point in points
        if point["rank"] == point["dim"] and point["tested_points"] == point["points"]
    }
    return {count: line for count, line in found.items() if line is not None}


FIGURE = _Figure4(
    smoke=Sizes(dim=8, ranks=(4, 8), points=(4, 16), queries=256_000, seeds=1),
    laptop=Sizes(dim=16, ranks=(2, 4, 8, 16), points=(4, 16, 64), queries=1_024_000),
    full=Sizes(dim=64, ranks=(1, 8, 16, 32, 64), points=(4, 16, 64, 256), queries=16 * TWENTIETH, seeds=1),
)
