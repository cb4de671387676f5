"""From cells to runs: which protocol trains them, on how many sequences."""

from __future__ import annotations

from rankwise.errors import require_choice, require_int
from rankwise.spec import NeighborSpec, RunSpec
from rankwise.train.protocols import PAPER_SEQUENCES, Cell, capacity, paper

TWENTIETH = PAPER_SEQUENCES // 20
"""What ``capacity`` spends at full size."""

_PROTOCOLS = ("capacity", "paper")
LATER_RATE = 0.005
"""The authors' learning rate in every figure after the first, which they train for twice as long."""


def train_as(protocol: str, cell: Cell, *, paper_rate: float = 0.01) -> RunSpec:
    """``cell`` by the protocol of that name."""
    require_choice("--protocol", protocol, _PROTOCOLS)
    return paper(cell, lr=paper_rate) if protocol == "paper" else capacity(cell)


def budget(asked: int | None, preset: int) -> int:
    """How many sequences a run may see: what was asked for, else the preset's number."""
    return preset if asked is None else require_int("--sequences", asked, minimum=1)


def farthest(dim: int, points: int) -> NeighborSpec:
    """The task of the paper's figures."""
    return NeighborSpec(name="farthest", dim=dim, points=points)


def counted(number: int, noun: str) -> str:
    """1 layer, 3 layers."""
    return f"{number} {noun}{'s' * (number != 1)}"
