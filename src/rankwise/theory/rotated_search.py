"""What structure misses: search by a given rotation, ``x_j`` with the largest ``<x_j, T y>``, T orthogonal.

A head of rank d is exact with M = T, for every T. Low rank errs as it does for T = I, since y is uniform: the lower
bound does not change. A structured form is exact for T = I, and for no T but a set of measure 0 as soon as it has fewer
weights than rotations have dimensions, d (d - 1) / 2 (our derivation, by counting dimensions).

One hardmax head with form M on two orthogonal points chooses by the sign of ``<w, M y>``, w uniform. Given y that is
the wrong sign with probability angle(M y, T y) / pi, so (our derivation, exact)::

    P(wrong) = E angle(M y, T y) / pi,   error = 2 P(wrong) with values I

Here M is the form of each kind nearest to T in the Frobenius norm, which need not be the best one: a heuristic.
Legend: D dim, b blocks, R rank.
"""

from __future__ import annotations

import numpy as np
from jaxtyping import Float
from scipy.stats import ortho_group

from rankwise.errors import InvalidInputError, require_choice, require_int
from rankwise.theory.arrays import Array

_ROUNDS = 30


def random_rotation(dim: int, seed: int) -> Float[Array, "D D"]:
    """T, Haar."""
    drawn: Float[Array, "D D"] = ortho_group.rvs(require_int("dim", dim, minimum=2), random_state=seed)
    return drawn


def nearest_form(target: Float[Array, "D D"], form: str, rank: int, blocks: int = 1) -> Float[Array, "D D"]:
    """The matrix of that form (see ``AttentionSpec.score_form``) nearest to ``target`` in the Frobenius norm.

    Exact for ``low_rank`` and ``monarch`` (Eckart and Young, whole or tile by tile); for ``block_low_rank`` blocks and
    low rank are fitted in turns.
    """
    require_choice("form", form, ("low_rank", "block_low_rank", "monarch"))
    require_int("rank", rank, minimum=1)
    dim = len(target)
    if dim % require_int("blocks", blocks, minimum=1):
        raise InvalidInputError(f"blocks: expected a divisor of {dim}, got {blocks}")
    if form == "low_rank":
        return _truncated(target, rank)
    size = dim // blocks
    if form == "monarch":
        tiles = target.reshape(blocks, size, blocks, size).transpose(0, 3, 1, 2)  # [a, t, i, c]
        return _truncated(tiles, rank).transpose(0, 2, 3, 1).reshape(dim, dim)
    diagonal = np.kron(np.eye(blocks), np.ones((size, size))).astype(bool)
    low_rank = np.zeros_like(target)
    for _ in range(_ROUNDS):
        low_rank = _truncated(np.where(diagonal, low_rank, target), rank)
    return np.where(diagonal, target, low_rank)


def wrong_share(form: Float[Array, "D D"], target: Float[Array, "D D"], samples: int = 20_000) -> float:
    """``E angle(M y, T y) / pi`` over ``samples`` uniform y, the same for every call."""
    y = np.random.default_rng(0).normal(size=(samples, len(target)))
    chosen, right = y @ form.T, y @ target.T
    lengths = np.linalg.norm(chosen, axis=1) * np.linalg.norm(right, axis=1)
    cosine = np.einsum("nd,nd->n", chosen, right) / lengths
    return float(np.arccos(np.clip(cosine, -1, 1)).mean() / np.pi)


def _truncated(matrices: Float[Array, "*k m n"], rank: int) -> Float[Array, "*k m n"]:
    u, s, vh = np.linalg.svd(matrices, full_matrices=False)
    best: Float[Array, "*k m n"] = (u[..., :rank] * s[..., None, :rank]) @ vh[..., :rank, :]
    return best
