"""Figure 4: the number of points. Does low rank fail when there are many?

    rankwise reproduce figure4 --preset laptop --seeds 3

Farthest neighbour with two layers and H = d^2 / r heads of rank r, trained with N points; the paper shows the error
growing with N at every rank below d. Beside it, what the paper did not do: every trained model is tested with 4 to 1024
points without being trained again, next to the exact head ``X sm(-beta X^T y)`` whose beta gives it the error that the
trained full-rank model has at its own N, and to the best linear predictor. The conjecture is that low rank fails for
large N.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from rankwise.errors import require_choice, require_int
from rankwise.recipes.baselines import trivial_errors
from rankwise.recipes.cells import (
    LATER_SEQUENCES,
    TWENTIETH,
    budget,
    chosen_pieces,
    chosen_ranks,
    seeded_sweep,
    trained_by,
)
from rankwise.recipes.paper_figures import published_figure
from rankwise.recipes.registry import Reproduced
from rankwise.recipes.rows import Mean, ResultRow, mean_over_seeds, result_row
from rankwise.recipes.trained import TrainedRun
from rankwise.report.figures import GUIDE, house_style, new_figure, save_figure
from rankwise.report.panels import Series, draw_series, rank_axes, share_legend
from rankwise.spec import SweepSpec, heads_for_budget
from rankwise.train.protocols import Cell

if TYPE_CHECKING:
    from matplotlib.figure import Figure

KEYS = ("evaluated_points",)
EVALUATED = (4, 8, 16, 32, 64, 128, 256, 512, 1024)
_LAYERS, _EXPONENT = 2, 2.0
_QUERIES = 2**14


@dataclass(frozen=True, kw_only=True)
class Settings:
    """The sizes of a preset; ``sequences`` by the number of points that a model is trained with."""

    dim: int
    ranks: tuple[int, ...]
    sequences: dict[int, int]
    full_size: bool = False


PRESETS: dict[str, Settings] = {
    "smoke": Settings(dim=8, ranks=(4, 8), sequences={4: 32_000, 16: 32_000}),
    "laptop": Settings(dim=16, ranks=(2, 4, 8, 16), sequences={4: 96_000, 16: 96_000, 64: 48_000}),
    # the more points, the more queries a sequence asks: from 16 points on, all models see as many queries
    "paper": Settings(
        dim=64,
        ranks=(1, 8, 16, 32, 64),
        sequences={4: TWENTIETH, 16: TWENTIETH, 64: TWENTIETH // 4, 256: TWENTIETH // 16},
        full_size=True,
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
    """The runs of the figure, few points first; a piece is one number of points.

    The longest runs have the ``sequences`` asked for, the others as many fewer as they have in the preset.
    """
    require_choice("preset", preset, tuple(PRESETS))
    settings, train_as = PRESETS[preset], trained_by(protocol)
    budgets = _budgets(settings, protocol, sequences)
    runs = [
        train_as(
            Cell(
                dim=settings.dim,
                points=points,
                layers=_LAYERS,
                heads=heads_for_budget(settings.dim, rank, _EXPONENT),
                rank=rank,
                sequences=own,
            )
        )
        for points, own in chosen_pieces(pieces, list(budgets.items()), preset)
        for rank in chosen_ranks(ranks, settings.ranks, preset)
    ]
    return seeded_sweep(f"figure4 ({preset}, {protocol})", runs, seeds, in_order=settings.full_size)


def _budgets(settings: Settings, protocol: str, asked: int | None) -> dict[int, int]:
    """The sequences of a run, by the number of points."""
    own = {
        points: budget(None, preset, full_size=settings.full_size, protocol=protocol)
        for points, preset in settings.sequences.items()
    }
    longest = max(own.values())
    asked = longest if asked is None else require_int("sequences", asked, minimum=1)
    return {points: asked * number // longest for points, number in own.items()}


def rows(runs: Sequence[TrainedRun]) -> list[ResultRow]:
    """For every run and every number of points that it meets: one row."""
    from rankwise.recipes.weights import error_of, trained_model, with_progress
    from rankwise.tasks import FarthestNeighbor

    measured = []
    for trained in with_progress(runs, "evaluating"):
        model = trained_model(trained)
        for points in EVALUATED:
            task = FarthestNeighbor(trained.run.neighbors.dim, points)
            found = error_of(model, task, _examples(points), trained.run.model.heads)
            extra = {
                "evaluated_points": points,
                "evaluated_error": found.mean,
                "evaluated_error_se": found.standard_error,
            }
            measured.append(result_row("figure4", trained, extra))
    return measured


def _examples(points: int) -> int:
    """Queries count, not sequences: with many points few sequences are enough."""
    return max(8, _QUERIES // points)


@dataclass(frozen=True, kw_only=True)
class Transfer:
    """A model trained with ``trained`` points, its error on its own number and on others (seeds averaged)."""

    trained: int
    rank: int
    heads: int
    own: Mean
    others: dict[int, Mean]
    authors: float | None


def transfers_of(rows: Sequence[ResultRow]) -> list[Transfer]:
    """Models in the order points, rank."""
    own = mean_over_seeds(_once_a_run(rows), lambda row: (row.points, row.rank))
    others = mean_over_seeds(
        rows,
        lambda row: (row.points, row.rank, int(row.extra["evaluated_points"])),
        lambda row: float(row.extra["evaluated_error"]),
        lambda row: float(row.extra["evaluated_error_se"]),
    )
    found = []
    for (points, rank), mean in own.items():
        curve = published_figure("figure4").curve(points=points) if mean.row.dim == 64 else None
        found.append(
            Transfer(
                trained=points,
                rank=rank,
                heads=mean.row.heads,
                own=mean,
                others={n: other for (p, r, n), other in others.items() if (p, r) == (points, rank)},
                authors=None if curve is None else curve.at(rank),
            )
        )
    return found


def _once_a_run(rows: Sequence[ResultRow]) -> list[ResultRow]:
    return list({row.run_id: row for row in rows}.values())


def exact_head(dim: int, points: int, error: float) -> dict[int, float] | None:
    """The exact head's error at every number of points, at the beta that gives ``error`` with ``points``.

    Found by bisection on the same examples at every step, so that the error is a decreasing function of beta. None
    where no beta from 1 to 1e5 gives that error: a model that learned next to nothing, or is all but exact.
    """
    from rankwise.nn.constructions import exact_farthest
    from rankwise.recipes.weights import error_of
    from rankwise.tasks import FarthestNeighbor

    def at(beta: float, count: int) -> float:
        return error_of(exact_farthest(dim, beta=beta), FarthestNeighbor(dim, count), _examples(count)).mean

    low, high = 1.0, 1e5
    if not at(low, points) >= error >= at(high, points):
        return None
    for _ in range(24):
        middle = (low * high) ** 0.5
        low, high = (middle, high) if at(middle, points) > error else (low, middle)
    return {count: at(high, count) for count in EVALUATED}


def reading(transfers: Sequence[Transfer], exact: dict[int, dict[int, float]], dim: int) -> list[str]:
    """What the numbers say: error against N, and whether models carry over to more points."""
    few, many = (extreme(t.trained for t in transfers) for extreme in (min, max))
    half = max((t.rank for t in transfers if t.rank < dim), default=dim)
    at = {(t.trained, t.rank): t for t in transfers}
    both = [rank for rank in dict.fromkeys((half, dim)) if few < many and {(few, rank), (many, rank)} <= at.keys()]
    lines = []
    if both:
        changes = [f"from {at[few, rank].own.error:.2g} to {at[many, rank].own.error:.2g}" for rank in both]
        words = [
            f"rank {rank}{' goes' * (rank == both[0])} {change}" for rank, change in zip(both, changes, strict=True)
        ]
        lines.append(f"Trained with {few} and {many} points: {', '.join(words)}.")
    if few < many:
        seen = [
            f"{points} points {_thousands(t.own.row.sequences for t in transfers if t.trained == points)}"
            for points in sorted({t.trained for t in transfers})
        ]
        if any(t.authors for t in transfers):
            seen.append(f"the authors' models {LATER_SEQUENCES:,}")
        lines.append(f"Sequences in training, with as many queries each as points: {'; '.join(seen)}.")
    for trained, line in exact.items():
        last = max(line)
        ranks = [rank for rank in dict.fromkeys((half, dim)) if (trained, rank) in at]
        words = [f"rank {rank} {at[trained, rank].others[last].error:.2g}" for rank in ranks]
        lines.append(
            f"Trained with {trained} points, tested with {last}: {', '.join(words)}, the exact head that agrees with "
            f"rank {dim} at {trained} {line[last]:.2g}."
        )
    return lines


def _thousands(counts: Iterable[int]) -> str:
    """``64,000``, or ``16,000 to 64,000``."""
    ends = sorted(set(counts))
    return " to ".join(f"{end:,}" for end in dict.fromkeys((ends[0], ends[-1])))


def exact_heads(transfers: Sequence[Transfer], dim: int) -> dict[int, dict[int, float]]:
    """For every number of points that a full-rank model was trained with, the exact head that agrees with it there."""
    found = {t.trained: exact_head(dim, t.trained, t.others[t.trained].error) for t in transfers if t.rank == dim}
    return {trained: line for trained, line in found.items() if line is not None}


def draw(
    transfers: Sequence[Transfer], exact: dict[int, dict[int, float]], linear: dict[int, float], dim: int
) -> Figure:
    """Left the paper's picture; then a panel for every number of points in training, against the number met."""
    trained = sorted({transfer.trained for transfer in transfers})
    figure = new_figure(4.0 * (1 + len(trained)), 3.9)
    first, *panels = figure.subplots(1, 1 + len(trained), sharey=True)
    lines = [(points, [t for t in transfers if t.trained == points]) for points in trained]
    draw_series(
        first,
        [
            Series(
                label=f"N = {points}",
                x=[t.rank for t in line],
                y=[t.own.error for t in line],
                spread=[t.own.spread for t in line],
                published={t.rank: t.authors for t in line if t.authors is not None},
            )
            for points, line in lines
        ],
    )
    ranks = sorted({transfer.rank for transfer in transfers})
    rank_axes(first, ranks, "trained and tested with N points")
    first.legend(fontsize=7, loc="lower left")
    for axes, (points, line) in zip(panels, lines, strict=True):
        series = [
            Series(
                label=f"rank {t.rank}",
                x=list(t.others),
                y=[mean.error for mean in t.others.values()],
                spread=[mean.spread for mean in t.others.values()],
            )
            for t in line
        ]
        grey = {"color": "0.25", "marker": "", "linewidth": 1.1}
        if points in exact:
            y = list(exact[points].values())
            series.append(Series(label="exact head, softmax", x=list(exact[points]), y=y, style=grey))
        dashed = {**grey, "color": GUIDE, "linestyle": "--"}
        series.append(Series(label="best linear", x=list(linear), y=list(linear.values()), style=dashed))
        draw_series(axes, series)
        axes.axvline(points, color=GUIDE, linewidth=0.8, linestyle=":")
        rank_axes(axes, EVALUATED, f"trained with {points} points", "points it is tested with")
        axes.set_ylabel("")
    share_legend(figure, panels)
    figure.suptitle(f"Farthest neighbour in {dim} dimensions, two layers, $H = d^2/r$", fontsize=11)
    return figure


def present(preset: str, rows: Sequence[ResultRow], stem: Path) -> Reproduced:
    """Figure, table and reading of the rows; the exact head and the linear predictor are computed here."""
    transfers, dim = transfers_of(rows), PRESETS[preset].dim
    exact = exact_heads(transfers, dim)
    linear = {points: trivial_errors(dim, points, _examples(points))["best linear"] for points in EVALUATED}
    with house_style():
        figure = draw(transfers, exact, linear, dim)
    return Reproduced(
        columns=("points", "rank", "heads", "error", "standard error", "seeds", "authors", *map(_at, EVALUATED)),
        rows=tuple(
            (
                *(t.trained, t.rank, t.heads, t.own.error, t.own.spread, t.own.seeds, t.authors),
                *(t.others[points].error for points in EVALUATED),
            )
            for t in transfers
        ),
        reading="\n".join(reading(transfers, exact, dim)),
        files=save_figure(figure, stem),
    )


def _at(points: int) -> str:
    return f"N={points}"
