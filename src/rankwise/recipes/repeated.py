"""Memorised or learned? The authors' layers on few sequences that repeat, and on as many fresh ones.

    rankwise reproduce repeated
    rankwise reproduce repeated --preset full --only layers=3 rank=8 sequences_are=repeated

The second command is one cell with the authors' schedule at its full length: three layers of 8 heads of rank 8, 1000
passes over 25,600 sequences, with a warm-up of 50. It takes hours; stopped, it continues.

The numbers of the paper's Figure 1 are errors on 25,600 sequences after 1000 passes over them. Here the authors' layers
are trained by their schedule on a fixed set of sequences, and on fresh ones for as many steps; the error on the
training sequences and on held-out ones is shown against the number of passes. Where the two part, the layers have
memorised. The laptop size has about as many parameters per training target as the paper.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from rankwise.recipes.cells import Sphere, farthest
from rankwise.recipes.curves import ERROR, counted, curve, heads_of
from rankwise.recipes.paper_figures import published
from rankwise.recipes.points import Point, Value, lines_of, select
from rankwise.recipes.trained_figure import TrainedFigure
from rankwise.report import COLOURS, Panel, Picture, PlotAxis, Series, smooth
from rankwise.spec import RunSpec, vary
from rankwise.sweep import TrainedRun
from rankwise.train import PAPER_EXAMPLES, PAPER_SEQUENCES, Cell, paper

_SHOWN = 24


@dataclass(frozen=True, kw_only=True)
class Sizes(Sphere):
    """``dim / rank`` heads; ``examples`` different sequences, which are repeated until ``sequences`` are seen."""

    examples: int
    feedforward: int
    lr: float = 0.005
    batch: int = 64

    @property
    def passes(self) -> int:
        """How often each example is trained on."""
        return self.sequences // self.examples


class _Repeated(TrainedFigure[Sizes]):
    """Training and held-out error against the number of passes: a row of panels per depth, a column per rank.

    ``known`` is the mean error on the sequences trained on in a pass, ``new`` the error on held-out ones after it.
    """

    name = "repeated"
    keys = ("layers", "rank", "sequences_are", "passes")
    tabled = ("known", "new")

    def runs(self, settings: Sizes) -> Iterable[RunSpec]:
        """The authors' layers and schedule on sequences that repeat, and on fresh ones."""
        epoch = settings.examples // settings.batch
        scaled = {
            "model.feedforward": settings.feedforward,
            "optim.lr": settings.lr,
            "optim.batch": settings.batch,
            "optim.steps": settings.passes * epoch,
            "optim.warmup": settings.passes // 20 * epoch,
            "optim.epoch_steps": epoch,
        }
        for layers in settings.layers:
            for rank in settings.ranks:
                task, heads = farthest(settings.dim, settings.points), settings.dim // rank
                cell = Cell(task=task, layers=layers, heads=heads, rank=rank, sequences=settings.sequences)
                for examples in (settings.examples, None):
                    yield vary(paper(cell), {**scaled, "optim.examples": examples})

    def columns(self, run: RunSpec) -> Mapping[str, Value]:
        return {"sequences_are": "fresh" if run.optim.examples is None else "repeated"}

    def measured(self, trained: TrainedRun) -> Iterable[Mapping[str, Value]]:
        """A row after some of the passes."""
        found = trained.result["curve"]
        for passes in shown_passes(len(found["train"])):
            yield {"passes": passes, "known": found["train"][passes - 1], "new": found["validation"][passes - 1]}

    def reading(self, settings: Sizes, points: Sequence[Point]) -> list[str]:
        """For every depth and rank: both errors at the end, and what fresh sequences teach instead."""
        lines, last = [], select(points, passes=settings.passes)
        for point in select(last, sequences_are="repeated"):
            layers, rank = point["layers"], point["rank"]
            words = f"{counted(layers, 'layer')} of {heads_of(point)}: training error {point.told('known')}, "
            words += f"held-out error {point.told('new')}."
            for fresh in select(last, layers=layers, rank=rank, sequences_are="fresh"):
                words += f" As many fresh sequences: {fresh.told('new')}."
            value = _published(point)
            lines.append(words + (f" The paper: {value:.3g} (training error)." if value else ""))
        return lines

    def picture(self, settings: Sizes, points: Sequence[Point]) -> Picture:
        ranks = lines_of(points, "rank")
        panels = [
            [_panel(settings, found) if (found := select(own, rank=rank)) else None for rank in ranks]
            for own in lines_of(points, "layers").values()
        ]
        title = f"{settings.place.capitalize()}, $H = d/r$:\n{settings.examples:,} repeated sequences, or fresh ones"
        return Picture(title=title, panels=panels, legend="right", size=(3.4, 3.2))


def _panel(settings: Sizes, points: Sequence[Point]) -> Panel:
    """Training and held-out error of one depth and rank against passes."""
    repeated, fresh = (select(points, sequences_are=kind) for kind in ("repeated", "fresh"))
    value = _published(points[0])
    series = [
        curve("repeated sequences: training", repeated, x="passes", y="known", **smooth(COLOURS[1])),
        curve("repeated sequences: held out", repeated, x="passes", y="new", **smooth(COLOURS[0])),
        curve("fresh sequences: held out", fresh, x="passes", y="new", **smooth(COLOURS[2], "--")),
        Series(label="", x=[], y=[], published={settings.passes: value} if value else None, style={"color": "0.2"}),
    ]
    return Panel(
        title=f"{counted(points[0]['layers'], 'layer')}, rank {points[0]['rank']}",
        x=PlotAxis(label="passes (or as many fresh sequences)", scale="log"),
        y=ERROR,
        series=[line for line in series if line.x or line.published],
        levels=settings.levels,
    )


def shown_passes(count: int) -> list[int]:
    """Some of the passes 1 to ``count``, evenly spaced in their logarithm, the last among them."""
    return sorted({round(count ** (step / _SHOWN)) for step in range(_SHOWN + 1)})


def _published(point: Point) -> float | None:
    """The paper's training error of this cell, at its size alone."""
    size = {name: point[name] for name in ("dim", "points", "layers")}
    return published("figure1", **size, exponent=1.0).get(point["rank"])


FIGURE = _Repeated(
    smoke=Sizes(dim=16, points=8, layers=(3,), ranks=(8,), examples=256, sequences=128 * 256, feedforward=128, seeds=1),
    laptop=Sizes(dim=16, points=8, ranks=(2, 8, 16), examples=3072, sequences=200 * 3072, feedforward=512),
    full=Sizes(
        dim=64,
        points=16,
        ranks=(8, 32, 64),
        examples=PAPER_EXAMPLES,
        sequences=PAPER_SEQUENCES,
        feedforward=2048,
        lr=0.01,
        batch=256,
        seeds=1,
    ),
)
