"""Cells of the figures on the sphere: their sizes, which protocol trains them, and on how many sequences."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

from rankwise.errors import require_choice, require_int
from rankwise.recipes.trained_figure import Settings
from rankwise.spec import NeighborSpec, RunSpec
from rankwise.tasks import trivial_errors
from rankwise.train import PAPER_SEQUENCES, Cell, capacity, paper

TWENTIETH = PAPER_SEQUENCES // 20
"""What ``capacity`` spends at full size."""

FIRST_RATE, LATER_RATE = 0.01, 0.005
"""The authors' learning rate in Figure 1, and in the later figures, which they train for twice as long."""

_PROTOCOLS = ("capacity", "paper")


@dataclass(frozen=True, kw_only=True)
class SphereSizes(Settings):
    """Farthest neighbour among ``points`` points in ``dim`` dimensions; ``sequences`` training examples per run."""

    dim: int
    points: int
    ranks: tuple[int, ...] = ()
    sequences: int

    @property
    def place(self) -> str:
        """The task in words."""
        return f"farthest of {self.points} points in {self.dim} dimensions"

    @property
    def levels(self) -> dict[str, float]:
        """What predictors without attention reach."""
        return trivial_errors(self.dim, self.points)


def sphere_trainer(settings: SphereSizes, sequences: int | None, **options: Any) -> Callable[..., RunSpec]:
    """``cell_trainer`` for the one task of these sizes."""
    return partial(cell_trainer(sequences, settings.sequences, **options), farthest(settings.dim, settings.points))


def cell_trainer(
    sequences: int | None, preset: int, *, protocol: str = "capacity", paper_rate: float = FIRST_RATE
) -> Callable[..., RunSpec]:
    """A function that turns the fields of a ``Cell`` into a run.

    - ``sequences``: how many a run may see, if the user asked for a number; else it is ``preset``.
    - ``protocol``: how it is trained; ``paper_rate`` is the learning rate of the authors' own.
    """
    require_choice("--protocol", protocol, _PROTOCOLS)
    seen = preset if sequences is None else require_int("--sequences", sequences, minimum=1)

    def train(task: NeighborSpec, *, heads: int, rank: int, layers: int = 1) -> RunSpec:
        cell = Cell(task=task, layers=layers, heads=heads, rank=rank, sequences=seen)
        return paper(cell, lr=paper_rate) if protocol == "paper" else capacity(cell)

    return train


def farthest(dim: int, points: int) -> NeighborSpec:
    """The task of the paper's figures."""
    return NeighborSpec(name="farthest", dim=dim, points=points)
