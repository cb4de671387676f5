"""The numbers that a reader should see first, computed from the cells and from nothing else."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from rankwise.report.settings import CellOfRuns, Setting

STANDARD_ERRORS = 4.0


@dataclass(frozen=True, kw_only=True)
class Figure:
    """A number in large type, what it is, and one line about it; ``where`` names the panel it is read from."""

    value: str
    label: str
    detail: str
    where: str = ""


@dataclass(frozen=True, kw_only=True)
class _Gap:
    """Full rank against half rank at one budget of heads."""

    full: CellOfRuns
    half: CellOfRuns

    @property
    def ratio(self) -> float:
        if self.full.error == 0:  # token tasks can be solved without an error
            return math.inf if self.half.error > 0 else 1.0
        return self.half.error / self.full.error


def trade_offs(setting: Setting) -> list[Figure]:
    """How many times worse half rank is than full rank, at least, over the budgets of each depth."""
    figures = []
    for (facet, protocol, variant), cells in _families(setting.cells).items():
        gaps = [gap for gap in _gaps(cells, setting.dim) if math.isfinite(gap.ratio)]
        if gaps:
            least, most = min(gaps, key=lambda gap: gap.ratio), max(gap.full.error for gap in gaps)
            best_half = min(gap.half.error for gap in gaps)
            budgets = "at every budget of heads" if len(gaps) > 1 else f"with {_heads(least.half)} of half rank"
            named = ", ".join(word for word in (facet, f"{protocol} protocol", variant) if word)
            figures.append(
                Figure(
                    value=f"{two_digits_down(least.ratio)}×",
                    label=f"{facet}: the error of half rank over that of full rank, at least, {budgets}",
                    where=facet,
                    detail=f"{named}: full rank reaches {most:.3g} or less, half rank {best_half:.3g} at best",
                )
            )
    return figures


def refutations(settings: Sequence[Setting]) -> Figure | None:
    """How many cells lie below the bound that holds for them; there must be none."""
    held = [cell for setting in settings for cell in setting.cells if cell.bound is not None]
    if not held:
        return None
    below = [cell for cell in held if is_below(cell)]
    telling = [cell for cell in held if cell.bound is not None and cell.bound > 0.01]
    closest = min(telling, key=lambda cell: cell.error / (cell.bound or 1.0), default=None)
    detail = "every cell is at or above the error that no such layer goes below"
    if below:
        detail = "either the training data or the bound is wrong: look at these cells"
    elif closest is not None:
        detail = (
            f"the closest: {closest.facet}, rank {closest.rank}, {_heads(closest)}: "
            f"{closest.error:.3f} against {closest.bound:.3f}"
        )
    return Figure(
        value=f"{len(below)} of {len(held)}",
        label=f"trained cells below their lower bound, beyond {STANDARD_ERRORS:g} standard errors",
        detail=detail,
    )


def is_below(cell: CellOfRuns) -> bool:
    """Whether the cell would refute its bound."""
    return cell.bound is not None and cell.error + STANDARD_ERRORS * (cell.spread or 0.0) < cell.bound


def best(settings: Sequence[Setting]) -> Figure | None:
    """The smallest error of the first setting, for stores that compare something else than ranks."""
    if not settings:
        return None
    cell = min(settings[0].cells, key=lambda cell: cell.error)
    return Figure(
        value=f"{cell.error:.3g}",
        label=f"the least {settings[0].task.unit}: rank {cell.rank}, {_heads(cell)}",
        detail=f"{settings[0].title}, {cell.facet}",
    )


def _families(cells: Sequence[CellOfRuns]) -> dict[tuple[str, str, str], list[CellOfRuns]]:
    families: dict[tuple[str, str, str], list[CellOfRuns]] = {}
    for cell in cells:
        families.setdefault((cell.facet, cell.protocol, cell.variant), []).append(cell)
    return families


def _gaps(cells: Sequence[CellOfRuns], dim: int) -> list[_Gap]:
    """Full and half rank at the same number of attention parameters, wherever both were trained."""
    found = {(cell.heads * cell.rank, cell.rank): cell for cell in cells}
    return [
        _Gap(full=cell, half=found[budget, dim // 2])
        for (budget, rank), cell in found.items()
        if rank == dim and (budget, dim // 2) in found
    ]


def _heads(cell: CellOfRuns) -> str:
    return f"{cell.heads:,} head" + "s" * (cell.heads != 1)


def two_digits_down(ratio: float) -> str:
    """Rounded down, because it stands behind "at least"."""
    if ratio == 0:
        return "0"
    scale = 10.0 ** (math.floor(math.log10(ratio)) - 1)
    return f"{math.floor(ratio / scale * (1 + 1e-12)) * scale:g}"
