"""Bilinear forms of rank r that stand in for the inner product: q^T M x with M = left right^T.

The SVD form. Among candidates only differences of scores count, so M keeps ``q^T (x - x')`` in mean square::

    min over rank M of  E (q^T (I - M)(x - x'))^2 = 2 || Cq^{1/2} (I - M) Ck^{1/2} ||_F^2

with Cq = E q q^T and Ck the covariance of the keys (queries and keys independent). By Eckart and Young its solution is
the truncated SVD ``Cq^{1/2} Ck^{1/2} = U S W^T``, in the coordinates ``q -> S^{1/2} U^T Cq^{-1/2} q`` and
``x -> S^{1/2} W^T Ck^{-1/2} x``: the inner product of all of them is q^T x (up to a constant of q), both have second
moment S, and the best form of rank r keeps the first r of them. Optimal for the scores (a theorem about least squares),
not for the argmax: training continues from there.

Legend: Q queries, K keys, D dim, P coordinates, R rank.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor

from rankwise.measure import participation_ratio

_FLAT = 1e-12  # of the largest eigenvalue: a direction that the data does not have


@dataclass(frozen=True)
class Form:
    """``q^T left right^T x``; left and right are [D, R]."""

    left: Float[Tensor, "D R"]
    right: Float[Tensor, "D R"]

    def first(self, rank: int) -> Form:
        """The form of the first ``rank`` coordinates."""
        return Form(self.left[:, :rank], self.right[:, :rank])

    @property
    def rank(self) -> int:
        return self.left.shape[1]


@dataclass(frozen=True)
class Moments:
    """Second moments that the forms are made of, in float64."""

    queries: Float[Tensor, "D D"]
    keys: Float[Tensor, "D D"]


def moments(queries: Float[Tensor, "Q D"], keys: Float[Tensor, "K D"]) -> Moments:
    """E q q^T and the covariance of the keys."""
    return Moments(_second_moment(queries, centred=False), _second_moment(keys, centred=True))


def intrinsic_dimension(vectors: Float[Tensor, "K D"]) -> float:
    """Participation ratio of the covariance, ``(sum e)^2 / sum e^2``: D for isotropic vectors, k in a flat k-space."""
    spectrum = torch.linalg.eigvalsh(_second_moment(vectors, centred=True)).clamp(min=0)
    return float(participation_ratio(singular_values=spectrum.sqrt()))


def balanced_form(of: Moments) -> Form:
    """The SVD form of full rank; its first r coordinates are the SVD form of rank r."""
    root_q, inverse_q = _roots(of.queries)
    root_k, inverse_k = _roots(of.keys)
    u, s, wh = torch.linalg.svd(root_q @ root_k)
    kept = s > _FLAT * s[:1]
    scale = s[kept].sqrt()
    return Form((inverse_q @ u[:, kept] * scale).float(), (inverse_k @ wh[kept].mT * scale).float())


def inner_product(dim: int) -> Form:
    """The form of full rank, without error."""
    return Form(torch.eye(dim), torch.eye(dim))


def pca_form(of: Moments) -> Form:
    """Projection on the keys' principal components, which do not know the queries."""
    basis = torch.linalg.eigh(of.keys).eigenvectors.flip(1).float()
    return Form(basis, basis)


def random_form(dim: int, generator: torch.Generator) -> Form:
    """Orthogonal projection on Haar-random nested subspaces."""
    basis, upper = torch.linalg.qr(torch.randn(dim, dim, generator=generator))
    basis = basis * upper.diagonal().sign()
    return Form(basis, basis)


def _second_moment(vectors: Float[Tensor, "K D"], *, centred: bool) -> Float[Tensor, "D D"]:
    rows = vectors.double()
    if centred:
        rows = rows - rows.mean(0)
    return rows.mT @ rows / len(rows)


def _roots(moment: Float[Tensor, "D D"]) -> tuple[Float[Tensor, "D D"], Float[Tensor, "D D"]]:
    """Square root and the inverse of it on the directions that the data has."""
    values, vectors = torch.linalg.eigh(moment)
    present = values > _FLAT * values[-1:].clamp(min=0)
    root = values.clamp(min=0).sqrt()
    inverse = torch.where(present, 1 / torch.where(present, root, 1.0), 0.0)
    return (vectors * torch.where(present, root, 0.0)) @ vectors.mT, (vectors * inverse) @ vectors.mT
