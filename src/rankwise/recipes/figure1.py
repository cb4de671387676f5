"""Figure 1: rank against error, for three budgets of heads and several depths.

    rankwise reproduce figure1 --preset laptop

Farthest neighbour among N points; H = d^c / r heads of rank r, so that every point of a curve (c = 1, 1.5, 2) has the
same number of attention parameters. What the paper shows, and what to expect here: with one layer only full rank
works, however many heads; with three layers low rank gets better.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal, get_args

from rankwise.errors import require_choice
from rankwise.recipes.trained import TrainedRun
from rankwise.spec import RunSpec, SweepSpec, heads_for_budget
from rankwise.train.protocols import PAPER_SEQUENCES, Cell, capacity, paper

Preset = Literal["smoke", "demo", "laptop", "paper"]
Protocol = Literal["capacity", "paper"]
EXPONENTS = (1.0, 1.5, 2.0)
_PROTOCOLS: dict[str, Callable[[Cell], RunSpec]] = {"capacity": capacity, "paper": paper}


@dataclass(frozen=True, kw_only=True)
class Grid:
    """The sizes of a preset; ``sequences`` is the budget of a run by its number of layers."""

    dim: int
    points: int
    ranks: tuple[int, ...]
    sequences: dict[int, int]
    exponents: tuple[float, ...] = EXPONENTS
    seeds: tuple[int, ...] = (0,)


GRIDS: dict[Preset, Grid] = {
    "smoke": Grid(dim=4, points=4, ranks=(1, 2, 4), sequences={1: 19_200, 3: 19_200}),
    "demo": Grid(dim=16, points=8, ranks=(4, 8, 16), sequences={1: 64_000, 3: 64_000}),
    "laptop": Grid(dim=16, points=8, ranks=(2, 4, 8, 16), sequences={1: 96_000, 3: 128_000}),
    "paper": Grid(
        dim=64,
        points=16,
        ranks=(1, 2, 4, 8, 16, 32, 64),
        sequences={1: PAPER_SEQUENCES // 20, 3: PAPER_SEQUENCES // 20, 5: PAPER_SEQUENCES // 20},
    ),
}


def figure1(preset: Preset = "laptop", protocol: Protocol = "capacity") -> SweepSpec:
    """The runs of the figure. ``protocol`` "paper" spends the paper's full 25.6 million sequences at preset "paper"."""
    require_choice("preset", preset, get_args(Preset))
    require_choice("protocol", protocol, tuple(_PROTOCOLS))
    grid = GRIDS[preset]
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
            f"rank is at least {least.ratio:.0f} times worse, and its best budget (d^{1 + best_half.exponent:g}) "
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
