"""What needs no attention, for the levels of the farthest-neighbour figures."""

from __future__ import annotations

from functools import cache


@cache
def trivial_errors(dim: int, points: int, samples: int = 20_000) -> dict[str, float]:
    """Farthest neighbour without looking: predict 0, the mean of the points, or the best linear map (estimated)."""
    from rankwise.tasks import FarthestNeighbor

    return FarthestNeighbor(dim, points).levels(samples)


@cache
def linear_scores_level(dim: int, points: int, samples: int = 20_000) -> float:
    """Farthest neighbour by linear scores, which heads of any rank with whole values can have (estimated)."""
    import torch

    from rankwise.tasks import FarthestNeighbor, linear_scores_error

    return linear_scores_error(FarthestNeighbor(dim, points), torch.Generator().manual_seed(0), samples).mean
