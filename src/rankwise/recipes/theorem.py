"""The theorem's own setting: two orthogonal points, one query, one attention layer and nothing else.

    rankwise reproduce theorem        (minutes on two cores; preset full: hours)

Four things on one axis, against the number of heads: trained softmax heads (whole values), trained generalised heads
(scores are a small network of the projected points and the whole query; values a multiple of the identity), random
rank-1 features with their best weights (closed form, mean of five draws), and the lower bound. Nothing may lie below
the bound that holds for it by more than four standard errors: softmax heads are held against the bound for any values,
the other two against the sharper one for scaled-identity values.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache

from rankwise.estimate import Estimate
from rankwise.recipes.cells import cell_trainer
from rankwise.recipes.curves import curve, ticked
from rankwise.recipes.points import Point, Value, lines_of
from rankwise.recipes.trained_figure import Settings, TrainedFigure
from rankwise.report import COLOURS, MARKERS, Panel, Picture, PlotAxis, Series, dots, legend_entry, ramp, smooth
from rankwise.spec import NeighborSpec, RunSpec, vary
from rankwise.theory import Values, error_lower_bound, random_head_errors

_DRAWS = 5
STANDARD_ERRORS = 4.0
_SCORE_WIDTH = 32
_ROUNDING = 1e-9
_BARE = {"model.residual": "none", "model.bias": False, "model.init": "standard"}
_BOUND_FOR: dict[str, Values] = {"softmax": "any", "generalised": "scaled_identity", "random": "scaled_identity"}
_LABELS = {"softmax": "softmax heads", "generalised": "generalised heads", "random": "random heads, best weights"}
_LINES: dict[Values, str] = {"scaled_identity": "-", "any": "--"}


@dataclass(frozen=True, kw_only=True)
class Grid:
    """Ranks and numbers of heads in one dimension."""

    ranks: Sequence[int]
    heads: Sequence[int]


@dataclass(frozen=True, kw_only=True)
class Sizes(Settings):
    """A grid for each dimension."""

    sequences: int
    grids: Mapping[int, Grid]


class _Theorem(TrainedFigure[Sizes]):
    """Error against heads: one panel per dimension, a colour per rank, a marker per kind of heads."""

    name = "theorem"
    keys = ("dim", "rank", "heads", "kind")
    tabled = ("error", "bound")

    def runs(self, settings: Sizes, *, sequences: int | None = None) -> Iterable[RunSpec]:
        """The trained heads of the figure; the rest is closed form."""
        train = cell_trainer(sequences, settings.sequences)
        for dim, grid in settings.grids.items():
            task = NeighborSpec(name="nearest", dim=dim, points=2, distribution="orthogonal")
            for rank in grid.ranks:
                for heads in grid.heads:
                    bare = vary(train(task, heads=heads, rank=rank), _BARE)
                    yield vary(bare, {"model.value_rank": dim})
                    yield vary(bare, {"model.temperature": "fixed", "model.generalized": _SCORE_WIDTH})

    def columns(self, run: RunSpec) -> Mapping[str, Value]:
        """The kind of its heads, and the error that no such heads go below."""
        kind = "softmax" if run.model.generalized is None else "generalised"
        return {"kind": kind, "bound": _bound(run.model.dim, run.model.rank, run.model.heads, _BOUND_FOR[kind])}

    def reading(self, settings: Sizes, points: Sequence[Point]) -> list[str]:
        """How many points lie below their bound, and which comes closest."""
        below = below_bound(points)
        verdict = f"{len(below)} of {len(points)} points lie" if below else f"none of {len(points)} points lies"
        lines = [f"Theorem's setting: {verdict} below the bound beyond {STANDARD_ERRORS:g} standard errors."]
        telling = [p for p in points if p["rank"] < p["dim"] and p["bound"] > 0.01]
        if telling:
            closest = min(telling, key=lambda point: point.error / point["bound"])
            which = f"{closest['kind']} heads, d = {closest['dim']}, r = {closest['rank']}, H = {closest['heads']}"
            lines.append(f"The closest ({which}) errs {closest.error:.3f}; its bound is {closest['bound']:.3f}.")
        return lines

    def picture(self, settings: Sizes, points: Sequence[Point]) -> Picture:
        panels = [dimension_panel(own) for own in lines_of(points, "dim").values()]
        title = "Nearest of two orthogonal points, one bare attention layer"
        return Picture(title=title, panels=[panels], share_y=False, size=(4.6, 5.0))


def below_bound(points: Sequence[Point]) -> list[Point]:
    """The points that would refute the bound: there must be none."""
    return [p for p in points if p.error + STANDARD_ERRORS * p.spread() < p["bound"] * (1 - _ROUNDING)]


@cache
def random_feature_errors(dim: int, heads: int) -> Estimate:
    """Rank-1 hardmax heads drawn at random with the weights that are best for them; none of five draws may lie below
    the bound at all, because these errors are exact."""
    errors = [random_head_errors(dim, [heads], draw)[0] for draw in range(_DRAWS)]
    assert min(errors) >= _bound(dim, 1, heads, "scaled_identity") * (1 - _ROUNDING)
    return Estimate.over(errors)


def dimension_panel(points: Sequence[Point]) -> Panel:
    """Error against heads in one dimension."""
    dim, ranks, heads = points[0]["dim"], list(lines_of(points, "rank")), list(lines_of(points, "heads"))
    colours = dict(zip(ranks, COLOURS if len(ranks) <= len(COLOURS) else ramp(len(ranks)), strict=False))
    fine = [max(heads) ** (step / 60) for step in range(61)]
    series = []
    for rank, colour in colours.items():
        for values, dashes in _LINES.items():
            named = values == "scaled_identity" and (len(ranks) <= len(COLOURS) or rank in (1, dim // 2, dim))
            y, label = [_bound(dim, rank, count, values) for count in fine], f"bound, r = {rank}" if named else ""
            series.append(Series(label=label, x=fine, y=y, style=smooth(colour, dashes, 1.2)))
    markers = dict(zip(_LABELS, MARKERS, strict=False))
    for kind, line in lines_of(points, "kind").items():
        for rank, own in lines_of(line, "rank").items():
            series.append(curve("", own, x="heads", **dots(colours[rank], markers[kind], fillstyle="none")))
    if 1 in ranks:
        found = [random_feature_errors(dim, count) for count in heads]
        means, spread = [one.mean for one in found], [one.standard_error for one in found]
        random = dots(colours[1], markers["random"], fillstyle="none")
        series.append(Series(label="", x=heads, y=means, spread=spread, style=random))
    for kind, marker in markers.items():
        series.append(legend_entry(_LABELS[kind], **dots("0.3", marker, fillstyle="none")))
    series.append(legend_entry("bound, any values", **smooth("0.3", "--")))
    return Panel(
        title=f"d = {dim}: trained, random, and the bound",
        x=ticked(points, "heads", "heads"),
        y=PlotAxis(label="squared error per query", low=0),
        series=series,
        levels={"mean of the points": 0.5},
        legend="below",
        legend_columns=2,
    )


def _bound(dim: int, rank: int, heads: float, values: Values) -> float:
    return error_lower_bound(dim, rank, heads, values=values).value


FIGURE = _Theorem(
    smoke=Sizes(sequences=64_000, grids={8: Grid(ranks=(1, 8), heads=(1, 8))}, seeds=1),
    demo=Sizes(sequences=128_000, grids={8: Grid(ranks=(1, 4, 7, 8), heads=(1, 4, 16))}, seeds=1),
    laptop=Sizes(
        sequences=256_000,
        grids={
            8: Grid(ranks=(1, 2, 4, 6, 7, 8), heads=(1, 8, 32)),
            16: Grid(ranks=(1, 4, 8, 12, 16), heads=(1, 16, 64)),
            32: Grid(ranks=(1, 16, 32), heads=(1, 32, 128)),
        },
    ),
    full=Sizes(
        sequences=256_000,
        grids={d: Grid(ranks=range(1, d + 1), heads=[2**k for k in range((4 * d).bit_length())]) for d in (8, 16, 32)},
    ),
)
