"""Select, trained: do heads of a rank that suffices learn to select, and what do they gain where codes are fixed?

    rankwise reproduce select-trained

One softmax head with whole values and nothing else, on queries that are noisy copies of one of N codes. New codes in
every example leave nothing to learn but a good projection, and all are equally good: dashed lines are the exact error
of a hand-built hardmax head (``selection_accuracy``). Codes that stay the same can be learned. ``rankwise reproduce
select`` has hand-built heads at every size.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from rankwise.recipes.cells import cell_trainer, farthest
from rankwise.recipes.curves import curves, ticked
from rankwise.recipes.points import Point, Value, lines_of
from rankwise.recipes.trained_figure import Settings, TrainedFigure
from rankwise.report import Panel, Picture, PlotAxis, Series, smooth
from rankwise.spec import RunSpec, SelectSpec, vary
from rankwise.theory import selection_accuracy

_TARGET = 0.01


@dataclass(frozen=True, kw_only=True)
class Sizes(Settings):
    """Every number of codes with every rank, for new codes and for fixed ones."""

    dim: int
    codes: tuple[int, ...]
    ranks: tuple[int, ...]
    noise: float = 0.5
    queries: int = 8
    sequences: int

    def closed(self, codes: int) -> dict[int, float]:
        """By rank, how often a hand-built head chooses another one of new codes than the copied one."""
        return {rank: 1 - selection_accuracy(self.dim, rank, codes, self.noise) for rank in self.ranks}


class _SelectTrained(TrainedFigure[Sizes]):
    """Wrong choices against rank, a panel per number of codes."""

    name = "select-trained"
    keys = ("codes", "kind", "rank")

    def runs(self, settings: Sizes, *, sequences: int | None = None) -> Iterable[RunSpec]:
        """By ``capacity``, with whole values and no residual: what is answered is what is chosen."""
        train = cell_trainer(sequences, settings.sequences)
        for codes in settings.codes:
            for rank in settings.ranks:
                run = train(farthest(settings.dim, codes), heads=1, rank=rank)
                run = vary(run, {"model.value_rank": settings.dim, "model.residual": "none"})
                task = SelectSpec(dim=settings.dim, points=codes, noise=settings.noise, queries=settings.queries)
                yield replace(run, task=task)
                yield replace(run, task=replace(task, codebook=0))

    def columns(self, run: RunSpec) -> Mapping[str, Value]:
        assert isinstance(run.task, SelectSpec)
        return {"codes": run.task.points, "kind": "new" if run.task.codebook is None else "fixed"}

    def reading(self, settings: Sizes, points: Sequence[Point]) -> list[str]:
        """The first rank with at most 1 % wrong choices, beside that of a hand-built head."""
        lines = []
        for codes, own in lines_of(points, "codes").items():
            for kind, line in lines_of(own, "kind").items():
                found = _first({point["rank"]: point.error for point in line})
                lines.append(f"{codes} {kind} codes: {found} learns to be wrong in at most 1 %.")
            lines.append(
                f"{codes} new codes: of hand-built heads, {_first(settings.closed(codes))} is wrong in at most 1 %."
            )
        return lines

    def picture(self, settings: Sizes, points: Sequence[Point]) -> Picture:
        panels = []
        for codes, own in lines_of(points, "codes").items():
            closed = list(settings.closed(codes).values())
            hand = Series(label="new codes, hand-built", x=settings.ranks, y=closed, style=smooth("0.3", "--"))
            y = PlotAxis(label="share of wrong choices", scale="log", low=1e-4)
            series = [*curves(own, "kind", "{} codes, trained".format, x="rank"), hand]
            panels.append(Panel(title=f"$N = {codes}$", x=ticked(own), y=y, series=series, levels={"1 %": _TARGET}))
        title = f"Select, trained: noise {settings.noise:g}, {settings.dim} dimensions, one head"
        return Picture(title=title, panels=[panels], legend="right")


def _first(wrong: Mapping[int, float]) -> str:
    """The first rank that is seldom wrong."""
    return next((f"rank {rank}" for rank, share in wrong.items() if share <= _TARGET), "no rank")


FIGURE = _SelectTrained(
    smoke=Sizes(dim=16, codes=(8,), ranks=(4, 16), sequences=16_000, seeds=1),
    laptop=Sizes(dim=32, codes=(16, 128), ranks=(4, 8, 12, 16, 20, 24, 32), sequences=128_000),
    full=Sizes(dim=64, codes=(16, 128, 1024), ranks=(4, 8, 12, 16, 20, 24, 28, 32, 48, 64), sequences=640_000),
)
