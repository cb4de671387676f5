"""Several vectors as one: the joint spectrum of keys and values, each counting alike whatever its scale.

Legend: m rows, n columns (coordinates of the joint vector), S = min(m, n) singular values.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from jaxtyping import Float
from torch import Tensor


def equal_parts(energy: Float[Tensor, " n"], parts: Sequence[int]) -> Float[Tensor, " n"]:
    """What to multiply squares by, so that every part of the coordinates has energy 1.

    - energy: of every coordinate
    - parts: how many coordinates each part has, one after the other
    """
    return torch.cat([part.sum().clamp_min(1e-30).reciprocal().expand(len(part)) for part in energy.split(list(parts))])


def joint_singular_values(rows: Float[Tensor, "m n"], parts: Sequence[int]) -> Float[Tensor, " S"]:
    """Singular values of ``rows`` with the parts of its columns at equal energy, largest first, from a Gram matrix."""
    rows = rows.to(torch.float64)
    rows = rows * equal_parts(rows.square().sum(0), parts).sqrt()
    gram = rows.mT @ rows if rows.shape[0] > rows.shape[1] else rows @ rows.mT
    return torch.linalg.eigvalsh(gram).clamp_min(0).sqrt().flip(0)
