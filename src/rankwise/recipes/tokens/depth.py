"""Does depth make up for low rank, and at what cost? Language and images with 1, 2 and 4 layers.

    rankwise reproduce depth

Heads of rank 1, of rank 4 and of full rank (the model's dimension), the number of heads fixed. Performance against the
operations of a forward pass, which together with the seconds of a run is the cost. In the paper's training errors on
the sphere three layers of low rank come near one of full rank (``figure1`` has the held-out errors); here
the feed-forward layers and the value ranks grow along.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from operator import itemgetter

from rankwise.recipes.curves import counted, curves
from rankwise.recipes.points import Point, compared, lines_of, select
from rankwise.recipes.tokens import images, language
from rankwise.recipes.tokens.families import drawn_levels, task_of
from rankwise.recipes.tokens.runs import TokenFigure, split_data
from rankwise.recipes.trained_figure import Settings
from rankwise.report import Panel, Picture, PlotAxis
from rankwise.spec import RunSpec


@dataclass(frozen=True, kw_only=True)
class Sizes(Settings):
    """``base`` is the preset of the tasks whose models are made shallower and deeper."""

    base: str
    layers: tuple[int, ...]
    ranks: tuple[int, ...]


class _Depth(TokenFigure[Sizes]):
    """Performance against operations, for several ranks and depths; one panel per task."""

    name = "depth"
    keys = ("task", "rank", "layers", "parameters", "forward_flops")
    tabled = ("performance", "seconds")

    def runs(self, settings: Sizes, *, data: str | None = None) -> Iterable[RunSpec]:
        """Both tasks; ``data`` is a text file, or a directory of MNIST."""
        for recipe, own in zip((language, images), split_data(data), strict=True):
            base = recipe.FIGURE.settings(settings.base)
            for layers in settings.layers:
                model = {**base.model, "layers": layers}
                yield from replace(base, model=model, sizes=(*settings.ranks, model["dim"])).runs(own)

    def reading(self, settings: Sizes, points: Sequence[Point]) -> list[str]:
        """Whether the deepest model of each low rank reaches the shallowest of full rank, and what it costs."""
        lines = []
        for task, own in lines_of(points, "task").items():
            full = min(select(own, rank=own[0]["dim"]), key=itemgetter("layers"), default=None)
            for rank, line in lines_of(own, "rank").items():
                low = max(line, key=itemgetter("layers"))
                if full is not None and rank < low["dim"] and low["layers"] > full["layers"]:
                    times = low["forward_flops"] / full["forward_flops"]
                    found = compared(low, full, "Depth wins", "Depth does not make up for rank", _shape)
                    lines.append(f"{task}, error with {found} Depth takes {times:.2f} times the operations.")
        return lines

    def picture(self, settings: Sizes, points: Sequence[Point]) -> Picture:
        panels = [_panel(own) for own in lines_of(points, "task").values()]
        title = "Performance against operations: depth beside rank"
        return Picture(title=title, panels=[panels], share_y=False, size=(5.4, 4.0))


def _shape(point: Point) -> str:
    return f"{counted(point['layers'], 'layer')} of rank {point['rank']}"


def _panel(points: Sequence[Point]) -> Panel:
    one, operations = points[0], [float(point["forward_flops"]) for point in points]

    def label(rank: int) -> str:
        return f"rank {rank}{' (full)' * (rank == one['dim'])}"

    ticks = {step * 10.0**power: f"{step}e{power}" for power in range(3, 12) for step in (1, 2, 5)}
    return Panel(
        title=f"{one['task']}: {counted(one['heads'], 'head')}, d = {one['dim']}",
        x=PlotAxis(
            label="operations of a forward pass, one sequence (numbers: layers)",
            scale="log",
            ticks={at: name for at, name in ticks.items() if min(operations) / 2 <= at <= 2 * max(operations)},
        ),
        y=PlotAxis(label=task_of(points).performance),
        series=curves(points, "rank", label, x="forward_flops", y="performance", notes="layers"),
        levels=drawn_levels(points),
        legend="best",
    )


FIGURE = _Depth(
    smoke=Sizes(base="smoke", layers=(1, 2), ranks=(1,), seeds=1),
    laptop=Sizes(base="laptop", layers=(1, 2, 4), ranks=(1, 4)),
    full=Sizes(base="full", layers=(1, 2, 4, 8), ranks=(1, 4, 16)),
)
