"""Match2 and Match3: wrong answers against heads x rank of one layer, for several numbers of points.

    rankwise reproduce match

Sanford, Hsu and Telgarsky (2023): pairs that sum to 0 are what one small head finds, triples are not; for Match3 one
attention layer needs heads x rank x precision growing almost linearly with N. Match2 is the control. Whether training
finds what a layer could represent is another matter: an upper curve here is what training found.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from rankwise.recipes.curves import curves, ticked
from rankwise.recipes.points import Point, Value, lines_of
from rankwise.recipes.trained_figure import Settings, TrainedFigure
from rankwise.report import Panel, Picture, PlotAxis
from rankwise.spec import MatchSpec, RunSpec
from rankwise.sweep import TrainedRun
from rankwise.train import Budget, token_run


@dataclass(frozen=True, kw_only=True)
class Sizes(Settings):
    """Every number of points with every (heads, rank), for both tasks."""

    points: tuple[int, ...]
    shapes: tuple[tuple[int, int], ...]
    dim: int
    budget: Budget


class _Match(TrainedFigure[Sizes]):
    """Wrong answers against heads x rank, pairs beside triples; ``commoner`` is how often the commoner one is wrong."""

    name = "match"
    keys = ("task", "points", "heads", "rank")
    tabled = ("error", "commoner")

    def runs(self, settings: Sizes) -> Iterable[RunSpec]:
        """Pairs are learned within an eighth of the training; triples keep all of it, they may start late."""
        for points in settings.points:
            for heads, rank in settings.shapes:
                shape = {"dim": settings.dim, "layers": 1, "heads": heads, "rank": rank}
                yield token_run(MatchSpec(name="match2", points=points), replace(settings.budget, patience=2), **shape)
                yield token_run(MatchSpec(name="match3", points=points), settings.budget, **shape)

    def columns(self, run: RunSpec) -> Mapping[str, Value]:
        assert isinstance(run.task, MatchSpec)
        return {"task": run.task.name, "modulus": run.task.modulo, "size": run.model.heads * run.model.rank}

    def measured(self, trained: TrainedRun) -> Iterable[Mapping[str, Value]]:
        details = trained.result["details"]
        yield {"bits": float(details["bits"]), "commoner": min(details["yes"], 1 - details["yes"])}

    def reading(self, settings: Sizes, points: Sequence[Point]) -> list[str]:
        """The fewest wrong answers for every number of points."""
        lines = []
        for task, own in lines_of(points, "task").items():
            for count, line in lines_of(own, "points").items():
                best = min(line, key=lambda point: point.error)
                found = f"the lowest share of wrong answers is {best.error:.3f} ± {best.spread():.3f}"
                trivial = f"Always giving the commoner answer has {best.mean('commoner'):.3f}"
                lines.append(f"{task}, N = {count}: {found}. {trivial}.")
        return lines

    def picture(self, settings: Sizes, points: Sequence[Point]) -> Picture:
        panels = [
            Panel(
                title=task,
                x=ticked(own, "size", "heads x rank"),
                y=PlotAxis(label="share of wrong answers", low=0, high=0.55),
                series=curves(own, "points", "N = {}".format, x="size"),
                levels={"coin": 0.5},
            )
            for task, own in lines_of(points, "task").items()
        ]
        return Picture(title="Pairs and triples that sum to 0, one layer", panels=[panels], legend="right")


FIGURE = _Match(
    smoke=Sizes(points=(4,), shapes=((1, 2), (2, 8)), dim=16, budget=Budget(steps=40, batch=32, held_out=128), seeds=1),
    laptop=Sizes(
        points=(4, 8, 16), shapes=((1, 4), (4, 16), (8, 32)), dim=64, budget=Budget(steps=3000, batch=64, held_out=1024)
    ),
    full=Sizes(
        points=(8, 16, 32, 64),
        shapes=((1, 4), (1, 16), (4, 16), (8, 32), (16, 64)),
        dim=128,
        budget=Budget(steps=50_000, batch=128, lr=1e-3, held_out=4096),
    ),
)
