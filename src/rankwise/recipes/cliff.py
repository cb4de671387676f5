"""The cliff: where between d/2 and d does rank begin to be enough?

    rankwise reproduce cliff --preset laptop --seeds 3

Farthest neighbour with one layer of 1, 2 or 4 heads whose rank goes from d/2 to d in fine steps, d - 1 included. Rank
is free here; the paper's modules of dim/rank heads see only d/2 and d. Ours alone: nothing to compare with.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from rankwise.errors import require_choice
from rankwise.recipes.baselines import trivial_errors
from rankwise.recipes.cells import TWENTIETH, budget, seeded_sweep, trained_by
from rankwise.recipes.registry import Reproduced
from rankwise.recipes.rows import Mean, ResultRow, mean_over_seeds, result_row
from rankwise.recipes.trained import TrainedRun
from rankwise.report.figures import house_style, new_figure, save_figure
from rankwise.report.headline import two_digits_down
from rankwise.report.panels import Series, draw_levels, draw_series, fine_axes, share_legend
from rankwise.spec import SweepSpec
from rankwise.train.protocols import Cell

if TYPE_CHECKING:
    from matplotlib.figure import Figure

KEYS: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True)
class Settings:
    """The sizes of a preset."""

    dim: int
    points: int
    ranks: tuple[int, ...]
    heads: tuple[int, ...]
    sequences: int
    full_size: bool = False


PRESETS: dict[str, Settings] = {
    "smoke": Settings(dim=16, points=8, ranks=(8, 15, 16), heads=(1, 2), sequences=32_000),
    "laptop": Settings(dim=16, points=8, ranks=tuple(range(8, 17)), heads=(1, 2, 4), sequences=96_000),
    "paper": Settings(
        dim=64,
        points=16,
        ranks=(32, 36, 40, 44, 48, 52, 56, 58, 60, 61, 62, 63, 64),
        heads=(1, 2, 4),
        sequences=TWENTIETH,
        full_size=True,
    ),
}


def sweep(preset: str = "laptop", *, seeds: int = 1, sequences: int | None = None) -> SweepSpec:
    """The runs of the figure, trained by ``capacity``: the paper's protocol takes only ranks that divide d."""
    require_choice("preset", preset, tuple(PRESETS))
    settings = PRESETS[preset]
    runs = [
        trained_by("capacity")(
            Cell(
                dim=settings.dim,
                points=settings.points,
                layers=1,
                heads=heads,
                rank=rank,
                sequences=budget(sequences, settings.sequences, full_size=settings.full_size, protocol="capacity"),
            )
        )
        for heads in settings.heads
        for rank in settings.ranks
    ]
    return seeded_sweep(f"cliff ({preset})", runs, seeds, in_order=settings.full_size)


def rows(runs: Sequence[TrainedRun]) -> list[ResultRow]:
    """One row a run, nothing measured besides."""
    return [result_row("cliff", trained) for trained in runs]


def lines_of(rows: Sequence[ResultRow]) -> dict[int, dict[int, Mean]]:
    """For every number of heads the errors by rank, seeds averaged."""
    lines: dict[int, dict[int, Mean]] = {}
    for (heads, rank), mean in mean_over_seeds(rows, lambda row: (row.heads, row.rank)).items():
        lines.setdefault(heads, {})[rank] = mean
    return lines


def reading(lines: dict[int, dict[int, Mean]], dim: int) -> str:
    """For every number of heads: the last step before full rank, and where the error has halved."""
    said = []
    for heads, line in lines.items():
        ranks = sorted(line)
        first, full = line[ranks[0]].error, line.get(dim)
        half = next((rank for rank in ranks if line[rank].error <= first / 2), None)
        words = f"{heads} head{'s' * (heads > 1)}: {first:.3g} at rank {ranks[0]}"
        words += f", halved from rank {half} on" if half is not None else ", never halved"
        if full is not None and dim - 1 in line:
            near = line[dim - 1].error
            words += f"; the last step, from rank {dim - 1} to {dim}, takes {near:.3g} to {full.error:.3g}"
            words += f" (at least {two_digits_down(near / full.error)} times)"
        said.append(words + ".")
    return "\n".join(said)


def draw(lines: dict[int, dict[int, Mean]], levels: dict[str, float], title: str) -> Figure:
    """Error against rank, logarithmic left (the fall) and linear right (where it begins)."""
    figure = new_figure(10.0, 3.9)
    panels = figure.subplots(1, 2)
    series = [
        Series(
            label=f"{heads} head{'s' * (heads > 1)}",
            x=list(line),
            y=[mean.error for mean in line.values()],
            spread=[mean.spread for mean in line.values()],
        )
        for heads, line in lines.items()
    ]
    ranks = sorted({rank for line in lines.values() for rank in line})
    for axes, name in zip(panels, ("logarithmic", "linear"), strict=True):
        draw_series(axes, series)
        fine_axes(axes, _ticks(ranks), f"error, {name}", "rank of a head")
    panels[1].set_yscale("linear")
    panels[1].set_ylim(bottom=0)
    draw_levels(panels[0], levels)
    share_legend(figure, panels)
    figure.suptitle(title, fontsize=11)
    return figure


def _ticks(ranks: Sequence[int]) -> list[int]:
    """As many of the ranks as can be read, the first and the last among them."""
    if len(ranks) <= 9:
        return list(ranks)
    return [rank for rank in ranks if rank in (ranks[0], ranks[-1]) or (rank % 4 == 0 and ranks[-1] - rank > 2)]


def present(preset: str, rows: Sequence[ResultRow], stem: Path) -> Reproduced:
    """Figure, table and reading of the rows."""
    settings, lines = PRESETS[preset], lines_of(rows)
    title = f"The cliff: farthest of {settings.points} points in {settings.dim} dimensions, one layer"
    with house_style():
        figure = draw(lines, trivial_errors(settings.dim, settings.points), title)
    return Reproduced(
        columns=("heads", "rank", "d - rank", "error", "standard error", "seeds", "parameters"),
        rows=tuple(
            (heads, rank, settings.dim - rank, mean.error, mean.spread, mean.seeds, mean.row.parameters)
            for heads, line in lines.items()
            for rank, mean in line.items()
        ),
        reading=reading(lines, settings.dim),
        files=save_figure(figure, stem),
    )
