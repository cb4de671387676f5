"""Several vectors as one: the joint spectrum of keys and values, each counting alike whatever its scale.

Legend: m rows, n columns (coordinates of the joint vector), S = min(m, n).
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from jaxtyping import Float
from torch import Tensor

_ROWS_AT_ONCE = 512
_COLUMNS_AT_ONCE = 256


def equal_parts(energy: Float[Tensor, " n"], parts: Sequence[int]) -> Float[Tensor, " n"]:
    """What to multiply squares by, so that every part of the coordinates has energy 1.

    - energy: of every coordinate
    - parts: how many coordinates each part has, one after the other
    """
    return torch.cat([part.sum().clamp_min(1e-30).reciprocal().expand(len(part)) for part in energy.split(list(parts))])


def joint_gram(rows: Float[Tensor, "m n"], parts: Sequence[int]) -> Float[Tensor, "S S"]:
    """The smaller Gram matrix of ``rows`` with the parts of its columns at equal energy, in float64."""
    if rows.shape[0] >= rows.shape[1]:
        gram = column_gram(rows)
        scale = equal_parts(gram.diagonal(), parts).sqrt()
        return gram.mul_(scale[:, None]).mul_(scale)
    grams = [column_gram(part.mT) for part in rows.split(list(parts), dim=1)]
    return torch.stack([part / part.trace().clamp_min(1e-30) for part in grams]).sum(0)


def column_gram(rows: Float[Tensor, "m n"]) -> Float[Tensor, "n n"]:
    """``rows^T rows`` in float64. A few rows at a time are widened, and one half is computed."""
    gram = torch.zeros(rows.shape[1], rows.shape[1], dtype=torch.float64)
    for some in rows.split(_ROWS_AT_ONCE):
        wide = some.to(torch.float64)
        for start in range(0, wide.shape[1], _COLUMNS_AT_ONCE):
            stop = start + _COLUMNS_AT_ONCE
            gram[start:stop, :stop].addmm_(wide[:, start:stop].mT, wide[:, :stop])
    return gram.tril() + gram.tril(-1).mT
