"""Figure 3: positions none, additive or concatenated; and concatenated at equal parameters, which the paper has not.

    rankwise reproduce figure3

Farthest neighbour, H = d^1.5 / r heads. Concatenated positions add d learned coordinates to every point, so that the
stack is 2d wide. The authors cut those 2d coordinates into heads of rank r, so that their concatenated curve has twice
as many heads, and four times the attention parameters, of the others at the same rank. "concatenated, equal" halves the
number of heads and the feed-forward instead: as many parameters as without positions, but for norms and the table. The
paper shows concatenated positions helping low rank much with three layers and little with one.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from statistics import geometric_mean
from typing import Any

from rankwise.recipes.cells import FIRST_RATE, LATER_RATE, TWENTIETH, Sphere, sphere_trainer
from rankwise.recipes.curves import ERROR, counted, curve, ticked
from rankwise.recipes.paper_figures import published
from rankwise.recipes.points import Point, Value, lines_of, select
from rankwise.recipes.trained_figure import TrainedFigure
from rankwise.report import COLOURS, MARKERS, Panel, Picture
from rankwise.spec import RunSpec, heads_for_budget, vary

KINDS = ("none", "additive", "concatenated", "concatenated, equal")
_EXPONENT = 1.5


class _Figure3(TrainedFigure[Sphere]):
    """Error against rank: one panel per depth, one curve per kind of positions."""

    name = "figure3"
    keys = ("layers", "positions", "rank")
    tabled = ("error", "train_min")

    def runs(self, settings: Sphere, *, protocol: str = "capacity", sequences: int | None = None) -> Iterable[RunSpec]:
        """Every kind at every depth and rank. The paper's curve without positions is that of its figure 1."""
        for layers in settings.layers:
            for kind in KINDS:
                rate = FIRST_RATE if kind == "none" else LATER_RATE
                train = sphere_trainer(settings, sequences, protocol=protocol, paper_rate=rate)
                for rank in settings.ranks:
                    heads = heads_for_budget(settings.dim, rank, _EXPONENT)
                    yield placed(train(layers=layers, heads=heads, rank=rank), kind)

    def columns(self, run: RunSpec) -> Mapping[str, Value]:
        model = run.model
        if model.positions != "concatenated":
            return {"positions": model.positions}
        doubled = model.heads > heads_for_budget(model.dim, model.rank, _EXPONENT)
        return {"positions": "concatenated" if doubled else "concatenated, equal"}

    def reading(self, settings: Sphere, points: Sequence[Point]) -> list[str]:
        """How much positions help below full rank, by depth."""
        lines = []
        for kind in KINDS[1:]:
            by_depth = {layers: _gain(own, kind) for layers, own in lines_of(points, "layers").items()}
            gains = [f"{gain:.2f} with {counted(n, 'layer')}" for n, gain in by_depth.items() if gain is not None]
            if gains:
                lines.append(f"Positions ({kind}) divide the error below full rank by {', by '.join(gains)}.")
        return [*lines, "These are geometric means over ranks."] if lines else []

    def picture(self, settings: Sphere, points: Sequence[Point]) -> Picture:
        size, panels = {"dim": settings.dim, "points": settings.points}, []
        for layers, own in lines_of(points, "layers").items():
            series = []
            for kind, colour, marker in zip(KINDS, COLOURS, MARKERS, strict=False):
                if line := select(own, positions=kind):
                    paper = published("figure3", **size, layers=layers, positions=kind)
                    series.append(curve(kind, line, x="rank", published=paper, color=colour, marker=marker))
            title, levels = counted(layers, "layer"), settings.levels
            panels.append(Panel(title=title, x=ticked(own), y=ERROR, series=series, levels=levels))
        title = f"Positions: {settings.place}, $H = d^{{1.5}}/r$"
        return Picture(title=title, panels=[panels], legend="right")


def placed(run: RunSpec, kind: str) -> RunSpec:
    """``run``, which has no positions, with positions of that kind."""
    if kind == "none":
        return run
    model = run.model
    changes: dict[str, Any] = {"model.positions": kind.partition(",")[0], "model.max_points": run.neighbors.points}
    if kind != "additive":
        changes["model.position_dim"] = model.dim
    if kind == "concatenated":
        changes["model.heads"] = 2 * model.heads
    elif kind == "concatenated, equal":
        changes["model.heads"] = max(1, model.heads // 2)
        changes["model.average"] = max(1, model.average // 2)
        changes["model.feedforward"] = model.feedforward // 2
    return vary(run, changes)


def _gain(points: Sequence[Point], kind: str) -> float | None:
    """The geometric mean over low ranks of error without positions over error with them."""
    without = {point["rank"]: point.error for point in select(points, positions="none")}
    low = [point for point in select(points, positions=kind) if point["rank"] < point["dim"]]
    ratios = [without[point["rank"]] / point.error for point in low if point["rank"] in without]
    return geometric_mean(ratios) if ratios else None


FIGURE = _Figure3(
    smoke=Sphere(dim=16, points=8, ranks=(4, 16), layers=(1,), sequences=32_000, seeds=1),
    laptop=Sphere(dim=16, points=8, ranks=(2, 4, 8, 16), sequences=128_000),
    full=Sphere(dim=64, points=16, ranks=(1, 2, 4, 8, 16, 32, 64), sequences=TWENTIETH, seeds=1),
)
