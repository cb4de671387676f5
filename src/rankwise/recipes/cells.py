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

TWENTIETH = PAPER_SEQUENCES // 20  # what ``capacity`` spends at full size
FIRST_RATE, LATER_RATE = 0.01, 0.005  # the authors' in Figure 1, and in later figures, trained for twice as long


@dataclass(frozen=True, kw_only=True)
class Sphere(Settings):
    """Farthest neighbour among ``points`` points in ``dim`` dimensions; ``sequences`` training examples per run.

    A figure varies some of ``ranks``, ``heads`` or ``exponents`` (H = d^c / r heads for every c), and ``layers``.
    """

    dim: int
    points: int
    ranks: tuple[int, ...] = ()
    heads: tuple[int, ...] = ()
    exponents: tuple[float, ...] = (1.0, 1.5, 2.0)
    layers: tuple[int, ...] = (1, 3)
    sequences: int

    @property
    def place(self) -> str:
        """The task in words."""
        return f"farthest of {self.points} points in {self.dim} dimensions"

    @property
    def levels(self) -> dict[str, float]:
        """What predictors without attention reach."""
        return trivial_errors(self.dim, self.points)


def sphere_trainer(settings: Sphere, sequences: int | None, **options: Any) -> Callable[..., RunSpec]:
    """``cell_trainer`` for the one task of these sizes."""
    return partial(cell_trainer(sequences, settings.sequences, **options), farthest(settings.dim, settings.points))


def cell_trainer(
    sequences: int | None, preset: int, *, protocol: str = "capacity", paper_rate: float = FIRST_RATE
) -> Callable[..., RunSpec]:
    """A function that turns the fields of a ``Cell`` into a run.

    - ``sequences``: how many a run may see, if the user asked for a number; else it is ``preset``.
    - ``protocol``: how it is trained; ``paper_rate`` is the learning rate of the authors' own.
    """
    require_choice("--protocol", protocol, ("capacity", "paper"))
    seen = preset if sequences is None else require_int("--sequences", sequences, minimum=1)

    def train(task: NeighborSpec, *, heads: int, rank: int, layers: int = 1) -> RunSpec:
        cell = Cell(task=task, layers=layers, heads=heads, rank=rank, sequences=seen)
        return paper(cell, lr=paper_rate) if protocol == "paper" else capacity(cell)

    return train


def farthest(dim: int, points: int) -> NeighborSpec:
    """The task of the paper's figures."""
    return NeighborSpec(name="farthest", dim=dim, points=points)
