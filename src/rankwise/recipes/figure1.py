"""Figure 1: rank against error, for three budgets of heads and several depths.

    rankwise reproduce figure1 --preset laptop        (minutes a seed, two cores)
    rankwise reproduce figure1 --preset paper         (full size, in the order of ``PIECES``; 5 h 20 min of one core)

Farthest neighbour among N points; H = d^c / r heads of rank r, so that every point of a curve (c = 1, 1.5, 2) has the
same number of attention parameters. What the paper shows, and what to expect here: with one layer only full rank
works, however many heads; with three layers low rank gets better. At preset "laptop" (three seeds): full rank .0027 to
.0034 with one layer and .0032 to .0048 with three; half rank .572, .402, .327 (c = 1, 1.5, 2) with one and .384, .315,
.257 with three.

The authors' values stand beside ours at full size. Theirs are the smallest mean training loss of an epoch, of the best
of five seeds, after 1000 passes over the same 25,600 sequences; ours are errors of the last weights on held-out
examples, mean over seeds. ``--protocol wide`` gives the weights of the authors' feed-forward to the values, so that
heads of low rank bring whole vectors, as in the theorem. ``--protocol recall`` has the authors' statistic under our
training: errors on 25,600 sequences that come again and again. It and the paper's protocol, where trained here, get
panels of their own, with the errors on both kinds of sequences.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from rankwise.errors import require_choice
from rankwise.recipes.baselines import linear_scores_level, trivial_errors
from rankwise.recipes.cells import REPEATING, TWENTIETH, budget, chosen_pieces, chosen_ranks, seeded_sweep, trained_by
from rankwise.recipes.figure1_panels import draw
from rankwise.recipes.figure1_points import (
    EXPONENTS,
    above_linear_scores,
    between_protocols,
    points_of,
    reading,
)
from rankwise.recipes.registry import Reproduced
from rankwise.recipes.rows import ResultRow, result_row
from rankwise.recipes.trained import TrainedRun
from rankwise.report.figures import house_style, save_figure
from rankwise.spec import SweepSpec, heads_for_budget, vary
from rankwise.train.protocols import Cell

KEYS: tuple[str, ...] = ()
COMPARED = (*REPEATING, "wide")


@dataclass(frozen=True, kw_only=True)
class Piece:
    """A part of the figure that is worth having alone: some ranks of one curve."""

    layers: int
    exponent: float
    ranks: tuple[int, ...]
    sequences: int


@dataclass(frozen=True, kw_only=True)
class Settings:
    """The sizes of a preset; ``in_order`` trains the pieces one after the other."""

    dim: int
    points: int
    pieces: tuple[Piece, ...]
    in_order: bool = False


def curves(
    ranks: tuple[int, ...], sequences: dict[int, int], exponents: tuple[float, ...] = EXPONENTS
) -> tuple[Piece, ...]:
    """Whole curves: every budget at every depth, with ``sequences`` by the number of layers."""
    return tuple(
        Piece(layers=layers, exponent=exponent, ranks=ranks, sequences=budget)
        for layers, budget in sequences.items()
        for exponent in exponents
    )


_RANKS = (1, 2, 4, 8, 16, 32, 64)
PIECES = (
    Piece(layers=1, exponent=1.0, ranks=_RANKS, sequences=TWENTIETH),
    Piece(layers=3, exponent=1.0, ranks=_RANKS, sequences=TWENTIETH),
    Piece(layers=5, exponent=1.0, ranks=(64, 16, 4), sequences=TWENTIETH),
    Piece(layers=1, exponent=1.5, ranks=_RANKS, sequences=TWENTIETH),
    Piece(layers=1, exponent=2.0, ranks=(64,), sequences=TWENTIETH),
    Piece(layers=1, exponent=2.0, ranks=(32, 8), sequences=TWENTIETH // 4),
)
"""Full size, the most telling first: one layer, three, the curve the authors could not train, larger budgets.

One layer of low rank is done early: 2 heads of rank 32 end at .7215 after 256,000 sequences, .7214 after 1.28 million.
"""

PRESETS: dict[str, Settings] = {
    "smoke": Settings(dim=16, points=8, pieces=curves((8, 16), {1: 64_000, 3: 64_000}, (1.0, 1.5))),
    "demo": Settings(dim=16, points=8, pieces=curves((4, 8, 16), {1: 64_000, 3: 64_000})),
    "laptop": Settings(dim=16, points=8, pieces=curves((2, 4, 8, 16), {1: 96_000, 3: 128_000})),
    "paper": Settings(dim=64, points=16, pieces=PIECES, in_order=True),
    "paper-whole": Settings(
        dim=64, points=16, pieces=(*PIECES[:-1], *curves(_RANKS, dict.fromkeys((1, 3, 5), TWENTIETH))), in_order=True
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
    patience: int | None = None,
) -> SweepSpec:
    """The runs of the figure: all pieces with seed 0, then all with seed 1, and so on.

    ``protocol`` "paper" at full size spends the paper's 25.6 million sequences unless ``sequences`` says otherwise.
    ``pieces`` chooses some, counted from 1, and ``ranks`` some of their ranks. With
    ``patience`` a run ends after so many epochs that did not lower the held-out error by a thousandth: the paper's
    protocol, cut short, often collapses to an answer of 0 and stays there.
    """
    require_choice("preset", preset, tuple(PRESETS))
    settings = PRESETS[preset]
    train_as = trained_by(protocol, later=False)
    chosen = chosen_pieces(pieces, settings.pieces, preset)
    wanted = chosen_ranks(ranks, sorted({rank for piece in chosen for rank in piece.ranks}), preset)
    runs = [
        train_as(
            Cell(
                dim=settings.dim,
                points=settings.points,
                layers=piece.layers,
                heads=heads_for_budget(settings.dim, rank, piece.exponent),
                rank=rank,
                sequences=budget(
                    sequences, piece.sequences, full_size=settings.in_order, protocol=protocol, later=False
                ),
            )
        )
        for piece in chosen
        for rank in piece.ranks
        if rank in wanted
    ]
    if patience is not None:
        runs = [vary(run, {"optim.patience": patience, "optim.threshold": 1e-3}) for run in runs]
    return seeded_sweep(f"figure1 ({preset}, {protocol})", runs, seeds, in_order=settings.in_order)


def rows(runs: Sequence[TrainedRun]) -> list[ResultRow]:
    """One row a run, nothing measured besides."""
    return [result_row("figure1", trained) for trained in runs]


def present(preset: str, rows: Sequence[ResultRow], stem: Path) -> Reproduced:
    """Figure, table and reading of the rows."""
    points = points_of(rows)
    settings = PRESETS[preset]
    title = f"Farthest of {settings.points} points in {settings.dim} dimensions"
    whole_values = any(point.protocol == "wide" for point in points)
    linear_scores = linear_scores_level(settings.dim, settings.points) if whole_values else None
    with house_style():
        figure = draw(points, trivial_errors(settings.dim, settings.points), title, linear_scores=linear_scores)
    lines = []
    for protocol in sorted({point.protocol for point in points}):
        own = [point for point in points if point.protocol == protocol]
        lines += [f"{protocol}: {line}" for line in reading(own)]
    if linear_scores is not None:
        lines += above_linear_scores(points, linear_scores)
    lines += between_protocols(points)
    return Reproduced(
        columns=(
            *("protocol", "layers", "budget", "heads", "rank", "error", "standard error", "seeds"),
            *("training error", "authors", "sequences", "parameters"),
        ),
        rows=tuple(
            (
                *(point.protocol, point.layers, f"d^{1 + point.exponent:g}", point.heads, point.rank),
                *(point.error, point.spread, point.seeds),
                *(point.training, point.authors, point.sequences, point.parameters),
            )
            for point in points
        ),
        reading="\n".join(lines),
        files=save_figure(figure, stem),
    )
