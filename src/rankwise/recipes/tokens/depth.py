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

from rankwise.recipes.cells import counted
from rankwise.recipes.marks import curve, lines_of
from rankwise.recipes.rows import Point
from rankwise.recipes.tokens import images, language
from rankwise.recipes.tokens.families import drawn_levels, task_of
from rankwise.recipes.tokens.runs import TokenFigure, comparison, split_data
from rankwise.recipes.trained_figure import Settings
from rankwise.report import Panel, Picture, PlotAxis
from rankwise.spec import RunSpec


@dataclass(frozen=True, kw_only=True)
class Sizes(Settings):
    """``base`` is the preset of the tasks whose models are made shallower and deeper."""

    base: str
    layers: tuple[int, ...]
    ranks: tuple[int, ...]


PRESETS = {
    "smoke": Sizes(base="smoke", layers=(1, 2), ranks=(1,), seeds=1),
    "laptop": Sizes(base="laptop", layers=(1, 2, 4), ranks=(1, 4)),
    "full": Sizes(base="full", layers=(1, 2, 4, 8), ranks=(1, 4, 16)),
}


class _Depth(TokenFigure[Sizes]):
    """Performance against operations, for several ranks and depths."""

    name = "depth"
    presets = PRESETS
    keys = ("task", "rank", "layers", "parameters", "forward_flops")
    tabled = ("performance", "seconds")

    def runs(self, settings: Sizes, *, data: str | None = None) -> Iterable[RunSpec]:
        """Both tasks; ``data`` is a text file, or a directory of MNIST."""
        for recipe, own in zip((language, images), split_data(data), strict=True):
            base = recipe.PRESETS[settings.base]
            for layers in settings.layers:
                yield from replace(base, layers=layers, sizes=(*settings.ranks, base.dim)).runs(own)

    def reading(self, settings: Sizes, marks: Sequence[Point]) -> list[str]:
        """Whether the deepest model of each low rank reaches the shallowest of full rank, and what it costs."""
        lines = []
        for task, own in lines_of(marks, "task").items():
            full = min((point for point in own if _is_full(point)), key=_layers, default=None)
            for rank, line in lines_of(own, "rank").items():
                low = max(line, key=_layers)
                if full is not None and not _is_full(low) and _layers(low) > _layers(full):
                    times = float(low.get("forward_flops")) / float(full.get("forward_flops"))
                    found = comparison(low, full, "Depth wins", "Depth does not make up for rank")
                    lines.append(
                        f"{task}: rank {rank} {_reached(low)}. Full rank {_reached(full)}. {found} "
                        f"The deeper model takes {times:.2f} times the operations."
                    )
        return lines

    def picture(self, settings: Sizes, marks: Sequence[Point]) -> Picture:
        """One panel per task."""
        panels = [_panel(own) for own in lines_of(marks, "task").values()]
        title = "Performance against operations: depth beside rank"
        return Picture(title=title, panels=[panels], share_y=False, size=(5.4, 4.0))


def _is_full(point: Point) -> bool:
    return point.row.rank == point.row.dim


def _layers(point: Point) -> int:
    return point.row.layers


def _reached(point: Point) -> str:
    shown = f"{point.mean('performance'):.3f} ± {point.spread():.3f}"  # performance is the error, or 1 minus it
    return f"with {counted(_layers(point), 'layer')} reaches {shown} {task_of([point]).performance}"


def _panel(points: Sequence[Point]) -> Panel:
    series = [
        curve(f"rank {rank}{' (full)' * _is_full(line[0])}", line, x="forward_flops", y="performance", notes="layers")
        for rank, line in lines_of(points, "rank").items()
    ]
    row, most = points[0].row, max(float(point.get("forward_flops")) for point in points)
    ticks = {step * 10.0**power: f"{step}e{power}" for power in range(3, 12) for step in (1, 2, 5)}
    least = min(float(point.get("forward_flops")) for point in points)
    return Panel(
        title=f"{points[0].get('task')}: {counted(row.heads, 'head')}, d = {row.dim}",
        x=PlotAxis(
            label="operations of a forward pass, one sequence (numbers: layers)",
            scale="log",
            ticks={at: name for at, name in ticks.items() if least / 2 <= at <= 2 * most},
        ),
        y=PlotAxis(label=task_of(points).performance),
        series=series,
        levels=drawn_levels(points),
        legend="best",
    )


FIGURE = _Depth()
