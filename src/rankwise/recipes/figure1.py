"""Figure 1: rank against error, for three budgets of heads and several depths.

    rankwise reproduce figure1                        (three seeds: half an hour on two cores)
    rankwise reproduce figure1 --preset full          (full size: hours; stopped, the same command continues)

Farthest neighbour among N points; H = d^c / r heads of rank r, so that every point of a curve (c = 1, 1.5, 2) has the
same number of attention parameters, d^(1+c). What the paper shows: with one layer only full rank works, however many
heads; with three layers low rank gets better. Our errors are on held-out examples, after 1/20 of the paper's training
at full size. The paper's, shown beside them, are errors on the 25,600 sequences that it trained on 1000 times.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from rankwise.recipes.cells import TWENTIETH, Sphere, sphere_trainer
from rankwise.recipes.curves import ERROR, counted, curve, ticked
from rankwise.recipes.paper_figures import published
from rankwise.recipes.points import Point, Value, lines_of, select
from rankwise.recipes.trained_figure import TrainedFigure
from rankwise.report import Panel, Picture, two_digits_down
from rankwise.spec import RunSpec, heads_for_budget
from rankwise.tasks import trivial_errors


@dataclass(frozen=True, kw_only=True)
class BudgetCurve:
    """Some ranks at one depth with H = d^exponent / r heads."""

    layers: int
    exponent: float
    ranks: tuple[int, ...]


@dataclass(frozen=True, kw_only=True)
class Sizes(Sphere):
    """The curves of all panels."""

    curves: tuple[BudgetCurve, ...]


def _all_curves(ranks: tuple[int, ...], exponents: tuple[float, ...] = (1.0, 1.5, 2.0)) -> tuple[BudgetCurve, ...]:
    return tuple(BudgetCurve(layers=layers, exponent=c, ranks=ranks) for layers in (1, 3) for c in exponents)


class _Figure1(TrainedFigure[Sizes]):
    """Error against rank: one panel per depth, one curve per budget; d^2 is the usual H r = d."""

    name = "figure1"
    keys = ("layers", "budget", "rank")
    tabled = ("error", "train_min")

    def runs(self, settings: Sizes, *, protocol: str = "capacity", sequences: int | None = None) -> Iterable[RunSpec]:
        """Every rank of every curve."""
        train = sphere_trainer(settings, sequences, protocol=protocol)
        for line in settings.curves:
            for rank in line.ranks:
                heads = heads_for_budget(settings.dim, rank, line.exponent)
                yield train(layers=line.layers, heads=heads, rank=rank)

    def columns(self, run: RunSpec) -> Mapping[str, Value]:
        return {"budget": f"d^{1 + round(2 * math.log(run.model.heads * run.model.rank, run.model.dim)) / 2:g}"}

    def reading(self, settings: Sizes, points: Sequence[Point]) -> list[str]:
        """Full against half rank at every depth, what depth changes, and the paper's values."""
        return [*full_against_half(points), *depth_narrows(points), *_beside_the_paper(points)]

    def picture(self, settings: Sizes, points: Sequence[Point]) -> Picture:
        panels = [depth_panel(own) for own in lines_of(points, "layers").values()]
        return Picture(title=settings.place.capitalize(), panels=[panels], legend="right")


def depth_panel(points: Sequence[Point]) -> Panel:
    """Error against rank at one depth, with the errors of trivial predictors as levels."""
    one, lines = points[0], lines_of(points, "budget").items()
    return Panel(
        title=counted(one["layers"], "layer"),
        x=ticked(points),
        y=ERROR,
        series=[curve(_label(name), line, x="rank", published=_published(line)) for name, line in lines],
        levels=trivial_errors(one["dim"], one["points"]),
    )


def full_against_half(points: Sequence[Point]) -> list[str]:
    """A line for every depth: the error of full rank, and how many times as much half rank errs."""
    lines = []
    for layers, gaps in _gaps(points).items():
        full, half = max(gap[0] for gap in gaps.values()), min(gap[1] for gap in gaps.values())
        least = two_digits_down(min(gap[1] / gap[0] for gap in gaps.values()))
        lines.append(
            f"{counted(layers, 'layer')}: full rank reaches {full:.2g} or less, half rank {half:.2g} at best. "
            f"At equal parameters half rank errs at least {least} times as much."
        )
    return lines


def depth_narrows(points: Sequence[Point]) -> list[str]:
    """What half rank gains by depth, at the smallest budget that was trained with one layer and with more."""
    gaps = _gaps(points)
    deepest = max(gaps, default=1)
    shared = sorted(set(gaps.get(1, {})) & set(gaps.get(deepest, {})))
    if deepest == 1 or not shared:
        return []
    before, after = gaps[1][shared[0]][1], gaps[deepest][shared[0]][1]
    verb = "narrows" if after < before else "does not narrow"
    return [f"Depth {verb} it: half rank goes from {before:.2g} to {after:.2g} with {deepest} layers ({shared[0]})."]


def _gaps(points: Sequence[Point]) -> dict[int, dict[str, tuple[float, float]]]:
    """The errors of full and of half rank by depth and budget, wherever both were trained."""
    found: dict[int, dict[str, tuple[float, float]]] = {}
    for full in (point for point in points if point["rank"] == point["dim"]):
        for half in select(points, layers=full["layers"], budget=full["budget"], rank=full["dim"] // 2):
            found.setdefault(full["layers"], {})[full["budget"]] = (full.error, half.error)
    return found


def _beside_the_paper(points: Sequence[Point]) -> list[str]:
    beside = [(point, value) for point in points for value in _published([point]).values()]
    below = sum(point.error < value for point, value in beside)
    return [f"Of {len(beside)} held-out errors {below} lie below the paper's training error."] if beside else []


def _published(points: Sequence[Point]) -> dict[int, float]:
    """The paper's values for one curve by rank, where it has them at this size and these ranks."""
    one, exponent = points[0], float(points[0]["budget"].removeprefix("d^")) - 1
    found = published("figure1", dim=one["dim"], points=one["points"], layers=one["layers"], exponent=exponent)
    return {point["rank"]: found[point["rank"]] for point in points if point["rank"] in found}


def _label(name: str) -> str:
    exponent = float(name.removeprefix("d^"))
    return f"$d^{{{exponent:g}}}$ parameters, $H = d^{{{exponent - 1:g}}}/r$".replace("d^{1}/", "d/")


_RANKS = (64, 32, 16, 8, 4, 2, 1)
FIGURE = _Figure1(
    smoke=Sizes(dim=16, points=8, curves=_all_curves((8, 16), (1.0, 1.5)), sequences=32_000, seeds=1),
    demo=Sizes(dim=16, points=8, curves=_all_curves((4, 8, 16)), sequences=64_000, seeds=1),
    laptop=Sizes(dim=16, points=8, curves=_all_curves((2, 4, 8, 16)), sequences=128_000),
    full=Sizes(
        dim=64,
        points=16,
        curves=(
            BudgetCurve(layers=1, exponent=1.0, ranks=_RANKS),
            BudgetCurve(layers=3, exponent=1.0, ranks=_RANKS),
            BudgetCurve(layers=5, exponent=1.0, ranks=(64, 16, 4)),
            BudgetCurve(layers=1, exponent=1.5, ranks=_RANKS),
            BudgetCurve(layers=1, exponent=2.0, ranks=(64, 32, 8)),
        ),
        sequences=TWENTIETH,
        seeds=1,
    ),
)
