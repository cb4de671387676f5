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
class Moment:
    """A second moment in float64: eigenvalues, ascending, and their directions; of K < D vectors only K of them."""

    values: Float[Tensor, " P"]
    directions: Float[Tensor, "D P"]

    @property
    def present(self) -> Moment:
        """The directions that the data has."""
        kept = self.values > _FLAT * self.values[-1:].clamp(min=0)
        return Moment(self.values[kept], self.directions[:, kept])


@dataclass(frozen=True)
class Moments:
    """The second moments that the forms are made of."""

    queries: Moment
    keys: Moment


def moments(queries: Float[Tensor, "Q D"], keys: Float[Tensor, "K D"]) -> Moments:
    """E q q^T and the covariance of the keys."""
    return Moments(_moment(queries, centred=False), _moment(keys, centred=True))


def intrinsic_dimension(vectors: Float[Tensor, "K D"]) -> float:
    """Participation ratio of the covariance, ``(sum e)^2 / sum e^2``: D for isotropic vectors, k in a flat k-space."""
    spectrum = _moment(vectors, centred=True).values.clamp(min=0)
    return float(participation_ratio(singular_values=spectrum.sqrt()))


def balanced_form(of: Moments) -> Form:
    """The SVD form of full rank; its first r coordinates are the SVD form of rank r."""
    queries, keys = of.queries.present, of.keys.present
    root_q, root_k = queries.values.sqrt(), keys.values.sqrt()
    u, s, wh = torch.linalg.svd(root_q[:, None] * (queries.directions.mT @ keys.directions) * root_k, False)
    kept = s > _FLAT * s[:1]
    scale = s[kept].sqrt()
    left = queries.directions @ (u[:, kept] / root_q[:, None]) * scale
    right = keys.directions @ (wh[kept].mT / root_k[:, None]) * scale
    return Form(left.float(), right.float())


def inner_product(dim: int) -> Form:
    """The form of full rank, without error."""
    return Form(torch.eye(dim), torch.eye(dim))


def pca_form(of: Moments) -> Form:
    """Projection on the keys' principal components, which do not know the queries."""
    basis = of.keys.directions.flip(1).float()
    return Form(basis, basis)


def random_form(vectors: Float[Tensor, "K D"], generator: torch.Generator) -> Form:
    """Orthogonal projection on Haar-random nested subspaces; of few vectors, what they see of it."""
    count, dim = vectors.shape
    span = torch.linalg.qr(vectors.mT).Q if count < dim else None
    basis, upper = torch.linalg.qr(torch.randn(dim, dim if span is None else count, generator=generator))
    basis = basis * upper.diagonal().sign()
    seen = basis if span is None else span @ basis.mT
    return Form(seen, seen)


def _moment(vectors: Float[Tensor, "K D"], *, centred: bool) -> Moment:
    rows = vectors.double()
    if centred:
        rows = rows - rows.mean(0)
    if len(rows) < rows.shape[1]:  # D^3 operations less
        _, s, directions = torch.linalg.svd(rows, full_matrices=False)
        return Moment(s.flip(0).square() / len(rows), directions.flip(0).mT)
    values, vectors = torch.linalg.eigh(rows.mT @ rows / len(rows))
    return Moment(values, vectors)
