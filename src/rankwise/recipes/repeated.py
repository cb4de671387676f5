"""Memorised or learned? The authors' layers on few sequences that repeat, and on as many fresh ones.

    rankwise reproduce repeated
    rankwise reproduce repeated --preset paper        (the authors' size and length: days; see --only)

The numbers of the paper's Figure 1 are errors on 25,600 sequences after 1000 passes over them. Here the authors' layers
are trained on a fixed set of sequences, and on fresh ones for as many steps; the error on the training sequences and on
held-out ones is shown after every pass. Where the two part, the layers have memorised. The laptop size has about as
many parameters per training target as the paper: 2.2 with three layers (paper 2.1), .7 with one (.7).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from rankwise.recipes.baselines import trivial_errors
from rankwise.recipes.cells import counted, farthest
from rankwise.recipes.curves import curve, titled
from rankwise.recipes.paper_figures import published
from rankwise.recipes.rows import Point, Value, lines_of, select
from rankwise.recipes.trained_figure import Settings, TrainedFigure
from rankwise.report.figures import COLOURS, new_figure
from rankwise.report.panels import Series, draw_levels, draw_series
from rankwise.spec import RunSpec, vary
from rankwise.sweep.trained import TrainedRun
from rankwise.train.protocols import PAPER_EXAMPLES, PAPER_SEQUENCES, Cell, paper

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


@dataclass(frozen=True, kw_only=True)
class Sizes(Settings):
    """The sizes of a preset."""

    dim: int
    points: int
    layers: tuple[int, ...] = (1, 3)
    """One row of panels each."""
    ranks: tuple[int, ...]
    """One column of panels each, with dim / rank heads."""
    examples: int
    """How many different sequences repeat."""
    passes: int
    """How often each of them is trained on."""
    feedforward: int
    """Hidden width."""
    lr: float
    batch: int
    """Sequences per step."""


PRESETS = {
    "smoke": Sizes(
        dim=16,
        points=8,
        layers=(3,),
        ranks=(8,),
        examples=256,
        passes=128,
        feedforward=128,
        lr=0.005,
        batch=64,
        seeds=1,
    ),
    "laptop": Sizes(dim=16, points=8, ranks=(2, 8, 16), examples=3072, passes=256, feedforward=512, lr=0.005, batch=64),
    "paper": Sizes(
        dim=64,
        points=16,
        ranks=(8, 32, 64),
        examples=PAPER_EXAMPLES,
        passes=PAPER_SEQUENCES // PAPER_EXAMPLES,
        feedforward=2048,
        lr=0.01,
        batch=256,
        seeds=1,
    ),
}
_EPOCHS = 32


class _Repeated(TrainedFigure[Sizes]):
    """Training and held-out error against the number of passes: one panel per depth and rank."""

    name = "repeated"
    keys = ("layers", "rank", "sequences_are", "passes")
    tabled = ("known", "new")
    presets = PRESETS

    def runs(self, settings: Sizes) -> Iterable[RunSpec]:
        """The authors' layers and schedule on sequences that repeat, and on fresh ones."""
        sequences = settings.examples * settings.passes
        steps = sequences // settings.batch
        for layers in settings.layers:
            for rank in settings.ranks:
                task, heads = farthest(settings.dim, settings.points), settings.dim // rank
                cell = Cell(task=task, layers=layers, heads=heads, rank=rank, sequences=sequences)
                scaled = {
                    "model.feedforward": settings.feedforward,
                    "optim.lr": settings.lr,
                    "optim.batch": settings.batch,
                    "optim.steps": steps,
                    "optim.warmup": steps // 20 // (steps // settings.passes) * (steps // settings.passes),
                    "optim.epoch_steps": steps // settings.passes,
                }
                for examples in (settings.examples, None):
                    yield vary(paper(cell), {**scaled, "optim.examples": examples})

    def columns(self, run: RunSpec) -> Mapping[str, Value]:
        """Whether the sequences repeat."""
        return {"sequences_are": "fresh" if run.optim.examples is None else "repeated"}

    def measured(self, trained: TrainedRun) -> Iterable[Mapping[str, Value]]:
        """A row after every 32nd of the training: the error on its own sequences, and on held-out ones."""
        found = trained.result["curve"]
        epochs = list(zip(found["steps"], found["train"], found["validation"], strict=True))
        stride = max(1, len(epochs) // _EPOCHS)
        for number in range(stride, len(epochs) + 1, stride):
            _, known, new = epochs[number - 1]
            yield {"passes": number, "known": known, "new": new}

    def reading(self, settings: Sizes, points: Sequence[Point]) -> list[str]:
        """For every depth and rank: both errors at the end, and what fresh sequences teach instead."""
        lines = []
        for point in select(points, passes=settings.passes, sequences_are="repeated"):
            row = point.row
            words = (
                f"{counted(row.layers, 'layer')}, {counted(row.heads, 'head')} of rank {row.rank}: after "
                f"{settings.passes} passes {point.mean('known'):.3g} on the training sequences, "
                f"{point.mean('new'):.3g} held out"
            )
            for fresh in select(
                points, layers=row.layers, rank=row.rank, passes=settings.passes, sequences_are="fresh"
            ):
                words += f"; on fresh sequences {fresh.mean('new'):.3g}"
            lines.append(words + ".")
        return lines

    def draw(self, settings: Sizes, points: Sequence[Point]) -> Figure:
        """A row of panels per depth, a column per rank."""
        depths, ranks = lines_of(points, "layers"), sorted({point.row.rank for point in points})
        figure = new_figure(3.4 * len(ranks) + 2.0, 3.1 * len(depths) + 0.4)
        panels = figure.subplots(len(depths), len(ranks), squeeze=False, sharex=True, sharey=True)
        for line, (layers, own) in zip(panels, depths.items(), strict=True):
            for axes, rank in zip(line, ranks, strict=True):
                _draw(axes, settings, select(own, rank=rank))
                axes.set_title(f"{counted(int(layers), 'layer')}, rank {rank}", fontsize=10)
        title = f"Farthest of {settings.points} points in {settings.dim} dimensions, $H = d/r$: "
        return titled(figure, list(panels.flat), title + f"{settings.examples:,} repeated sequences, or fresh ones")


def _draw(axes: Axes, settings: Sizes, points: Sequence[Point]) -> None:
    repeated, fresh = (select(points, sequences_are=kind) for kind in ("repeated", "fresh"))
    lines = [
        curve("repeated sequences: training", repeated, x="passes", y="known", color=COLOURS[1], marker=""),
        curve("repeated sequences: held out", repeated, x="passes", y="new", color=COLOURS[0], marker=""),
        curve("fresh sequences: held out", fresh, x="passes", y="new", color=COLOURS[2], marker="", linestyle="--"),
    ]
    row = points[0].row
    found = published("figure1", dim=row.dim, points=row.points, layers=row.layers, exponent=1.0)
    if row.rank in found:
        cross = {settings.passes: found[row.rank]}
        lines.append(Series(label="", x=[], y=[], published=cross, style={"color": "0.2"}))
    draw_series(axes, [line for line in lines if line.x or line.published])
    draw_levels(axes, trivial_errors(settings.dim, settings.points))
    axes.set(xscale="log", yscale="log", xlabel="passes (or as many fresh sequences)", ylabel="squared error per query")


FIGURE = _Repeated()
