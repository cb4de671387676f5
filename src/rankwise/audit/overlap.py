"""Heads whose subspaces overlap: principal angles between the main parts of two heads' forms, against chance.

Sharing a subspace is not doing the same thing: two heads may read the same coordinates and weigh them differently. A
pair is called redundant only when both sides of the form overlap by more than one half and by more than chance.

Legend: p pairs of heads.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from statistics import NormalDist

import numpy as np
from jaxtyping import Bool, Float, Int

from rankwise.audit.baseline import joint_spread, overlap_moments
from rankwise.audit.chance_overlap import SideChance
from rankwise.audit.report import Overlap
from rankwise.audit.spectra import Forms
from rankwise.audit.subspaces import Subspaces

_HALF = 0.5
_CLOSEST = 3
_LOOKED_AT_FIRST = 64

_Chance = Callable[[Int[np.ndarray, " p"], Int[np.ndarray, " p"]], Float[np.ndarray, "two p"]]


@dataclass(frozen=True)
class _Shared:
    """Of pairs, on one side of their forms."""

    share: Float[np.ndarray, " p"]
    """Of the smaller subspace, that lies in the other."""
    random: Float[np.ndarray, " p"]
    """What chance gives."""
    beyond: Bool[np.ndarray, " p"]
    """Whether the share is more than chance gives."""


def overlaps(
    forms: Forms,
    name: str,
    *,
    pairs_of_model: int,
    in_common: int = 0,
    chance: tuple[SideChance, SideChance] | None = None,
) -> tuple[Overlap, ...]:
    """The redundant pairs of a layer and its closest pairs, closest first.

    - ``chance``: what random heads behind the layer's gains share on either side; without gains there is a formula.

    The formula: two heads of one key group share the right factor, so there chance is that of subspaces of its ``rank``
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
    left_chance, right_chance = chance or (None, None)
    right = _shared(forms.right_spaces, i, j, _chance(right_size, in_common, right_chance, same_group, spread))

    def with_left(pairs: Int[np.ndarray, " q"]) -> list[Overlap]:
        """Some of the pairs with their left sides, the dearer ones to compute."""
        size = np.full(len(pairs), forms.left_spaces.size)
        chances = _chance(size, 0, left_chance, same_group[pairs], spread)
        left = _shared(forms.left_spaces, i[pairs], j[pairs], chances)
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

    order = np.argsort(-right.share, kind="stable")
    first = max(int((right.share > _HALF).sum()), _LOOKED_AT_FIRST)
    found = with_left(order[:first])
    # the weaker side decides: of the others, only these can be among the closest
    weaker = sorted((min(pair.left, pair.right) for pair in found), reverse=True)[:_CLOSEST]
    others = order[first:][right.share[order[first:]] >= weaker[-1]]
    if len(others):
        found += with_left(others)
    found.sort(key=lambda pair: (-min(pair.left, pair.right), pair.heads))
    return tuple(pair for place, pair in enumerate(found) if pair.redundant or place < _CLOSEST)


def _redundant(side: _Shared, pair: int) -> bool:
    return bool(side.share[pair] > _HALF and side.beyond[pair])


def _chance(
    size: Int[np.ndarray, " p"],
    in_common: int,
    chance: SideChance | None,
    same_group: Bool[np.ndarray, " p"],
    spread: float,
) -> _Chance:
    """How many dimensions chance lets subspaces of given dimensions share: the mean, and what it does not exceed."""
    if chance is not None:
        confidence = NormalDist().cdf(spread)

        def drawn(one: Int[np.ndarray, " p"], other: Int[np.ndarray, " p"]) -> Float[np.ndarray, "two p"]:
            same, others = (
                np.stack((pairs.of(one, other)[0], pairs.limit(one, other, confidence)))
                for pairs in (chance.same_group, chance.others)
            )
            return np.where(same_group, same, others)

        return drawn

    def computed(one: Int[np.ndarray, " p"], other: Int[np.ndarray, " p"]) -> Float[np.ndarray, "two p"]:
        moments = lru_cache(maxsize=None)(overlap_moments)
        same = np.minimum(in_common, np.minimum(one, other))
        keys = zip((size - same).tolist(), (one - same).tolist(), (other - same).tolist(), strict=True)
        mean, deviation = np.array([moments(*key) for key in keys]).T
        return np.stack((mean + same, mean + same + spread * deviation))

    return computed


def _shared(spaces: Subspaces, i: Int[np.ndarray, " p"], j: Int[np.ndarray, " p"], chance: _Chance) -> _Shared:
    dims = spaces.dims
    shared = spaces.shared(i, j)
    smaller = np.minimum(dims[i], dims[j])
    mean, limit = chance(dims[i], dims[j])
    # float32 bases are orthonormal to about 1e-6
    beyond = shared > limit + 1e-4 * smaller
    whole = np.maximum(smaller, 1)  # a head of zeros spans nothing and shares nothing
    return _Shared(np.minimum(shared / whole, 1.0), mean / whole, beyond)
