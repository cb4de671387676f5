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
from dataclasses import replace

from rankwise.recipes import structured
from rankwise.recipes.cells import cell_trainer, farthest
from rankwise.recipes.forms import form_columns, forms_panel, shape_of, with_form
from rankwise.recipes.points import Point, Value, lines_of, select
from rankwise.recipes.trained_figure import TrainedFigure
from rankwise.report import Picture
from rankwise.spec import RunSpec
from rankwise.tasks import levels_of

_SEED = 0  # of the rotation


class _Rotated(TrainedFigure[structured.Sizes]):
    """Error against score weights for one head of every form: left without a rotation, right with one."""

    name = "rotated"
    keys = ("rotated", "form", "rank", "blocks")
    tabled = ("weights", "error")

    def runs(self, settings: structured.Sizes, *, sequences: int | None = None) -> Iterable[RunSpec]:
        """Every shape on both tasks."""
        train, plain = cell_trainer(sequences, settings.sequences), farthest(settings.dim, settings.points)
        for task in (plain, replace(plain, rotation=_SEED)):
            for shape in settings.shapes:
                yield with_form(train(task, heads=1, rank=shape[1]), shape, settings.dim)

    def columns(self, run: RunSpec) -> Mapping[str, Value]:
        return {"rotated": "no" if run.neighbors.rotation is None else "yes", **form_columns(run)}

    def reading(self, settings: structured.Sizes, points: Sequence[Point]) -> list[str]:
        """What the rotation costs the fewest weights, and what structure gains over a low rank of as many."""
        lines, turned = [], sorted(select(points, rotated="yes"), key=lambda point: point["weights"])
        forms, plain = ([p for p in turned if (p["form"] == "low_rank") == low] for low in (False, True))
        for point in forms[:1]:
            for before in select(points, rotated="no", **{key: point[key] for key in self.keys[1:]}):
                both = f"{before.told()} without the rotation, {point.told()} with it"
                lines.append(f"{point['weights']} score weights, {shape_of(point)}: {both}.")
        pairs = [(point, other) for point in forms for other in select(plain, weights=point["weights"])]
        below = sum(point.below(other) for point, other in pairs)
        found = f"{below} of {len(pairs)} structured shapes err less than the low rank of as many weights"
        lines.append(f"With the rotation {found} (two standard errors decide).")
        for full in select(plain, rank=settings.dim):
            fewer = [point for point in forms if point["weights"] < full["weights"]]
            for best in sorted(fewer, key=lambda point: point.error)[:1]:
                both = f"{shape_of(best)}: {best.told()}; full rank: {full.told()}"
                lines.append(f"The best with fewer weights than full rank, {both}.")
        return lines

    def picture(self, settings: structured.Sizes, points: Sequence[Point]) -> Picture:
        plain, panels = farthest(settings.dim, settings.points), []
        tasks = {"no": ("$T = I$", plain), "yes": ("a random rotation $T$", replace(plain, rotation=_SEED))}
        for kind, own in lines_of(points, "rotated").items():
            name, task = tasks[kind]
            panels.append(forms_panel(name, own, {"best linear": levels_of(task)["best linear"]}))
        title = f"Structured heads with and without a rotation: {settings.place}, one head"
        return Picture(title=title, panels=[panels], size=(4.6, 4.3))


FIGURE = _Rotated(**structured.FIGURE.presets)
