"""Memorised or learned? The authors' layers on few sequences that repeat, and on as many fresh ones.

    rankwise reproduce repeated
    rankwise reproduce repeated --preset full         (the authors' size and length: days; see --only)

The numbers of the paper's Figure 1 are errors on 25,600 sequences after 1000 passes over them. Here the authors' layers
are trained on a fixed set of sequences, and on fresh ones for as many steps; the error on the training sequences and on
held-out ones is shown after every pass. Where the two part, the layers have memorised. The laptop size has about as
many parameters per training target as the paper: 2.2 with three layers (paper 2.1), .7 with one (.7).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from rankwise.recipes.baselines import trivial_errors
from rankwise.recipes.cells import counted, farthest
from rankwise.recipes.marks import ERROR, Value, curve, lines_of, select
from rankwise.recipes.paper_figures import published
from rankwise.recipes.rows import Point
from rankwise.recipes.trained_figure import Settings, TrainedFigure
from rankwise.report.figures import COLOURS
from rankwise.report.panels import Axis, Panel, Picture, Series, smooth
from rankwise.spec import RunSpec, vary
from rankwise.sweep.trained import TrainedRun
from rankwise.train.protocols import PAPER_EXAMPLES, PAPER_SEQUENCES, Cell, paper


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
    "full": Sizes(
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

    def reading(self, settings: Sizes, marks: Sequence[Point]) -> list[str]:
        """For every depth and rank: both errors at the end, and what fresh sequences teach instead."""
        lines = []
        for point in select(marks, passes=settings.passes, sequences_are="repeated"):
            row = point.row
            words = (
                f"{counted(row.layers, 'layer')}, {counted(row.heads, 'head')} of rank {row.rank}: after "
                f"{settings.passes} passes {point.mean('known'):.3g} on the training sequences, "
                f"{point.mean('new'):.3g} held out"
            )
            for fresh in select(marks, layers=row.layers, rank=row.rank, passes=settings.passes, sequences_are="fresh"):
                words += f"; on fresh sequences {fresh.mean('new'):.3g}"
            lines.append(words + ".")
        return lines

    def picture(self, settings: Sizes, marks: Sequence[Point]) -> Picture:
        """A row of panels per depth, a column per rank."""
        ranks = sorted({point.row.rank for point in marks})
        panels = [
            [_panel(settings, found) if (found := select(own, rank=rank)) else None for rank in ranks]
            for own in lines_of(marks, "layers").values()
        ]
        title = f"Farthest of {settings.points} points in {settings.dim} dimensions, $H = d/r$: "
        title += f"{settings.examples:,} repeated sequences, or fresh ones"
        return Picture(title=title, panels=panels, legend="right", size=(3.4, 3.2))


def _panel(settings: Sizes, points: Sequence[Point]) -> Panel:
    """Training and held-out error of one depth and rank against passes."""
    repeated, fresh = (select(points, sequences_are=kind) for kind in ("repeated", "fresh"))
    row = points[0].row
    found = published("figure1", dim=row.dim, points=row.points, layers=row.layers, exponent=1.0)
    cross = {settings.passes: found[row.rank]} if row.rank in found else None
    series = [
        curve("repeated sequences: training", repeated, x="passes", y="known", **smooth(COLOURS[1])),
        curve("repeated sequences: held out", repeated, x="passes", y="new", **smooth(COLOURS[0])),
        curve("fresh sequences: held out", fresh, x="passes", y="new", **smooth(COLOURS[2], "--")),
        Series(label="", x=[], y=[], published=cross, style={"color": "0.2"}),
    ]
    return Panel(
        title=f"{counted(row.layers, 'layer')}, rank {row.rank}",
        x=Axis(label="passes (or as many fresh sequences)", scale="log"),
        y=ERROR,
        series=[line for line in series if line.x or line.published],
        levels=trivial_errors(settings.dim, settings.points),
    )


FIGURE = _Repeated()
