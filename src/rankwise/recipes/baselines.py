"""What needs no attention: the errors of trivial predictors, for the levels of a figure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


def trivial_errors(dim: int, points: int, samples: int = 20_000) -> dict[str, float]:
    """Farthest neighbour without looking: predict 0, the mean of the points, or the best linear map (estimated)."""
    import torch

    from rankwise.tasks import FarthestNeighbor

    found = FarthestNeighbor(dim, points).baselines(torch.Generator().manual_seed(0), samples)
    return {"zero": found.zero.mean, "mean of points": found.mean.mean, "best linear": found.linear.mean}


def linear_scores_level(dim: int, points: int, samples: int = 20_000) -> float:
    """Farthest neighbour by linear scores, which heads of any rank with whole values can have (estimated)."""
    import torch

    from rankwise.tasks import FarthestNeighbor, linear_scores_error

    return linear_scores_error(FarthestNeighbor(dim, points), torch.Generator().manual_seed(0), samples).mean


def levels_of(spec: Mapping[str, Any], samples: int = 4096) -> dict[str, float]:
    """The same for the task of any run's spec, as a store keeps it; empty where there are no such predictors or the
    task cannot be drawn from here."""
    import torch

    from rankwise.errors import RankwiseError
    from rankwise.spec import RunSpec, TaskSpec, from_plain
    from rankwise.train.build import build_neighbors

    try:
        task = from_plain(RunSpec, dict(spec)).task
        if not isinstance(task, TaskSpec):
            return {}
        neighbors = build_neighbors(task)
    except RankwiseError:  # a spec of another version, or its vectors lie elsewhere: its runs are shown all the same
        return {}
    found = neighbors.baselines(torch.Generator().manual_seed(0), samples)
    return {"zero": found.zero.mean, "mean of points": found.mean.mean, "best linear": found.linear.mean}
