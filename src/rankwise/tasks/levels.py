"""What needs no attention, estimated once per task, for the levels of figures about neighbours."""

from __future__ import annotations

from functools import cache

import torch

from rankwise.spec import NeighborSpec
from rankwise.tasks.from_spec import build_neighbors
from rankwise.tasks.linear_scores import linear_scores_error
from rankwise.tasks.neighbors import FarthestNeighbor


@cache
def trivial_errors(dim: int, points: int, samples: int = 20_000) -> dict[str, float]:
    """Farthest neighbour without looking: predict 0, the mean of the points, or the best linear map (estimated)."""
    return FarthestNeighbor(dim, points).levels(samples)


@cache
def linear_error(task: NeighborSpec, seed: int = 0, samples: int = 20_000) -> float:
    """The error of the best linear predictor with a constant on any task of neighbours (estimated)."""
    return build_neighbors(task).baselines(torch.Generator().manual_seed(seed), samples).linear.mean


@cache
def linear_scores_level(dim: int, points: int, samples: int = 20_000) -> float:
    """Farthest neighbour by linear scores, which heads of any rank with whole values can have (estimated)."""
    return linear_scores_error(FarthestNeighbor(dim, points), torch.Generator().manual_seed(0), samples).mean
