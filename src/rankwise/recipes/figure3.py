"""Figure 3: positions none, additive or concatenated; and concatenated at equal parameters, which the paper has not.

    rankwise reproduce figure3 --preset laptop --seeds 3

Farthest neighbour, H = d^1.5 / r heads. Concatenated positions add d learned coordinates to every point, so that the
stack is 2d wide. The authors cut those 2d coordinates into heads of rank r, so that their concatenated curve has twice
as many heads, and four times the attention parameters, of the others at the same rank. "concatenated, equal" halves the
number of heads and the feed-forward instead: as many parameters as without positions, but for norms and the table. The
paper shows concatenated positions helping low rank much with three layers and little with one.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import geometric_mean
from typing import TYPE_CHECKING, Any, Literal

from rankwise.errors import require_choice
from rankwise.recipes.baselines import trivial_errors
from rankwise.recipes.cells import (
    LATER_SEQUENCES,
    REPEATING,
    TWENTIETH,
    budget,
    chosen_pieces,
    chosen_ranks,
    depth_name,
    seeded_sweep,
    trained_by,
)
from rankwise.recipes.paper_figures import published_figure
from rankwise.recipes.registry import Reproduced
from rankwise.recipes.rows import Mean, ResultRow, mean_over_seeds, result_row
from rankwise.recipes.trained import TrainedRun
from rankwise.report.figures import COLOURS, MARKERS, house_style, new_figure, save_figure
from rankwise.report.panels import Series, draw_levels, draw_series, rank_axes, share_legend
from rankwise.spec import ModelSpec, RunSpec, SweepSpec, heads_for_budget, vary
from rankwise.train.protocols import PAPER_SEQUENCES, PASS, Cell

if TYPE_CHECKING:
    from matplotlib.figure import Figure

Positions = Literal["none", "additive", "concatenated", "concatenated, equal"]
KINDS: tuple[Positions, ...] = ("none", "additive", "concatenated", "concatenated, equal")
KEYS = ("positions",)
_EXPONENT = 1.5
_SHORT = 0.2
"""What positions start with where no norm shortens them: unit points beside rows of length 4.6 (d = 64) are never seen
(LOG.md)."""


@dataclass(frozen=True, kw_only=True)
class Settings:
    """The sizes of a preset; ``sequences`` by the number of layers."""

    dim: int
    points: int
    ranks: tuple[int, ...]
    sequences: dict[int, int]
    full_size: bool = False


PRESETS: dict[str, Settings] = {
    "smoke": Settings(dim=16, points=8, ranks=(4, 16), sequences={1: 32_000}),
    "laptop": Settings(dim=16, points=8, ranks=(2, 4, 8, 16), sequences={1: 64_000, 3: 96_000}),
    "paper": Settings(
        dim=64, points=16, ranks=(1, 2, 4, 8, 16, 32, 64), sequences={1: TWENTIETH, 3: TWENTIETH}, full_size=True
    ),
}


def sweep(
    preset: str = "laptop",
    *,
    protocol: str = "capacity",
    seeds: int = 1,
    sequences: int | None = None,
    pieces: tuple[int, ...] = (),
    ranks: tuple[int, ...] = (),
) -> SweepSpec:
    """The runs of the figure; ``pieces`` chooses curves, counted from 1: all kinds at one depth, then at the next."""
    require_choice("preset", preset, tuple(PRESETS))
    settings = PRESETS[preset]
    curves = [(layers, kind) for layers in settings.sequences for kind in KINDS]
    runs = []
    for layers, kind in chosen_pieces(pieces, curves, preset):
        later = kind != "none"  # the authors' curve without positions is that of figure 1
        for rank in chosen_ranks(ranks, settings.ranks, preset):
            cell = Cell(
                dim=settings.dim,
                points=settings.points,
                layers=layers,
                heads=heads_for_budget(settings.dim, rank, _EXPONENT),
                rank=rank,
                sequences=budget(
                    sequences,
                    settings.sequences[layers],
                    full_size=settings.full_size,
                    protocol=protocol,
                    later=later,
                ),
            )
            runs.append(placed(trained_by(protocol, later=later)(cell), kind))
    return seeded_sweep(f"figure3 ({preset}, {protocol})", runs, seeds, in_order=settings.full_size)


def placed(run: RunSpec, kind: Positions) -> RunSpec:
    """``run``, which has no positions, with positions of that kind."""
    if kind == "none":
        return run
    model, points = run.model, run.neighbors.points
    changes: dict[str, Any] = {"model.positions": kind.partition(",")[0], "model.max_points": points}
    if kind != "additive":
        changes["model.position_dim"] = model.dim
        if model.norm == "none":
            changes["model.position_gain"] = _SHORT
        if run.protocol == "recall" and model.layers > 1:
            changes |= _half_the_rate(run)
    if kind == "concatenated":
        changes["model.heads"] = 2 * model.heads
    elif kind == "concatenated, equal":
        changes["model.heads"] = max(1, model.heads // 2)
        changes["model.average"] = max(1, model.average // 2)
        changes["model.feedforward"] = model.feedforward // 2
    return vary(run, changes)


def _half_the_rate(run: RunSpec) -> dict[str, float]:
    """That of everything but feed-forwards: three layers twice as wide can collapse at the rate of ``recall``, twice
    that of ``capacity`` (LOG.md)."""
    optim = run.optim
    return {
        "optim.lr": optim.lr / 2,
        "optim.lr_multipliers.feedforward": 2 * optim.lr_multipliers.feedforward,
    }


def kind_of(model: ModelSpec) -> Positions:
    """Which kind of positions a model of the figure has."""
    if model.positions == "none" or model.positions == "additive":
        return model.positions
    doubled = model.heads > heads_for_budget(model.dim, model.rank, _EXPONENT)
    return "concatenated" if doubled else "concatenated, equal"


def rows(runs: Sequence[TrainedRun]) -> list[ResultRow]:
    """One row a run, with its positions."""
    return [result_row("figure3", trained, {"positions": kind_of(trained.run.model)}) for trained in runs]


@dataclass(frozen=True, kw_only=True)
class Point:
    """One point of the figure; ``known`` is the error on the sequences trained on, where those come again."""

    layers: int
    positions: str
    rank: int
    mean: Mean
    known: float | None
    authors: float | None


def points_of(rows: Sequence[ResultRow]) -> list[Point]:
    """Seeds averaged; in the order layers, kind, rank."""

    def cell(row: ResultRow) -> tuple[int, int, int]:
        return row.layers, KINDS.index(_kind(row)), row.rank

    again = [row for row in rows if row.protocol in REPEATING and row.sequences >= 2 * PASS]
    known = mean_over_seeds(again, cell, lambda row: row.train_min)
    points = []
    for (layers, kind, rank), mean in mean_over_seeds(rows, cell).items():
        same_size = (mean.row.dim, mean.row.points) == (64, 16)
        curve = published_figure("figure3").curve(layers=layers, positions=KINDS[kind]) if same_size else None
        points.append(
            Point(
                layers=layers,
                positions=KINDS[kind],
                rank=rank,
                mean=mean,
                known=known[layers, kind, rank].error if (layers, kind, rank) in known else None,
                authors=None if curve is None else curve.at(rank),
            )
        )
    return points


def _kind(row: ResultRow) -> Positions:
    return next(kind for kind in KINDS if kind == row.extra["positions"])


def reading(points: Sequence[Point]) -> str:
    """How much positions help below full rank, by depth: on new sequences, and on those that came again."""
    full = points[0].mean.row.dim
    new = {(point.layers, point.positions, point.rank): point.mean.error for point in points}
    known = {(point.layers, point.positions, point.rank): point.known for point in points if point.known is not None}
    lines = []
    for layers in sorted({point.layers for point in points}):
        if gains := _gains(new, layers, full):
            lines.append(
                f"{depth_name(layers)}, heads of rank below {full}: error without positions over error "
                f"with them (geometric mean): {gains}."
            )
        if gains := _gains(known, layers, full):
            lines.append(f"The same on the sequences it was trained on, as the authors measure: {gains}.")
    seen = sorted({(point.layers, point.mean.row.sequences) for point in points})
    told = "; ".join(f"{depth_name(layers)} {sequences:,}" for layers, sequences in seen)
    if any(point.authors for point in points):
        told += f"; the authors' {LATER_SEQUENCES:,} ({PAPER_SEQUENCES:,} without positions)"
    lines.append(f"Sequences in training: {told}.")
    return "\n".join(lines)


def _gains(errors: dict[tuple[int, str, int], float], layers: int, full: int) -> str:
    """For every kind the geometric mean over ranks of error without positions over error with them."""
    parts = []
    for kind in KINDS[1:]:
        ratios = [
            errors[layers, "none", rank] / error
            for (depth, own, rank), error in errors.items()
            if (depth, own) == (layers, kind) and rank < full and (layers, "none", rank) in errors
        ]
        if ratios:
            parts.append(f"{kind} {geometric_mean(ratios):.2f}")
    return "; ".join(parts)


def draw(points: Sequence[Point], levels: dict[str, float], title: str) -> Figure:
    """One panel a depth, one line a kind; open markers are on the sequences trained on, where those come again."""
    depths = sorted({point.layers for point in points})
    figure = new_figure(4.2 * len(depths) + 1.6, 3.8)
    panels = figure.subplots(1, len(depths), squeeze=False, sharey=True)[0]
    for axes, layers in zip(panels, depths, strict=True):
        own = [point for point in points if point.layers == layers]
        draw_series(axes, [series for kind in KINDS for series in _lines(own, kind)])
        draw_levels(axes, levels)
        ranks = sorted({point.rank for point in own})
        rank_axes(axes, ranks, depth_name(layers))
    share_legend(figure, panels)
    figure.suptitle(title, fontsize=11)
    return figure


def _lines(points: Sequence[Point], kind: Positions) -> list[Series]:
    """The errors of one kind on new sequences, and where they are known those on the sequences trained on."""
    own = [point for point in points if point.positions == kind]
    known = {point.rank: point.known for point in own if point.known is not None}
    look = {"color": COLOURS[KINDS.index(kind)], "marker": MARKERS[KINDS.index(kind)]}
    lines = [
        Series(
            label=kind,
            x=[point.rank for point in own],
            y=[point.mean.error for point in own],
            spread=[point.mean.spread for point in own],
            style=look,
            published={point.rank: point.authors for point in own if point.authors is not None},
        ),
        Series(
            label=f"{kind}: trained on",
            x=list(known),
            y=list(known.values()),
            style=look | {"markerfacecolor": "white", "linestyle": "--"},
        ),
    ]
    return [line for line in lines if line.x]


def present(preset: str, rows: Sequence[ResultRow], stem: Path) -> Reproduced:
    """Figure, table and reading of the rows."""
    settings, points = PRESETS[preset], points_of(rows)
    title = f"Positions: farthest of {settings.points} points in {settings.dim} dimensions, $H = d^{{1.5}}/r$"
    with house_style():
        figure = draw(points, trivial_errors(settings.dim, settings.points), title)
    return Reproduced(
        columns=(
            *("layers", "positions", "rank", "error", "standard error", "seeds", "error on known", "authors"),
            "parameters",
        ),
        rows=tuple(
            (
                *(point.layers, point.positions, point.rank, point.mean.error, point.mean.spread),
                *(point.mean.seeds, point.known, point.authors, point.mean.row.parameters),
            )
            for point in points
        ),
        reading=reading(points),
        files=save_figure(figure, stem),
    )
