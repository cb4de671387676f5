"""Score forms of a head: low rank, or structured, which is full rank with few weights; and how they are drawn.

Values do not depend on the form, and there are no biases, so that equal score weights are equal parameters.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any, Literal

from rankwise.recipes.curves import ERROR, apart, counted, curve, heads_of
from rankwise.recipes.points import Point, Value, lines_of
from rankwise.report import COLOURS, MARKERS, Panel, PlotAxis
from rankwise.spec import RunSpec, vary

Form = Literal["low_rank", "block_low_rank", "monarch"]
Shape = tuple[Form, int, int | None]
"""Form, rank, blocks."""
NAMES: dict[str, str] = {"low_rank": "low rank", "block_low_rank": "blocks + low rank", "monarch": "Monarch"}
STYLES: dict[str, dict[str, Any]] = {
    form: {"color": colour, "marker": marker} for form, colour, marker in zip(NAMES, COLOURS, MARKERS, strict=False)
}


def shapes(form: Form, blocks: int | None, *ranks: int) -> tuple[Shape, ...]:
    """One form with several ranks."""
    return tuple((form, rank, blocks) for rank in ranks)


def with_form(run: RunSpec, shape: Shape, value_rank: int) -> RunSpec:
    """``run``, whose heads have the shape's rank, with that form."""
    form, _, blocks = shape
    changes = {"model.value_rank": value_rank, "model.bias": False, "model.score_form": form}
    return vary(run, changes | ({} if blocks is None else {"model.blocks": blocks}))


def form_columns(run: RunSpec) -> dict[str, Value]:
    """The form of the scores, and the score weights of a head; a plain head of rank r has 2 d r of them."""
    attention = run.model.attention
    weights = sum(map(math.prod, attention.score_shapes().values())) // attention.heads
    return {"form": attention.score_form, "blocks": attention.blocks or 0, "weights": weights}


def shape_of(point: Point) -> str:
    """8 heads of 4 blocks + rank 2."""
    rank, blocks, heads = point["rank"], point["blocks"], counted(point["heads"], "head")
    if point["form"] == "low_rank":
        return heads_of(point)
    if point["form"] == "block_low_rank":
        return f"{heads} of {blocks} blocks + rank {rank}"
    return f"{heads} of Monarch of {blocks} blocks" + (f", tile rank {rank}" if rank > 1 else "")


def forms_panel(title: str, points: Sequence[Point], levels: Mapping[str, float]) -> Panel:
    """Error against score weights, a line per form."""
    ordered = sorted(points, key=lambda point: (point["weights"], point["rank"]))
    steps = [math.log2(point["weights"]) for point in reversed(ordered) if point["form"] == "low_rank"]
    ticks = [round(2**step) for step in apart(steps, 0.5)]
    return Panel(
        title=title,
        x=PlotAxis(label="score weights of a head", scale="log2", ticks=ticks),
        y=ERROR,
        series=[
            curve(NAMES[form], line, x="weights", **STYLES[form]) for form, line in lines_of(ordered, "form").items()
        ],
        levels=levels,
        legend="below",
        legend_columns=3,
    )
