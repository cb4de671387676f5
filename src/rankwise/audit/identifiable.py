"""Which singular directions of a head can be told apart.

The directions of two singular values turn into each other when the weights change by as little as the gap between the
values (Wedin 1972: the angle is at most the size of the change over the gap). Values closer than 1 % of the larger,
``NEAR``, are called near-equal: a fraction of what another seed, a few more steps or 8 bits would change. Of such a run
only the span means something, none of its directions. The 1 % is a convention; what follows from a gap is a theorem.
"""

from __future__ import annotations

from jaxtyping import Float
from torch import Tensor

NEAR = 0.01
_ZERO = 1e-6
"""Of the largest value: what counts as none at all, whose directions nobody looks at."""


def near_equal(values: Float[Tensor, "N S"]) -> list[tuple[tuple[int, int], ...]]:
    """Runs of near-equal values of each row, largest first, as numbers of their first and last, counted from 1."""
    present = values[:, 1:] > _ZERO * values[:, :1]
    close = ((values[:, :-1] - values[:, 1:] < NEAR * values[:, :-1]) & present).tolist()
    return [_runs(row) for row in close]


def _runs(close: list[bool]) -> tuple[tuple[int, int], ...]:
    """``close[i]``: whether value i + 1 and the one after it are near-equal."""
    edges = [
        place for place, (one, other) in enumerate(zip([False, *close], [*close, False], strict=True)) if one != other
    ]
    return tuple((first + 1, last + 1) for first, last in zip(edges[::2], edges[1::2], strict=True))


def not_identifiable(runs: tuple[tuple[int, int], ...], most: int) -> int:
    """How many of the first ``most`` directions are in a run."""
    return sum(min(last, most) - first + 1 for first, last in runs if first <= most)
