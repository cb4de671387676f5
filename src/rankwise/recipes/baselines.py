"""What needs no attention, for the levels of the farthest-neighbour figures."""

from __future__ import annotations

from functools import cache

from rankwise.spec import NeighborSpec


@cache
def trivial_errors(dim: int, points: int, samples: int = 20_000) -> dict[str, float]:
    """Farthest neighbour without looking: predict 0, the mean of the points, or the best linear map (estimated)."""
    from rankwise.tasks import FarthestNeighbor

    return FarthestNeighbor(dim, points).levels(samples)


@cache
def linear_error(task: NeighborSpec, seed: int = 0, samples: int = 20_000) -> float:
    """The error of the best linear predictor with a constant on any task of neighbours (estimated)."""
    import torch

    from rankwise.tasks.from_spec import build_neighbors

    return build_neighbors(task).baselines(torch.Generator().manual_seed(seed), samples).linear.mean


@cache
def linear_scores_level(dim: int, points: int, samples: int = 20_000) -> float:
    """Farthest neighbour by linear scores, which heads of any rank with whole values can have (estimated)."""
    import torch

    from rankwise.tasks import FarthestNeighbor, linear_scores_error

    return linear_scores_error(FarthestNeighbor(dim, points), torch.Generator().manual_seed(0), samples).mean
