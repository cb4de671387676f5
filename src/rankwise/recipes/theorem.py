"""The theorem's own setting: two orthogonal points, one query, one attention layer and nothing else.

    rankwise reproduce theorem        (minutes on two cores; preset full: hours)

Four things on one axis, against the number of heads: trained softmax heads (whole values), trained generalised heads
(scores are a small network of the projected points and the whole query; values a multiple of the identity), random
rank-1 features with their best weights (closed form, mean of five draws), and the lower bound. Nothing may lie below
the bound that holds for it by more than four standard errors: softmax heads are held against the bound for any values,
the other two against the sharper one for scaled-identity values.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from statistics import fmean, stdev
from typing import TYPE_CHECKING

from rankwise.recipes.cells import budget
from rankwise.recipes.rows import Point, Value, lines_of
from rankwise.recipes.trained_figure import Settings, TrainedFigure
from rankwise.report.figures import COLOURS, MARKERS, new_figure, ramp
from rankwise.report.panels import Series, draw_levels, draw_series, heads_axes
from rankwise.spec import NeighborSpec, RunSpec, vary
from rankwise.theory.bounds import Values, error_lower_bound
from rankwise.theory.kernels import optimal_weights, random_features
from rankwise.train.protocols import Cell, capacity

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_DRAWS = 5
STANDARD_ERRORS = 4.0
_SCORE_WIDTH = 32
_ROUNDING = 1e-9
_BOUND_FOR: dict[str, Values] = {"softmax": "any", "generalised": "scaled_identity", "random": "scaled_identity"}
_LABELS = {"softmax": "softmax heads", "generalised": "generalised heads", "random": "random heads, best weights"}
_LINES: dict[Values, str] = {"scaled_identity": "-", "any": "--"}


@dataclass(frozen=True, kw_only=True)
class Grid:
    """Ranks and numbers of heads in one dimension."""

    ranks: tuple[int, ...]
    heads: tuple[int, ...]


def _every_rank(dim: int) -> Grid:
    """r = 1..d, and H = 1, 2, 4, ..., 4d."""
    return Grid(ranks=tuple(range(1, dim + 1)), heads=tuple(2**step for step in range((4 * dim).bit_length())))


@dataclass(frozen=True, kw_only=True)
class Sizes(Settings):
    """A grid for each dimension."""

    sequences: int
    grids: Mapping[int, Grid]


PRESETS = {
    "smoke": Sizes(sequences=64_000, grids={8: Grid(ranks=(1, 8), heads=(1, 8))}, seeds=1),
    "demo": Sizes(sequences=128_000, grids={8: Grid(ranks=(1, 4, 7, 8), heads=(1, 4, 16))}, seeds=1),
    "laptop": Sizes(
        sequences=256_000,
        grids={
            8: Grid(ranks=(1, 2, 4, 6, 7, 8), heads=(1, 8, 32)),
            16: Grid(ranks=(1, 4, 8, 12, 16), heads=(1, 16, 64)),
            32: Grid(ranks=(1, 16, 32), heads=(1, 32, 128)),
        },
    ),
    "full": Sizes(sequences=256_000, grids={dim: _every_rank(dim) for dim in (8, 16, 32)}),
}


class _Theorem(TrainedFigure[Sizes]):
    """Error against heads: one panel per dimension, a colour per rank, a marker per kind of heads."""

    name = "theorem"
    keys = ("dim", "rank", "heads", "kind")
    tabled = ("error", "bound")
    presets = PRESETS

    def runs(self, settings: Sizes, *, sequences: int | None = None) -> Iterable[RunSpec]:
        """The trained heads of the figure; the rest is closed form."""
        seen = budget(sequences, settings.sequences)
        for dim, grid in settings.grids.items():
            task = NeighborSpec(name="nearest", dim=dim, points=2, distribution="orthogonal")
            for rank in grid.ranks:
                for heads in grid.heads:
                    run = capacity(Cell(task=task, heads=heads, rank=rank, sequences=seen))
                    bare = vary(run, {"model.residual": "none", "model.bias": False, "model.init": "standard"})
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
        telling = [p for p in points if p.row.rank < p.row.dim and p.mean("bound") > 0.01]
        if telling:
            closest = min(telling, key=lambda point: point.error / point.mean("bound"))
            row = closest.row
            lines.append(
                f"The closest trained one is {closest.get('kind')} heads, d = {row.dim}, r = {row.rank}, "
                f"H = {row.heads}: {closest.error:.3f} against {closest.mean('bound'):.3f}."
            )
        return lines

    def draw(self, settings: Sizes, points: Sequence[Point]) -> Figure:
        """One panel per dimension."""
        dims = lines_of(points, "dim")
        figure = new_figure(4.6 * len(dims), 5.0)
        for axes, own in zip(figure.subplots(1, len(dims), squeeze=False)[0], dims.values(), strict=True):
            draw_dimension(axes, own)
        figure.suptitle("Nearest of two orthogonal points, one bare attention layer", fontsize=11)
        return figure


def below_bound(points: Sequence[Point]) -> list[Point]:
    """The points that would refute the bound: there must be none."""
    return [p for p in points if p.error + STANDARD_ERRORS * p.spread() < p.mean("bound") * (1 - _ROUNDING)]


@cache
def random_feature_errors(dim: int, heads: int) -> tuple[float, float]:
    """Rank-1 hardmax heads drawn at random with the weights that are best for them: mean and standard error of five
    draws, none of which may lie below the bound at all, because these errors are exact."""
    errors = [optimal_weights(*random_features(dim, heads, draw))[1] for draw in range(_DRAWS)]
    assert min(errors) >= _bound(dim, 1, heads, "scaled_identity") * (1 - _ROUNDING)
    return fmean(errors), stdev(errors) / math.sqrt(_DRAWS)


def draw_dimension(axes: Axes, points: Sequence[Point]) -> None:
    """Error against heads in one dimension."""
    dim, ranks = points[0].row.dim, sorted({point.row.rank for point in points})
    heads = sorted({point.row.heads for point in points})
    colours = dict(zip(ranks, COLOURS if len(ranks) <= len(COLOURS) else ramp(len(ranks)), strict=False))
    fine = [max(heads) ** (step / 60) for step in range(61)]
    lines = []
    for rank, colour in colours.items():
        for values, dashes in _LINES.items():
            named = values == "scaled_identity" and (len(ranks) <= len(COLOURS) or rank in (1, dim // 2, dim))
            label, style = f"bound, r = {rank}" if named else "", {"marker": "", "linestyle": dashes, "linewidth": 1.2}
            y = [_bound(dim, rank, count, values) for count in fine]
            lines.append(Series(label=label, x=fine, y=y, style={"color": colour, **style}))
    marks = [(str(p.get("kind")), p.row.rank, float(p.row.heads), p.error, p.spread()) for p in points]
    if 1 in ranks:
        marks += [("random", 1, float(count), *random_feature_errors(dim, count)) for count in heads]
    for kind, marker in zip(_LABELS, MARKERS, strict=False):
        for rank, colour in colours.items():
            own = [mark[2:] for mark in marks if mark[:2] == (kind, rank)]
            if own:
                x, y, spread = zip(*own, strict=True)
                style = {"color": colour, "marker": marker, "linestyle": "", "fillstyle": "none"}
                lines.append(Series(label="", x=x, y=y, spread=spread, style=style))
    draw_series(axes, lines)
    for kind, marker in zip(_LABELS, MARKERS, strict=False):
        axes.plot([], [], color="0.3", marker=marker, linestyle="", fillstyle="none", label=_LABELS[kind])
    axes.plot([], [], color="0.3", linestyle="--", label="bound, any values")
    draw_levels(axes, {"mean of the points": 0.5})
    heads_axes(axes, heads, f"d = {dim}: trained, random, and the bound")
    axes.legend(fontsize=6.5, ncols=2, loc="upper center", bbox_to_anchor=(0.5, -0.16))


def _bound(dim: int, rank: int, heads: float, values: Values) -> float:
    return error_lower_bound(dim, rank, heads, values=values).value


FIGURE = _Theorem()
