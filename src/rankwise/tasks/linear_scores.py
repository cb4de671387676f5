"""What attention with linear scores reaches: the part of a search for which the rank of a head does not matter.

B examples, Q queries, D dim, F features. With scores ``<x_j, y>`` and no softmax, attention is ``C y`` for the
covariance C of the points. Heads of any rank add up to it if their values are whole
(``rankwise.nn.constructions.linear_scores``), so that an error above this one is not the fault of rank.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor

from rankwise.estimate import Estimate
from rankwise.tasks.baselines import estimate_baselines
from rankwise.tasks.batch import Batch
from rankwise.tasks.neighbors import NeighborTask


def linear_scores_error(task: NeighborTask, generator: torch.Generator, samples: int = 4096) -> Estimate:
    """Error of the best ``a y + b mean(x) + c C y``, fitted on ``samples`` examples and measured on as many others.

    The farthest of N points from one of them, d -> infinity: about ``1 - 1 / (N - 1) - m^2 / (N - 2)``, m the mean of
    the largest of N - 1 standard normal numbers (our derivation: orthogonal points, weights linear in normal scores
    less their mean), .718 for N = 16. At d = 64, where points overlap, .694 (measured).
    """
    return estimate_baselines(_WithLinearScores(task), generator, samples).linear


@dataclass(frozen=True)
class _WithLinearScores:
    """``task`` for a linear predictor that has ``C y`` besides."""

    task: NeighborTask

    @property
    def isotropic(self) -> bool:
        return self.task.isotropic

    @property
    def numbers_per_example(self) -> int:
        return self.task.numbers_per_example

    def sample(self, batch: int, generator: torch.Generator, *, dtype: torch.dtype = torch.float32) -> Batch:
        return self.task.sample(batch, generator, dtype=dtype)

    def features(self, batch: Batch) -> Float[Tensor, "F B Q D"]:
        queries = batch.points if batch.queries is None else batch.queries
        centred = batch.points - batch.points.mean(dim=1, keepdim=True)
        turned = (queries @ centred.mT) @ centred / centred.shape[1]
        return torch.cat((self.task.features(batch), turned[None]))

    def mean_prediction(self, batch: Batch) -> Float[Tensor, "B Q D"]:
        return self.task.mean_prediction(batch)
