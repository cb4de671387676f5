"""Structured heads: does a full-rank form with few weights buy what rank buys?

    rankwise reproduce structured

Left, the setting of ``cliff``: farthest neighbour, one layer, whole values, error against the score weights of a head.
Right, linear functions in context: the same weights per head as the low rank, spent on structure (Kuang, Amsel et al.
2025, arXiv 2509.07963), beside heads of full rank.

To expect: the best form for the farthest point is -1 times the identity, which every structured form contains and no
low rank comes near. So structure wins on the left by construction; how much of it training finds is the question.
``rotated`` is the control: the same task where the best form is a random rotation.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from rankwise.recipes.cells import TWENTIETH, Sphere, sphere_trainer
from rankwise.recipes.curves import counted, profile
from rankwise.recipes.forms import STYLES, Shape, form_columns, forms_panel, shape_of, shapes, with_form
from rankwise.recipes.points import Point, Value, compared, lines_of, select
from rankwise.recipes.trained_figure import TrainedFigure
from rankwise.report import COLOURS, GUIDE, Panel, Picture, PlotAxis, Series, smooth
from rankwise.spec import InContextSpec, RunSpec
from rankwise.sweep import TrainedRun
from rankwise.tasks import baseline_curves
from rankwise.train import Budget, token_run

_WHOLE = [smooth(colour, "--") for colour in COLOURS[3:5]]


@dataclass(frozen=True, kw_only=True)
class Sizes(Sphere):
    """Every shape with every number of heads on the sphere, and some in context."""

    shapes: tuple[Shape, ...]
    task: InContextSpec
    """Learned in context by three layers of width ``width``."""
    width: int
    context_shapes: Mapping[int, Sequence[Shape]]
    """By the number of heads."""
    budget: Budget
    prompts: int = 1024


class _Structured(TrainedFigure[Sizes]):
    """Error against score weights for every form, and error against examples in context (``after_K``)."""

    name = "structured"
    keys = ("task", "heads", "form", "rank", "blocks")
    tabled = ("weights", "error")

    def runs(self, settings: Sizes, *, sequences: int | None = None) -> Iterable[RunSpec]:
        """Every shape on both tasks."""
        train = sphere_trainer(settings, sequences)
        for heads in settings.heads:
            for shape in settings.shapes:
                yield with_form(train(heads=heads, rank=shape[1]), shape, settings.dim)
        for heads, some in settings.context_shapes.items():
            for shape in some:
                layers = {"dim": settings.width, "layers": 3, "heads": heads, "rank": shape[1]}
                run = token_run(settings.task, settings.budget, **layers)
                yield with_form(run, shape, settings.width // heads)

    def columns(self, run: RunSpec) -> Mapping[str, Value]:
        return {"task": run.task.name, **form_columns(run)}

    def measured(self, trained: TrainedRun) -> Iterable[Mapping[str, Value]]:
        by_examples = trained.result.get("details", {}).get("by_examples", [])
        yield {f"after_{count}": float(error) for count, error in enumerate(by_examples)}

    def reading(self, settings: Sizes, points: Sequence[Point]) -> list[str]:
        """The fewest structured weights beside a low rank of as many, on both tasks."""
        lines = [
            "The best score matrix for the farthest point is a multiple of the identity. Every structured form holds "
            "it exactly, so that few weights suffice by construction; `rankwise reproduce rotated` is the control."
        ]
        for own in lines_of(select(points, task="farthest"), "heads").values():
            ordered = sorted((p for p in own if p["form"] != "low_rank"), key=lambda p: p["weights"])
            for point in ordered[:1]:
                for plain in select(own, form="low_rank", weights=point["weights"]):
                    found = compared(point, plain, "Structure wins", "Low rank wins", shape_of)
                    lines.append(f"{plain['weights']} score weights per head, {found}")
        context = select(points, task="in_context")
        for plain in [p for p in context if p["form"] == "low_rank" and not _is_whole(p)]:
            for point in [p for p in select(context, weights=plain["weights"]) if p is not plain]:
                lines.append(f"In context, {compared(point, plain, 'Structure wins', 'Low rank wins', shape_of)}")
        whole = [f"{shape_of(point)} {point.told()}" for point in context if _is_whole(point)]
        return [*lines, *(f"In context, full rank: {one}." for one in whole)]

    def picture(self, settings: Sizes, points: Sequence[Point]) -> Picture:
        """One panel per number of heads, and one for the other task."""
        place = f"farthest of {settings.points}, $d = {settings.dim}$"
        panels = [
            forms_panel(f"{place}: {counted(heads, 'head')}", own, settings.levels)
            for heads, own in lines_of(select(points, task="farthest"), "heads").items()
        ]
        panels.append(_context_panel(settings, select(points, task="in_context")))
        title = "Structured heads: full rank at the weights of a low rank"
        return Picture(title=title, panels=[panels], share_y=False, size=(4.3, 4.3))


def _is_whole(point: Point) -> bool:
    return bool(point["form"] == "low_rank" and point["rank"] == point["dim"])


def _context_panel(settings: Sizes, points: Sequence[Point]) -> Panel:
    task, counts, series = settings.task, range(settings.task.points), []
    for point in points:
        style = _WHOLE[point["heads"] > 1] if _is_whole(point) else STYLES[point["form"]]
        label = f"{shape_of(point)}: {point['weights']} weights"
        series.append(profile(label, point, [f"after_{count}" for count in counts], counts, **style))
    squares = baseline_curves(task, settings.prompts)["least squares"]
    series.append(Series(label="least squares", x=counts, y=squares, style=smooth(GUIDE, ":", 1.0)))
    return Panel(
        title=f"linear functions of {task.dim} dimensions in context",
        x=PlotAxis(label="examples in the prompt", ticks=counts[:: -(-task.points // 12)]),
        y=PlotAxis(label="squared error / variance of f", low=0, high=1.4),
        series=series,
        legend="below",
        legend_columns=2,
    )


FIGURE = _Structured(
    smoke=Sizes(
        dim=16,
        points=8,
        heads=(1,),
        sequences=32_000,
        shapes=(*shapes("low_rank", None, 4, 16), *shapes("block_low_rank", 4, 2), *shapes("monarch", 4, 1)),
        task=InContextSpec(function="linear", dim=2, points=5),
        width=16,
        context_shapes={4: (*shapes("low_rank", None, 4), *shapes("monarch", 4, 1))},
        budget=Budget(steps=60, batch=32, held_out=128),
        seeds=1,
        prompts=64,
    ),
    laptop=Sizes(
        dim=16,
        points=8,
        heads=(1, 4),
        sequences=96_000,
        shapes=(
            *shapes("low_rank", None, 1, 2, 4, 6, 8, 12, 15, 16),
            *shapes("block_low_rank", 8, 1),
            *shapes("block_low_rank", 4, 2, 4),
            *shapes("block_low_rank", 2, 4),
            *shapes("monarch", 4, 1, 2, 4),
        ),
        task=InContextSpec(function="linear", dim=10, points=16),
        width=64,
        context_shapes={
            8: (("low_rank", 8, None), ("block_low_rank", 4, 8), ("monarch", 1, 8), ("low_rank", 64, None)),
            1: shapes("low_rank", None, 64),
        },
        budget=Budget(steps=3000, batch=64, held_out=1024, weight_decay=0.0),
    ),
    full=Sizes(
        dim=64,
        points=16,
        heads=(1, 8),
        sequences=TWENTIETH,
        shapes=(
            *shapes("low_rank", None, 4, 8, 16, 32, 48, 63, 64),
            *shapes("block_low_rank", 8, 4, 8),
            *shapes("block_low_rank", 4, 16),
            *shapes("monarch", 8, 1, 2, 4),
        ),
        task=InContextSpec.published("linear"),
        width=256,
        context_shapes={
            8: (*shapes("low_rank", None, 32, 16, 256), ("block_low_rank", 8, 16), ("monarch", 1, 16)),
            1: shapes("low_rank", None, 256),
        },
        budget=Budget(steps=500_000, batch=64, lr=1e-3, held_out=1024, weight_decay=0.0),
        seeds=1,
    ),
)
