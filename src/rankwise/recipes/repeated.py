"""Learned, or learned by heart? The authors' layers on few sequences that come again and again, and on fresh ones.

    rankwise reproduce repeated --preset laptop --seeds 3

The numbers of the paper's Figure 1 are errors on 25,600 sequences after 1000 passes over them. Here the same layers are
trained for a fixed number of steps on few or many different sequences, at half rank, and measured on those and on
new ones; beside them ``capacity`` with as many steps on fresh sequences. Ours alone. The laptop size has
about as many parameters a target as the paper at 3,072 sequences: 2.2 with three layers (2.1), .7 with one (.7). It is
a smaller model of the question: what the paper's own models know of new sequences was not measured.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from rankwise.errors import require_choice
from rankwise.recipes.baselines import trivial_errors
from rankwise.recipes.cells import depth_name, seeded_sweep
from rankwise.recipes.registry import Reproduced
from rankwise.recipes.rows import Mean, ResultRow, mean_over_seeds, result_row
from rankwise.recipes.trained import TrainedRun
from rankwise.report.figures import COLOURS, house_style, new_figure, save_figure
from rankwise.report.panels import Series, draw_levels, draw_series, rank_axes, share_legend
from rankwise.spec import RunSpec, SweepSpec, vary
from rankwise.train.protocols import PAPER_SEQUENCES, PASS, Cell, capacity, paper

if TYPE_CHECKING:
    from matplotlib.figure import Figure

KEYS = ("different",)


@dataclass(frozen=True, kw_only=True)
class Settings:
    """Every run sees ``sequences`` sequences, ``different`` of which are different; besides, all of them."""

    dim: int
    points: int
    layers: tuple[int, ...]
    different: tuple[int, ...]
    sequences: int
    feedforward: int
    lr: float
    batch: int
    epochs: int = 16
    full_size: bool = False


PRESETS: dict[str, Settings] = {
    "smoke": Settings(
        dim=16, points=8, layers=(3,), different=(256,), sequences=65_536, feedforward=128, lr=0.005, batch=64
    ),
    "laptop": Settings(
        dim=16,
        points=8,
        layers=(1, 3),
        different=(768, 3072, 12_288),
        sequences=786_432,
        feedforward=512,
        lr=0.005,
        batch=64,
    ),
    "paper": Settings(
        dim=64,
        points=16,
        layers=(1, 3),
        different=(PASS,),
        sequences=PAPER_SEQUENCES,
        feedforward=2048,
        lr=0.01,
        batch=256,
        epochs=20,
        full_size=True,
    ),
}


def sweep(preset: str = "laptop", *, seeds: int = 1) -> SweepSpec:
    """For every depth the authors' layers on each number of different sequences, on fresh ones, and ``capacity``."""
    require_choice("preset", preset, tuple(PRESETS))
    settings = PRESETS[preset]
    runs = []
    for layers in settings.layers:
        cell = Cell(
            dim=settings.dim,
            points=settings.points,
            layers=layers,
            heads=2,
            rank=settings.dim // 2,
            sequences=settings.sequences,
        )
        runs += [_authors(cell, settings, different) for different in (*settings.different, None)]
        runs.append(capacity(cell))
    return seeded_sweep(f"repeated ({preset})", runs, seeds, in_order=settings.full_size)


def _authors(cell: Cell, settings: Settings, different: int | None) -> RunSpec:
    """The paper's layers; an epoch is whole passes, so that its mean error is one over all of the sequences."""
    steps = settings.sequences // settings.batch
    return vary(
        paper(cell),
        {
            "model.feedforward": settings.feedforward,
            "optim.lr": settings.lr,
            "optim.batch": settings.batch,
            "optim.steps": steps,
            "optim.examples": different,
            "optim.schedule": "cosine",
            "optim.warmup": steps // 20,
            "optim.epoch_steps": steps // settings.epochs,
        },
    )


def rows(runs: Sequence[TrainedRun]) -> list[ResultRow]:
    """One row a run, with the number of different sequences it saw."""
    return [
        result_row("repeated", trained, {"different": trained.run.optim.examples or trained.sequences})
        for trained in runs
    ]


@dataclass(frozen=True, kw_only=True)
class Point:
    """``layers`` layers after training on ``different`` sequences: error on new ones, and on the ones it knows."""

    protocol: str
    layers: int
    different: int
    new: Mean
    known: Mean

    @property
    def passes(self) -> float:
        """How often it saw each."""
        return self.new.row.sequences / self.different


def points_of(rows: Sequence[ResultRow]) -> list[Point]:
    """Seeds averaged; in the order protocol, layers, different sequences."""

    def cell(row: ResultRow) -> tuple[str, int, int]:
        return row.protocol, row.layers, int(row.extra["different"])

    known = mean_over_seeds(rows, cell, lambda row: row.train_min)
    return [
        Point(protocol=protocol, layers=layers, different=different, new=mean, known=known[protocol, layers, different])
        for (protocol, layers, different), mean in mean_over_seeds(rows, cell).items()
    ]


def reading(points: Sequence[Point]) -> str:
    """For every depth: what was learned by heart, and what fresh sequences teach instead."""
    lines = []
    for layers in sorted({point.layers for point in points}):
        own = [point for point in points if point.layers == layers]
        parts = [
            f"{point.different:,} sequences {point.passes:,.0f} times: {point.known.error:.3g} on them, "
            f"{point.new.error:.3g} on new ones"
            for point in own
            if point.passes > 1
        ]
        parts += [
            f"fresh sequences{', capacity' * (point.protocol == 'capacity')}: {point.new.error:.3g}"
            for point in sorted(own, key=lambda point: point.protocol, reverse=True)
            if point.passes == 1
        ]
        lines.append(f"{depth_name(layers)}: {'; '.join(parts)}.")
    return "\n".join(lines)


def draw(points: Sequence[Point], levels: dict[str, float], title: str) -> Figure:
    """One panel a depth: error on known and on new sequences against how many different ones there were."""
    depths = sorted({point.layers for point in points})
    figure = new_figure(4.0 * len(depths) + 2.2, 3.8)
    panels = figure.subplots(1, len(depths), squeeze=False, sharey=True)[0]
    for axes, layers in zip(panels, depths, strict=True):
        own = [point for point in points if point.layers == layers]
        authors = [point for point in own if point.protocol == "paper"]
        best = [point for point in own if point.protocol == "capacity"]
        known = [point for point in authors if point.passes > 1]
        draw_series(
            axes,
            [
                _series("new sequences", [(p.different, p.new) for p in authors], {}),
                _series("the sequences it was trained on", [(p.different, p.known) for p in known], {}),
                _series("new sequences, capacity", [(p.different, p.new) for p in best], {"color": COLOURS[2]}),
            ],
        )
        draw_levels(axes, levels)
        ticks = sorted({point.different for point in own})
        fresh = {point.different for point in own if point.passes == 1}
        rank_axes(axes, ticks, depth_name(layers), "different sequences among those seen")
        axes.set_xticks(ticks, ["all fresh" if tick in fresh else f"{tick:,}" for tick in ticks])
    share_legend(figure, panels)
    figure.suptitle(title, fontsize=11)
    return figure


def _series(label: str, points: Sequence[tuple[int, Mean]], style: dict[str, str]) -> Series:
    return Series(
        label=label,
        x=[different for different, _ in points],
        y=[mean.error for _, mean in points],
        spread=[mean.spread for _, mean in points],
        style={**style},
    )


def present(preset: str, rows: Sequence[ResultRow], stem: Path) -> Reproduced:
    """Figure, table and reading of the rows."""
    settings, points = PRESETS[preset], points_of(rows)
    half = settings.dim // 2
    title = f"Farthest of {settings.points} points in {settings.dim} dimensions, 2 heads of rank {half}"
    with house_style():
        figure = draw(points, trivial_errors(settings.dim, settings.points), title)
    return Reproduced(
        columns=(
            *("protocol", "layers", "different sequences", "passes", "error on them", "error on new ones"),
            *("standard error", "seeds", "parameters"),
        ),
        rows=tuple(
            (
                *(point.protocol, point.layers, point.different, point.passes, point.known.error, point.new.error),
                *(point.new.spread, point.new.seeds, point.new.row.parameters),
            )
            for point in points
        ),
        reading=reading(points),
        files=save_figure(figure, stem),
    )
