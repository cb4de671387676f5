"""A vector squeezed through fewer coordinates: which directions of it to keep, and how it is rebuilt.

    x ~ mean + up_k down_k (x - mean),    down = U^T G^1/2,    up = G^-1/2 U

with U the eigenvectors of ``G^1/2 C G^1/2``, largest first: C says how x varies, G what an error in x costs. The sum
of the eigenvalues that are dropped is the expected squared error in the metric G; no other choice of k directions
has a smaller one (Eckart and Young, in coordinates ``G^1/2 x``).

Legend: n coordinates of x, k kept.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor

RIDGE = 1e-4
"""Of the mean diagonal; added to a second moment before it is inverted."""


@dataclass(frozen=True)
class Metric:
    """What a method knows of a vector x."""

    mean: Float[Tensor, " n"]
    spread: Float[Tensor, "n n"]
    """C, the second moment of x around ``mean``."""
    importance: Float[Tensor, "n n"]
    """G: an error e costs ``e^T G e``."""


@dataclass(frozen=True)
class Bottleneck:
    """All directions of a vector, the best first."""

    mean: Float[Tensor, " n"]
    down: Float[Tensor, "n n"]
    up: Float[Tensor, "n n"]
    spectrum: Float[Tensor, " n"]
    """What dropping each direction costs, by the metric; a ranking, not a forecast of the loss."""

    def shift(self, rank: int) -> Float[Tensor, " n"]:
        """The constant part of the rebuilt vector, ``mean - up_k down_k mean``."""
        return self.mean - self.up[:, :rank] @ (self.down[:rank] @ self.mean)


def bottleneck(metric: Metric) -> Bottleneck:
    """The directions of ``metric`` in the order of what they are worth."""
    values, vectors = torch.linalg.eigh(ridged(metric.importance.double()))
    values = values.clamp_min(RIDGE * float(values[-1]) / len(values))
    root = (vectors * values.sqrt()) @ vectors.mT
    inverse = (vectors / values.sqrt()) @ vectors.mT
    spectrum, directions = torch.linalg.eigh(root @ metric.spread.double() @ root)
    order = spectrum.argsort(descending=True)
    down, up = directions[:, order].mT @ root, inverse @ directions[:, order]
    size = down.norm(dim=1)  # of length 1, so that half precision can store them
    return Bottleneck(metric.mean.double(), down / size[:, None], up * size, spectrum[order].clamp_min(0))


def ridged(moment: Float[Tensor, "n n"]) -> Float[Tensor, "n n"]:
    """A second moment made safely invertible."""
    size = moment.diagonal().mean().clamp_min(1e-30)
    return moment + RIDGE * size * torch.eye(len(moment), dtype=moment.dtype)
