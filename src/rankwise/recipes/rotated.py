"""The control of ``structured``: the same forms where the best score matrix is no longer a multiple of the identity.

    rankwise reproduce rotated

Farthest neighbour by a fixed random rotation T: for every point x_i the x_j with the smallest ``<x_j, T x_i>``. Left
T = I, the runs of ``structured`` with one head: the best form is -1 times the identity, which every structured form
contains. Right T is random, and the best form is -T. Rank d holds it exactly, and so does a Monarch form of full tile
rank. Blocks plus low rank, and smaller tile ranks, hold it only for a set of rotations of measure 0 (derivation,
docs/theory.md).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from rankwise.recipes.cells import TWENTIETH, SphereSizes, cell_trainer, farthest
from rankwise.recipes.forms import Shape, form_columns, forms_panel, shape_of, shapes, with_form
from rankwise.recipes.points import Point, Value, comparison, lines_of, select
from rankwise.recipes.trained_figure import TrainedFigure
from rankwise.report import Picture
from rankwise.spec import RunSpec
from rankwise.tasks import levels_of

_SEED = 0
"""Of the rotation."""


@dataclass(frozen=True, kw_only=True)
class Sizes(SphereSizes):
    """One head of every shape, with and without a rotation."""

    shapes: tuple[Shape, ...]


class _Rotated(TrainedFigure[Sizes]):
    """Error against score weights for every form: left without a rotation, right with one."""

    name = "rotated"
    keys = ("rotated", "form", "rank", "blocks")
    tabled = ("weights", "error")

    def runs(self, settings: Sizes, *, sequences: int | None = None) -> Iterable[RunSpec]:
        """Every shape on both tasks."""
        train, plain = cell_trainer(sequences, settings.sequences), farthest(settings.dim, settings.points)
        for task in (plain, replace(plain, rotation=_SEED)):
            for shape in settings.shapes:
                yield with_form(train(task, heads=1, rank=shape[1]), shape, settings.dim)

    def columns(self, run: RunSpec) -> Mapping[str, Value]:
        return {"rotated": "no" if run.neighbors.rotation is None else "yes", **form_columns(run)}

    def reading(self, settings: Sizes, points: Sequence[Point]) -> list[str]:
        """What the rotation costs the fewest weights, and what structure gains over a low rank of as many."""
        lines, turned = [], select(points, rotated="yes")
        structured = [point for point in turned if point["form"] != "low_rank"]
        for point in sorted(structured, key=lambda point: point["weights"])[:1]:
            for before in select(points, rotated="no", **{key: point[key] for key in self.keys[1:]}):
                both = f"{before.told()} without the rotation, {point.told()} with it"
                lines.append(f"{point['weights']} weights, {shape_of(point)}: {both}.")
        for point in structured:
            for plain in select(turned, form="low_rank", weights=point["weights"]):
                found = comparison(point, plain, "Structure wins", "Low rank wins")
                both = f"{point.told()}; {shape_of(plain)}: {plain.told()}"
                lines.append(f"With the rotation, {shape_of(point)}: {both}. {found}")
        return lines

    def picture(self, settings: Sizes, points: Sequence[Point]) -> Picture:
        plain = farthest(settings.dim, settings.points)
        tasks = {"no": ("$T = I$", plain), "yes": ("a random rotation $T$", replace(plain, rotation=_SEED))}
        panels = [
            forms_panel(tasks[kind][0], own, levels_of(tasks[kind][1]))
            for kind, own in lines_of(points, "rotated").items()
        ]
        title = f"Structured heads with and without a rotation: {settings.place}, one head"
        return Picture(title=title, panels=[panels], size=(4.6, 4.3))


FIGURE = _Rotated(
    smoke=Sizes(
        dim=16,
        points=8,
        sequences=32_000,
        shapes=(*shapes("low_rank", None, 4, 16), *shapes("block_low_rank", 4, 2), *shapes("monarch", 4, 1)),
        seeds=1,
    ),
    laptop=Sizes(
        dim=16,
        points=8,
        sequences=96_000,
        shapes=(
            *shapes("low_rank", None, 2, 4, 8, 12, 15, 16),
            *shapes("block_low_rank", 8, 1),
            *shapes("block_low_rank", 4, 2, 4),
            *shapes("monarch", 4, 1, 2, 4),
        ),
    ),
    full=Sizes(
        dim=64,
        points=16,
        sequences=TWENTIETH,
        shapes=(
            *shapes("low_rank", None, 8, 16, 32, 63, 64),
            *shapes("block_low_rank", 8, 4, 8),
            *shapes("monarch", 8, 1, 2, 8),
        ),
        seeds=1,
    ),
)
