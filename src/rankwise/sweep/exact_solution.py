"""The exact head beside a trained model: as soft as it takes to err as much, tested with other numbers of points."""

from __future__ import annotations

from collections.abc import Sequence

from rankwise.nn import exact_farthest
from rankwise.sweep.trained_weights import error_of
from rankwise.tasks import FarthestNeighbor

_QUERIES = 2**14


def examples_with(points: int) -> int:
    """How many sequences of ``points`` points: queries count, so that with many points few are enough."""
    return max(8, _QUERIES // points)


def exact_head(dim: int, points: int, error: float, tested: Sequence[int]) -> dict[int, float] | None:
    """The exact head's error at every number of points in ``tested``, at the beta that gives ``error`` with ``points``.

    Found by bisection on the same examples at every step, so that the error is a decreasing function of beta. None
    where no beta from 1 to 1e5 gives that error: a model that learned next to nothing, or is all but exact.
    """

    def at(beta: float, count: int) -> float:
        return error_of(exact_farthest(dim, beta=beta), FarthestNeighbor(dim, count), examples_with(count)).mean

    low, high = 1.0, 1e5
    if not at(low, points) >= error >= at(high, points):
        return None
    for _ in range(24):
        middle = (low * high) ** 0.5
        low, high = (middle, high) if at(middle, points) > error else (low, middle)
    return {count: at(high, count) for count in tested}
