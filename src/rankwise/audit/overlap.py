"""Heads whose subspaces overlap: principal angles between the main parts of two heads' forms, against chance.

Sharing a subspace is not doing the same thing: two heads may read the same coordinates and weigh them differently. A
pair is called redundant only when both sides of the form overlap by more than one half and by more than chance.
"""

from __future__ import annotations

import math

import torch
from jaxtyping import Float
from torch import Tensor

from rankwise.audit.baseline import joint_spread, overlap_moments
from rankwise.audit.report import Overlap
from rankwise.audit.spectra import Forms

HALF = 0.5
_CLOSEST = 3


def overlaps(forms: Forms, name: str, *, pairs_of_model: int) -> tuple[Overlap, ...]:
    """The redundant pairs of a layer and its closest pairs, closest first.

    Two heads of one key group share the right factor, so there chance is that of subspaces of its ``rank``
    coordinates, not of all.
    """
    heads = len(forms.left_spaces)
    if heads < 2:
        return ()
    left, right = _shared(forms.left_spaces), _shared(forms.right_spaces)
    spread = joint_spread(2 * pairs_of_model)
    found = []
    for i in range(heads):
        for j in range(i + 1, heads):
            same_group = i // forms.group == j // forms.group
            right_size = forms.right_cores.shape[1] if same_group else forms.sizes[1]
            one = _side(float(left[i, j]), forms.left_spaces, i, j, forms.sizes[0], spread)
            other = _side(float(right[i, j]), forms.right_spaces, i, j, right_size, spread)
            redundant = all(share > HALF and beyond for share, _, beyond in (one, other))
            found.append(Overlap(name, (i, j), one[0], other[0], one[1], other[1], redundant))
    found.sort(key=lambda pair: -min(pair.left, pair.right))
    return tuple(pair for place, pair in enumerate(found) if pair.redundant or place < _CLOSEST)


def _side(shared: float, spaces: list[Tensor], i: int, j: int, size: int, spread: float) -> tuple[float, float, bool]:
    """Share of the smaller subspace, what chance gives, and whether the share is beyond it."""
    one, other = spaces[i].shape[1], spaces[j].shape[1]
    smaller = min(one, other)
    if smaller == 0:
        return 0.0, 0.0, False
    mean, deviation = overlap_moments(size, one, other)
    # float32 bases are orthonormal to about 1e-6
    return min(shared / smaller, 1.0), mean / smaller, shared > mean + spread * deviation + 1e-4 * smaller


def _shared(spaces: list[Tensor]) -> Float[Tensor, "H H"]:
    """``||U_i^T U_j||_F^2`` of all pairs i < j; a head at a time, so that memory stays linear in the heads."""
    sizes = [space.shape[1] for space in spaces]
    joined = torch.cat(spaces, dim=1)
    total = torch.zeros(len(spaces), len(spaces), dtype=torch.float64)
    start = 0
    for head, size in enumerate(sizes[:-1]):
        start += size
        cosines = spaces[head].mT @ joined[:, start:]
        columns = cosines.square().sum(0, dtype=torch.float64)
        owners = torch.repeat_interleave(torch.arange(head + 1, len(sizes)), torch.tensor(sizes[head + 1 :]))
        total[head].index_add_(0, owners, columns)
    if not math.isfinite(float(total.sum())):
        raise AssertionError("subspaces of finite weights are finite")
    return total
