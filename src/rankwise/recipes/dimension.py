"""The role of the dimension: is it the rank that matters, or its share of d?

    rankwise reproduce dimension --preset laptop --seeds 3

Farthest neighbour among 16 points (8 at laptop size) with two layers: w modules of k heads of rank d/k, so w d/r heads
of rank r, for several d. The paper has the experiment in its text without a picture; there w = 8 and N = 16.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from rankwise.errors import require_choice
from rankwise.recipes.cells import TWENTIETH, budget, seeded_sweep, trained_by
from rankwise.recipes.registry import Reproduced
from rankwise.recipes.rows import Mean, ResultRow, mean_over_seeds, result_row
from rankwise.recipes.trained import TrainedRun
from rankwise.report.figures import house_style, new_figure, ramp, save_figure
from rankwise.report.panels import Series, draw_series, rank_axes, share_legend
from rankwise.spec import SweepSpec
from rankwise.train.protocols import Cell

if TYPE_CHECKING:
    from matplotlib.figure import Figure

KEYS: tuple[str, ...] = ()
_LAYERS = 2


@dataclass(frozen=True, kw_only=True)
class Settings:
    """``modules`` modules of k = ``splits`` heads of rank d/k, for every d of ``dims``."""

    dims: tuple[int, ...]
    points: int
    splits: tuple[int, ...]
    modules: int
    sequences: int
    full_size: bool = False


PRESETS: dict[str, Settings] = {
    "smoke": Settings(dims=(4, 8), points=8, splits=(1, 2), modules=2, sequences=32_000),
    "laptop": Settings(dims=(8, 16, 32), points=8, splits=(1, 2, 4, 8), modules=4, sequences=96_000),
    "paper": Settings(
        dims=(16, 32, 64, 128, 256),
        points=16,
        splits=(1, 2, 4, 8, 16),
        modules=8,
        sequences=TWENTIETH,
        full_size=True,
    ),
}


def sweep(
    preset: str = "laptop", *, protocol: str = "capacity", seeds: int = 1, sequences: int | None = None
) -> SweepSpec:
    """The runs of the figure, low dimensions first."""
    require_choice("preset", preset, tuple(PRESETS))
    settings, train_as = PRESETS[preset], trained_by(protocol)
    runs = [
        train_as(
            Cell(
                dim=dim,
                points=settings.points,
                layers=_LAYERS,
                heads=settings.modules * split,
                rank=dim // split,
                sequences=budget(sequences, settings.sequences, full_size=settings.full_size, protocol=protocol),
            )
        )
        for dim in settings.dims
        for split in settings.splits
    ]
    return seeded_sweep(f"dimension ({preset}, {protocol})", runs, seeds, in_order=settings.full_size)


def rows(runs: Sequence[TrainedRun]) -> list[ResultRow]:
    """One row a run, nothing measured besides."""
    return [result_row("dimension", trained) for trained in runs]


def lines_of(rows: Sequence[ResultRow]) -> dict[int, dict[int, Mean]]:
    """For every dimension the errors by rank, seeds averaged."""
    lines: dict[int, dict[int, Mean]] = {}
    for (dim, rank), mean in mean_over_seeds(rows, lambda row: (row.dim, row.rank)).items():
        lines.setdefault(dim, {})[rank] = mean
    return lines


def reading(lines: dict[int, dict[int, Mean]]) -> str:
    """Errors of equal shares of d, and of equal ranks, wherever several dimensions have them."""
    by_share: dict[int, dict[int, float]] = {}
    by_rank: dict[int, dict[int, float]] = {}
    for dim, line in lines.items():
        for rank, mean in line.items():
            by_share.setdefault(dim // rank, {})[dim] = mean.error
            if rank < dim:
                by_rank.setdefault(rank, {})[dim] = mean.error
    said = [f"r = d{f'/{split}' * (split > 1)}: {_listed(found)}." for split, found in sorted(by_share.items())]
    most = max(map(len, by_rank.values()), default=0)
    if most > 1:
        rank, found = max((rank, found) for rank, found in by_rank.items() if len(found) == most)
        said.append(f"The same rank {rank}: {_listed(found)}.")
    return "\n".join(said)


def _listed(found: dict[int, float]) -> str:
    return ", ".join(f"{error:.3g} at d = {dim}" for dim, error in found.items())


def draw(lines: dict[int, dict[int, Mean]], title: str) -> Figure:
    """The same lines twice: against the rank, and against its share of the dimension."""
    figure = new_figure(9.6, 3.9)
    panels = figure.subplots(1, 2, sharey=True)
    for axes, share in zip(panels, (False, True), strict=True):
        draw_series(
            axes,
            [
                Series(
                    label=f"d = {dim}",
                    x=[rank / dim if share else rank for rank in line],
                    y=[mean.error for mean in line.values()],
                    spread=[mean.spread for mean in line.values()],
                    style={"color": colour},
                )
                for (dim, line), colour in zip(lines.items(), ramp(len(lines)), strict=True)
            ],
        )
    ranks = sorted({rank for line in lines.values() for rank in line})
    splits = sorted({dim // rank for dim, line in lines.items() for rank in line}, reverse=True)
    rank_axes(panels[0], ranks, "against the rank")
    rank_axes(panels[1], [1 / split for split in splits], "against its share of d", "rank / d")
    panels[1].set_xticks([1 / split for split in splits], ["1" if s == 1 else f"1/{s}" for s in splits])
    panels[1].set_ylabel("")
    share_legend(figure, panels)
    figure.suptitle(title, fontsize=11)
    return figure


def present(preset: str, rows: Sequence[ResultRow], stem: Path) -> Reproduced:
    """Figure, table and reading of the rows."""
    settings, lines = PRESETS[preset], lines_of(rows)
    title = f"Farthest of {settings.points} points, two layers of {settings.modules} d/r heads"
    with house_style():
        figure = draw(lines, title)
    return Reproduced(
        columns=("dim", "rank", "heads", "error", "standard error", "seeds", "parameters"),
        rows=tuple(
            (dim, rank, mean.row.heads, mean.error, mean.spread, mean.seeds, mean.row.parameters)
            for dim, line in lines.items()
            for rank, mean in line.items()
        ),
        reading=reading(lines),
        files=save_figure(figure, stem),
    )
