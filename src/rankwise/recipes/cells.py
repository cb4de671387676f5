"""From cells to the runs of a sweep: which protocol trains them, and with how many seeds."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import TypeVar

from rankwise.errors import InvalidInputError, require_choice, require_int
from rankwise.spec import RunSpec, SweepSpec, vary
from rankwise.train.protocols import PAPER_SEQUENCES, Cell, capacity, paper, recall, wide

T = TypeVar("T")

TWENTIETH = PAPER_SEQUENCES // 20
"""What ``capacity`` spends at full size."""

LATER_SEQUENCES = 2 * PAPER_SEQUENCES
"""What the authors spend on every figure after the first: 2000 epochs, with half the learning rate."""

_FIRST: dict[str, Callable[[Cell], RunSpec]] = {"capacity": capacity, "wide": wide, "paper": paper, "recall": recall}
_LATER = _FIRST | {"paper": partial(paper, lr=0.005)}
PROTOCOLS = tuple(_FIRST)

REPEATING = ("paper", "recall")
"""The protocols whose epochs all have the same sequences, so that their training errors are what the authors plot."""


def trained_by(protocol: str, *, later: bool = True) -> Callable[[Cell], RunSpec]:
    """The protocol of that name; the authors' differs between their first figure and the ``later`` ones."""
    require_choice("protocol", protocol, PROTOCOLS)
    return (_LATER if later else _FIRST)[protocol]


def seeded_sweep(name: str, runs: Iterable[RunSpec], seeds: int, *, in_order: bool = False) -> SweepSpec:
    """All ``runs`` with seed 0, then all with seed 1, and so on; ``in_order`` also trains them so."""
    require_int("seeds", seeds, minimum=1)
    once = list(runs)
    many = tuple(vary(run, {"seed": seed}) for seed in range(seeds) for run in once)
    return SweepSpec(name=name, runs=many, order="listed" if in_order else None)


def chosen_seeds(asked: int | None, preset: int) -> int:
    """With how many seeds every cell is trained: what was asked for, else the preset's number."""
    return preset if asked is None else require_int("seeds", asked, minimum=1)


def budget(asked: int | None, preset: int, *, full_size: bool, protocol: str, later: bool = True) -> int:
    """How many sequences a run may see: what was asked for, else the authors' number at full size with their protocol,
    else the preset's."""
    if asked is not None:
        return require_int("sequences", asked, minimum=1)
    if full_size and protocol == "paper":
        return LATER_SEQUENCES if later else PAPER_SEQUENCES
    return preset


def chosen_pieces(pieces: Sequence[int], every: Sequence[T], preset: str) -> list[T]:
    """The parts of a preset with these numbers, counted from 1; all if none are named."""
    for number in pieces:
        if not 1 <= number <= len(every):
            raise InvalidInputError(
                f"pieces: expected numbers from 1 to {len(every)} for preset {preset!r}, got {number}"
            )
    return [every[number - 1] for number in pieces] or list(every)


def chosen_ranks(ranks: Sequence[int], every: Sequence[int], preset: str) -> list[int]:
    """Those of a preset's ranks that are named, in the preset's order; all if none are."""
    for rank in ranks:
        if rank not in every:
            known = ", ".join(map(str, every))
            raise InvalidInputError(f"ranks: expected some of {known} for preset {preset!r}, got {rank}")
    return [rank for rank in every if not ranks or rank in ranks]


def depth_name(layers: int) -> str:
    """1 layer, 3 layers."""
    return f"{layers} layer{'s' * (layers > 1)}"
