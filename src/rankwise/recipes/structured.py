"""Structured heads: does a full-rank form with few weights buy what rank buys?

    rankwise reproduce structured

Left, the setting of ``cliff``: farthest neighbour, one layer, whole values, error against the score weights of a head.
A plain head of rank r has 2 d r of them. Right, linear functions in context: the same weights per head as the low rank,
spent on structure (Kuang, Amsel et al. 2025, arXiv 2509.07963), beside heads of full rank. No biases, so that equal
weights are equal parameters.

To expect: the best form for the farthest point is -1 times the identity, which every structured form contains and no
low rank comes near. So structure must win there; how much of it training finds is the question.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from math import prod
from typing import Any, Literal

from rankwise.recipes.cells import TWENTIETH, SphereSizes, cell_trainer, counted, farthest
from rankwise.recipes.marks import ERROR, Value, curve, lines_of, select, ticked
from rankwise.recipes.rows import Point
from rankwise.recipes.tokens.in_context import baseline_curves
from rankwise.recipes.tokens.runs import comparison
from rankwise.recipes.trained_figure import TrainedFigure
from rankwise.report import COLOURS, GUIDE, MARKERS, Panel, Picture, PlotAxis, Series, smooth
from rankwise.spec import InContextSpec, RunSpec, vary
from rankwise.sweep import TrainedRun
from rankwise.tasks import trivial_errors
from rankwise.train import Budget, token_run

Form = Literal["low_rank", "block_low_rank", "monarch"]
_STYLES: dict[str, dict[str, Any]] = {
    form: {"color": colour, "marker": marker}
    for form, colour, marker in zip(("low_rank", "block_low_rank", "monarch"), COLOURS, MARKERS, strict=False)
}
_WHOLE = [smooth(colour, "--") for colour in COLOURS[3:5]]
_NAMES = {"low_rank": "low rank", "block_low_rank": "blocks + low rank", "monarch": "Monarch"}


@dataclass(frozen=True, kw_only=True)
class Sizes(SphereSizes):
    """The two settings of a preset; a shape is (form, rank, blocks)."""

    heads: tuple[int, ...]
    shapes: tuple[tuple[Form, int, int | None], ...]
    task: InContextSpec
    """Learned in context by three layers of width ``width``."""
    width: int
    context_shapes: tuple[tuple[int, Form, int, int | None], ...]
    """The same with the number of heads before."""
    budget: Budget
    prompts: int = 1024


def _low_ranks(*ranks: int) -> tuple[tuple[Form, int, int | None], ...]:
    return tuple(("low_rank", rank, None) for rank in ranks)


PRESETS = {
    "smoke": Sizes(
        dim=16,
        points=8,
        heads=(1,),
        sequences=32_000,
        shapes=(*_low_ranks(4, 16), ("block_low_rank", 2, 4), ("monarch", 1, 4)),
        task=InContextSpec(function="linear", dim=2, points=5),
        width=16,
        context_shapes=((4, "low_rank", 4, None), (4, "monarch", 1, 4)),
        budget=Budget(steps=60, batch=32, held_out=128),
        seeds=1,
        prompts=64,
    ),
    "laptop": Sizes(
        dim=16,
        points=8,
        heads=(1, 4),
        sequences=96_000,
        shapes=(
            *_low_ranks(1, 2, 4, 6, 8, 12, 15, 16),
            ("block_low_rank", 1, 8),
            ("block_low_rank", 2, 4),
            ("block_low_rank", 4, 4),
            ("block_low_rank", 4, 2),
            ("monarch", 1, 4),
            ("monarch", 2, 4),
            ("monarch", 4, 4),
        ),
        task=InContextSpec(function="linear", dim=10, points=16),
        width=64,
        context_shapes=(
            (8, "low_rank", 8, None),
            (8, "block_low_rank", 4, 8),
            (8, "monarch", 1, 8),
            (8, "low_rank", 64, None),
            (1, "low_rank", 64, None),
        ),
        budget=Budget(steps=3000, batch=64, held_out=1024, weight_decay=0.0),
    ),
    "full": Sizes(
        dim=64,
        points=16,
        heads=(1, 8),
        sequences=TWENTIETH,
        shapes=(
            *_low_ranks(4, 8, 16, 32, 48, 63, 64),
            ("block_low_rank", 4, 8),
            ("block_low_rank", 8, 8),
            ("block_low_rank", 16, 4),
            ("monarch", 1, 8),
            ("monarch", 2, 8),
            ("monarch", 4, 8),
        ),
        task=InContextSpec.published("linear"),
        width=256,
        context_shapes=(
            (8, "low_rank", 32, None),
            (8, "low_rank", 16, None),
            (8, "block_low_rank", 8, 16),
            (8, "monarch", 1, 16),
            (8, "low_rank", 256, None),
            (1, "low_rank", 256, None),
        ),
        budget=Budget(steps=500_000, batch=64, lr=1e-3, held_out=1024, weight_decay=0.0),
        seeds=1,
    ),
}


class _Structured(TrainedFigure[Sizes]):
    """Error against score weights for every form, and error against examples in context."""

    name = "structured"
    keys = ("task", "heads", "form", "rank", "blocks")
    tabled = ("weights", "error")
    presets = PRESETS

    def runs(self, settings: Sizes, *, sequences: int | None = None) -> Iterable[RunSpec]:
        """Every shape on both tasks; values do not depend on the form."""
        train, task = cell_trainer(sequences, settings.sequences), farthest(settings.dim, settings.points)
        for heads in settings.heads:
            for form, rank, blocks in settings.shapes:
                yield _structured(train(task, heads=heads, rank=rank), form, blocks, settings.dim)
        for heads, form, rank, blocks in settings.context_shapes:
            shape = {"dim": settings.width, "layers": 3, "heads": heads, "rank": rank}
            yield _structured(token_run(settings.task, settings.budget, **shape), form, blocks, settings.width // heads)

    def columns(self, run: RunSpec) -> Mapping[str, Value]:
        """The form, and the score weights of a head."""
        attention = run.model.attention
        weights = sum(map(prod, attention.score_shapes().values())) // attention.heads
        form = {"form": attention.score_form, "blocks": attention.blocks or 0}
        return {"task": run.task.name, **form, "weights": weights}

    def measured(self, trained: TrainedRun) -> Iterable[Mapping[str, Value]]:
        """In context: ``after_K`` is the error after K examples."""
        by_examples = trained.result.get("details", {}).get("by_examples", [])
        yield {f"after_{count}": float(error) for count, error in enumerate(by_examples)}

    def reading(self, settings: Sizes, marks: Sequence[Point]) -> list[str]:
        """What structure reaches at the weights of a low rank, and what rank costs that reaches the same."""
        lines = []
        for own in lines_of(select(marks, task="farthest"), "heads").values():
            for form in ("block_low_rank", "monarch"):
                lines += [f"{_shape(point)}: {_beside(point, own)}" for point in select(own, form=form)]
        context = select(marks, task="in_context")
        for plain in select(context, form="low_rank", heads=settings.context_shapes[0][0]):
            same = [p for p in context if p.get("form") != "low_rank" and p.get("weights") == plain.get("weights")]
            for point in same:
                found = comparison(point, plain, "Structure wins", "Low rank wins")
                lines.append(f"In context, {_shape(point)}: {_error(point)}; {_shape(plain)}: {_error(plain)}. {found}")
        lines += [f"In context, {_shape(point)}: {_error(point)}." for point in context if _is_whole(point)]
        return lines

    def picture(self, settings: Sizes, marks: Sequence[Point]) -> Picture:
        """One panel per number of heads, and one for the other task."""
        levels, panels = trivial_errors(settings.dim, settings.points), []
        for heads, own in lines_of(select(marks, task="farthest"), "heads").items():
            panels.append(
                Panel(
                    title=f"farthest of {settings.points}, $d = {settings.dim}$: {counted(heads, 'head')}",
                    x=ticked(_apart(select(own, form="low_rank")), "weights", "score weights of a head"),
                    y=ERROR,
                    series=[_line(form, line) for form, line in lines_of(own, "form").items()],
                    levels=levels,
                    legend="below",
                    legend_columns=3,
                )
            )
        panels.append(_context_panel(settings, select(marks, task="in_context")))
        title = "Structured heads: full rank at the weights of a low rank"
        return Picture(title=title, panels=[panels], share_y=False, size=(4.3, 4.3))


def _structured(run: RunSpec, form: Form, blocks: int | None, value_rank: int) -> RunSpec:
    changes = {"model.value_rank": value_rank, "model.bias": False, "model.score_form": form}
    return vary(run, changes | ({} if blocks is None else {"model.blocks": blocks}))


def _is_whole(point: Point) -> bool:
    return point.get("form") == "low_rank" and point.row.rank == point.row.dim


def _shape(point: Point) -> str:
    rank, blocks, heads = point.row.rank, point.get("blocks"), counted(point.row.heads, "head")
    if point.get("form") == "low_rank":
        return f"{heads} of rank {rank}"
    of = f"{blocks} blocks + rank {rank}" if point.get("form") == "block_low_rank" else f"Monarch of {blocks} blocks"
    return f"{heads} of {of}" + (f", tile rank {rank}" if point.get("form") == "monarch" and rank > 1 else "")


def _error(point: Point) -> str:
    return f"{point.error:.3g} ± {point.spread():.2g}"


def _beside(point: Point, points: Sequence[Point]) -> str:
    """The structured point beside the low rank of as many weights, and the weights of the first as good low rank."""
    weights = float(point.get("weights"))
    ranks = sorted(select(points, form="low_rank"), key=lambda other: float(other.get("weights")))
    within = [other for other in ranks if float(other.get("weights")) <= weights]
    as_good = next((other for other in ranks if other.error <= point.error), None)
    words = f"{_error(point)} with {weights:g} score weights"
    if within:
        words += f", rank {within[-1].row.rank} with {within[-1].get('weights')} has {_error(within[-1])}"
    if as_good is not None:
        return f"{words}; the first rank as good is {as_good.row.rank}, with {as_good.get('weights')}."
    return f"{words}; no rank is as good."


def _line(form: str, points: Sequence[Point]) -> Series:
    in_order = sorted(points, key=lambda point: float(point.get("weights")))
    return curve(_NAMES[form], in_order, x="weights", **_STYLES[form])


def _apart(points: Sequence[Point]) -> list[Point]:
    """Points whose weights can be ticks of a logarithmic axis without touching, from the last down."""
    last, *others = sorted(points, key=lambda point: -float(point.get("weights")))
    kept = [last]
    for point in others:
        if float(point.get("weights")) <= 0.7 * float(kept[-1].get("weights")):
            kept.append(point)
    return kept


def _context_panel(settings: Sizes, points: Sequence[Point]) -> Panel:
    task, counts = settings.task, range(settings.task.points)
    after = [f"after_{count}" for count in counts]
    series = [
        Series(
            label=f"{_shape(point)}: {point.get('weights')} weights",
            x=counts,
            y=[point.mean(name) for name in after],
            spread=[point.spread(name) for name in after],
            style=_WHOLE[point.row.heads > 1] if _is_whole(point) else _STYLES[str(point.get("form"))],
        )
        for point in points
    ]
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


FIGURE = _Structured()
