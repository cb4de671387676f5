"""What needs no attention: the errors of trivial predictors, for the levels of a figure."""

from __future__ import annotations


def trivial_errors(dim: int, points: int, samples: int = 20_000) -> dict[str, float]:
    """Farthest neighbour without looking: predict 0, the mean of the points, or the best linear map (estimated)."""
    import torch

    from rankwise.tasks import FarthestNeighbor

    found = FarthestNeighbor(dim, points).baselines(torch.Generator().manual_seed(0), samples)
    return {"zero": found.zero.mean, "mean of points": found.mean.mean, "best linear": found.linear.mean}
