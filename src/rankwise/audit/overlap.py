"""Heads whose subspaces overlap: principal angles between the main parts of two heads' forms, against chance.

Sharing a subspace is not doing the same thing: two heads may read the same coordinates and weigh them differently. A
pair is called redundant only when both sides of the form overlap by more than one half and by more than chance.

Legend: p pairs of heads.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from jaxtyping import Bool, Float, Int

from rankwise.audit.baseline import joint_spread, overlap_moments
from rankwise.audit.report import Overlap
from rankwise.audit.spectra import Forms
from rankwise.audit.subspaces import Subspaces

_HALF = 0.5
_CLOSEST = 3
_LOOKED_AT_FIRST = 64


@dataclass(frozen=True)
class _Shared:
    """Of pairs, on one side of their forms."""

    share: Float[np.ndarray, " p"]
    """Of the smaller subspace, that lies in the other."""
    random: Float[np.ndarray, " p"]
    """What chance gives."""
    beyond: Bool[np.ndarray, " p"]
    """Whether the share is more than chance gives."""


def overlaps(forms: Forms, name: str, *, pairs_of_model: int, in_common: int = 0) -> tuple[Overlap, ...]:
    """The redundant pairs of a layer and its closest pairs, closest first.

    Two heads of one key group share the right factor, so there chance is that of subspaces of its ``rank``
    coordinates, not of all. Heads behind a shared map (latent attention) can only differ within its rows. ``in_common``
    coordinates of the right side are the same in all heads (the rotary key of latent attention): as many shared
    dimensions, where both subspaces have them, are nobody's choice.
    """
    heads = len(forms.left_spaces.dims)
    if heads < 2:
        return ()
    i, j = np.triu_indices(heads, 1)
    spread = joint_spread(2 * pairs_of_model)
    same_group = i // forms.group == j // forms.group
    right_size = np.where(same_group, min(forms.right_cores.shape[1], forms.right_spaces.size), forms.right_spaces.size)
    right = _shared(forms.right_spaces, i, j, right_size, spread, in_common=in_common)
    order = np.argsort(-right.share, kind="stable")
    first = max(int((right.share > _HALF).sum()), _LOOKED_AT_FIRST)
    found = _pairs(forms, name, i, j, right, order[:first], spread)
    # the weaker side decides: of the others, only these can be among the closest
    weaker = sorted((min(pair.left, pair.right) for pair in found), reverse=True)[:_CLOSEST]
    others = order[first:][right.share[order[first:]] >= weaker[-1]]
    if len(others):
        found += _pairs(forms, name, i, j, right, others, spread)
    found.sort(key=lambda pair: (-min(pair.left, pair.right), pair.heads))
    return tuple(pair for place, pair in enumerate(found) if pair.redundant or place < _CLOSEST)


def _pairs(
    forms: Forms,
    name: str,
    i: Int[np.ndarray, " p"],
    j: Int[np.ndarray, " p"],
    right: _Shared,
    pairs: Int[np.ndarray, " q"],
    spread: float,
) -> list[Overlap]:
    """Some of the pairs with their left sides, the dearer ones to compute."""
    left = _shared(forms.left_spaces, i[pairs], j[pairs], np.full(len(pairs), forms.left_spaces.size), spread)
    return [
        Overlap(
            name,
            (int(i[pair]), int(j[pair])),
            float(left.share[place]),
            float(right.share[pair]),
            float(left.random[place]),
            float(right.random[pair]),
            bool(_redundant(left, place) and _redundant(right, pair)),
        )
        for place, pair in enumerate(pairs)
    ]


def _redundant(side: _Shared, pair: int) -> bool:
    return bool(side.share[pair] > _HALF and side.beyond[pair])


def _shared(
    spaces: Subspaces,
    i: Int[np.ndarray, " p"],
    j: Int[np.ndarray, " p"],
    size: Int[np.ndarray, " p"],
    spread: float,
    *,
    in_common: int = 0,
) -> _Shared:
    dims = spaces.dims
    shared = spaces.shared(i, j)
    smaller = np.minimum(dims[i], dims[j])
    moments = lru_cache(maxsize=None)(overlap_moments)
    same = np.minimum(in_common, smaller)
    keys = zip((size - same).tolist(), (dims[i] - same).tolist(), (dims[j] - same).tolist(), strict=True)
    mean, deviation = np.array([moments(*key) for key in keys]).T
    mean = mean + same
    # float32 bases are orthonormal to about 1e-6
    beyond = shared > mean + spread * deviation + 1e-4 * smaller
    whole = np.maximum(smaller, 1)  # a head of zeros spans nothing and shares nothing
    return _Shared(np.minimum(shared / whole, 1.0), mean / whole, beyond)
