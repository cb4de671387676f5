"""Which coordinates of a head to keep: the best smaller head, by weights alone or weighted by real activations.

**The bilinear form.** With query q = W_Q y + b_Q and key k = W_K x of one key head, the score is <q, k> (times a scale
that stays). A smaller head uses q' = E^T q and k' = F k in K coordinates, so <q', k'> = <q, P k> with P = E F of rank
K. Over independent q and k with second moments A = E[q q^T] and B = E[k k^T]

    E (<q, k> - <q, P k>)^2 = tr((I - P)^T A (I - P) B) = || A^{1/2} (I - P) B^{1/2} ||_F^2 .

By Eckart and Young the least is reached where A^{1/2} P B^{1/2} is the truncated SVD: with A^{1/2} B^{1/2} = U S V^T,
P = B^{1/2} V_K V_K^T B^{-1/2}, and the error is the sum of the S_i^2 left out. It is the SVD of W_Q^T W_K whitened by
the covariances of its inputs, done in R x R. Our choices:

- B is the covariance of keys (the mean removed): what is added to all scores of a query cancels in the softmax.
- Query heads that share a key head share P, so A is the sum over them: one subspace a key head.
- q and k are split so that both have second moment diag(S): coordinates come sorted, and rank K is the first K of them.
- Weights alone: A = W_Q M W_Q^T + (W_Q s + b_Q)(W_Q s + b_Q)^T, B = W_K M W_K^T with M = diag(gain^2) and s the shift
  of the norm in front (identity and 0 without one): inputs taken as isotropic behind their norm.

The map from a head's mixed values m to the output, o^T m, is the same problem with A = O O^T and B = E[m m^T], not
centred.

**Rotary positions** turn pairs of coordinates by angles that differ from pair to pair. A subspace that mixes pairs
would not commute with them, so only whole pairs are dropped. Pair p adds c_p(i, j) to the score of (i, j); leaving out
a set costs E (sum c_p)^2, the sum of the entries of C_pp' = E[c_p c_p'] over the set (each row centred over the keys it
sees). The set is found greedily, from both ends, and the better one taken. A heuristic: the exact choice is a quadratic
program in 0 and 1. By weights alone C is diagonal, tr(A_p) tr(B_p) / 2: the mean of |W_Q,p^T R(angle) W_K,p|_F^2 over
all angles, which slow pairs do not go through.

Legend: R head dimension, K kept, P rotating pairs.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from jaxtyping import Float64
from torch import Tensor

from rankwise.errors import InvalidInputError

_NEGLIGIBLE = 1e-13  # of the largest eigenvalue of a second moment: rounding, not a direction of the data


@dataclass(frozen=True, eq=False)
class FormBasis:
    """Coordinates of a bilinear form <left, right> in which keeping the first K is the best rank K.

    ``<to_left l, to_right r>`` = ``<l, r>`` for all r that occur; ``energy[i]`` is the squared error of leaving out i.
    """

    to_left: Float64[Tensor, "R R"]
    to_right: Float64[Tensor, "R R"]
    energy: Float64[Tensor, "R"]

    def projection(self, kept: int) -> Float64[Tensor, "R R"]:
        """P of rank ``kept``: scores become <l, P r>."""
        return self.to_left[:kept].mT @ self.to_right[:kept]


def form_basis(left: Float64[Tensor, "R R"], right: Float64[Tensor, "R R"]) -> FormBasis:
    """The basis for second moments ``left`` (queries) and ``right`` (keys) of a head."""
    root_left, _ = _roots(left)
    root_right, inverse = _roots(right)
    _, s, vh = torch.linalg.svd(root_left @ root_right)
    scale = s.clamp(min=s[0] * _NEGLIGIBLE).sqrt() if float(s[0]) > 0 else torch.ones_like(s)
    to_left = (vh @ root_right) / scale[:, None]
    to_right = (vh @ inverse) * scale[:, None]
    return FormBasis(to_left, to_right, s.square())


def form_error(
    left: Float64[Tensor, "R R"], right: Float64[Tensor, "R R"], projection: Float64[Tensor, "R R"]
) -> float:
    """``tr((I - P)^T A (I - P) B)``: the mean squared error of scores for any P."""
    rest = torch.eye(len(projection), dtype=projection.dtype) - projection
    return float(torch.einsum("ji,jk,kl,li->", rest, left, rest, right).clamp(min=0))


def _roots(moment: Float64[Tensor, "R R"]) -> tuple[Float64[Tensor, "R R"], Float64[Tensor, "R R"]]:
    """The symmetric square root and its pseudo-inverse."""
    values, vectors = torch.linalg.eigh((moment + moment.mT) / 2)
    values = torch.where(values > _NEGLIGIBLE * values[-1], values, 0.0)
    roots = values.clamp(min=0).sqrt()
    inverse = torch.where(roots > 0, 1 / roots, 0.0)
    return (vectors * roots) @ vectors.mT, (vectors * inverse) @ vectors.mT


def pairs_error(contributions: Float64[Tensor, "P P"], kept: Sequence[int]) -> float:
    """``E (sum of the pairs left out)^2``."""
    out = torch.ones(len(contributions), dtype=torch.bool)
    out[list(kept)] = False
    return max(0.0, float(contributions[out][:, out].sum()))


def best_pairs(
    contributions: Float64[Tensor, "P P"], count: int, *, candidates: Sequence[Sequence[int]] = ()
) -> tuple[int, ...]:
    """``count`` rotating pairs to keep, in order: the best of greedy removal, greedy addition and ``candidates``."""
    pairs = len(contributions)
    if not 0 <= count <= pairs:
        raise InvalidInputError(f"pairs: expected 0 to {pairs}, got {count}")
    sets: list[list[int]] = [_removed_greedily(contributions, count), _added_greedily(contributions, count)]
    sets += [sorted(candidate) for candidate in candidates]
    errors = [pairs_error(contributions, kept) for kept in sets]
    return tuple(sets[errors.index(min(errors))])


def _removed_greedily(C: Float64[Tensor, "P P"], count: int) -> list[int]:
    kept = list(range(len(C)))
    cross = torch.zeros(len(C), dtype=C.dtype)  # of each pair with those already out
    while len(kept) > count:
        worst = min(kept, key=lambda pair: float(C[pair, pair] + 2 * cross[pair]))
        kept.remove(worst)
        cross += C[worst]
    return kept


def _added_greedily(C: Float64[Tensor, "P P"], count: int) -> list[int]:
    kept: list[int] = []
    rest = C.sum(1)  # of each pair with all that are still out
    while len(kept) < count:
        free = [pair for pair in range(len(C)) if pair not in kept]
        best = max(free, key=lambda pair: float(2 * rest[pair] - C[pair, pair]))
        kept.append(best)
        rest = rest - C[best]
    return sorted(kept)
