"""Heads whose subspaces overlap: principal angles between the main parts of two heads' forms, against chance.

Sharing a subspace is not doing the same thing: two heads may read the same coordinates and weigh them differently. A
pair is called redundant only when both sides of the form overlap by more than one half and by more than chance.
"""

from __future__ import annotations

from functools import lru_cache

import numpy as np
from jaxtyping import Bool, Float, Int

from rankwise.audit.baseline import joint_spread, overlap_moments
from rankwise.audit.report import Overlap
from rankwise.audit.spectra import Forms, Subspaces

_HALF = 0.5
_CLOSEST = 3


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
    left_size = np.full(len(i), forms.left_spaces.size)
    right_size = np.where(same_group, min(forms.right_cores.shape[1], forms.right_spaces.size), forms.right_spaces.size)
    left, left_random, left_beyond = _side(forms.left_spaces, i, j, left_size, spread, in_common=0)
    right, right_random, right_beyond = _side(forms.right_spaces, i, j, right_size, spread, in_common=in_common)
    weaker = np.minimum(left, right)
    redundant = (weaker > _HALF) & left_beyond & right_beyond
    closest = np.argsort(-weaker, kind="stable")
    return tuple(
        Overlap(
            name,
            (int(i[pair]), int(j[pair])),
            float(left[pair]),
            float(right[pair]),
            float(left_random[pair]),
            float(right_random[pair]),
            bool(redundant[pair]),
        )
        for place, pair in enumerate(closest)
        if redundant[pair] or place < _CLOSEST
    )


def _side(
    spaces: Subspaces,
    i: Int[np.ndarray, " p"],
    j: Int[np.ndarray, " p"],
    size: Int[np.ndarray, " p"],
    spread: float,
    *,
    in_common: int,
) -> tuple[Float[np.ndarray, " p"], Float[np.ndarray, " p"], Bool[np.ndarray, " p"]]:
    """Of each pair: the share of the smaller subspace, what chance gives, and whether the share is beyond it."""
    dims = spaces.dims
    shared = spaces.shared()[i, j]
    smaller = np.minimum(dims[i], dims[j])
    moments = lru_cache(maxsize=None)(overlap_moments)
    same = np.minimum(in_common, smaller)
    keys = zip((size - same).tolist(), (dims[i] - same).tolist(), (dims[j] - same).tolist(), strict=True)
    mean, deviation = np.array([moments(*key) for key in keys]).T
    mean = mean + same
    # float32 bases are orthonormal to about 1e-6
    beyond = shared > mean + spread * deviation + 1e-4 * smaller
    whole = np.maximum(smaller, 1)  # a head of zeros spans nothing and shares nothing
    return np.minimum(shared / whole, 1.0), mean / whole, beyond
