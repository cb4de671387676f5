"""Where a layer's heads may start instead of at random.

Legend: H heads, R rank, V value rank, D dim.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn

from rankwise.errors import InvalidInputError
from rankwise.nn.attention import MultiheadAttention

SHARPNESS = 2.5
"""Scores start at ``-SHARPNESS sqrt(D) <P x, P x'>`` for unit x: near the best softmax of a head that sees R of D
dimensions, for D = 16 and 64 and R from D/8 to D/2 (simulation)."""


@torch.no_grad()
def start_farthest(layer: MultiheadAttention, length: float = 1.0) -> None:
    """Start ``layer`` as softmax heads that look for the farthest point, for inputs of length ``length``.

    Heads come in groups of ceil(D / V). A group shares one random projection P of rank min(R, D): its scores are
    ``-t <P x_i, P x_j>``. Its values move disjoint parts of one orthonormal basis, so that a group moves the whole of
    x_j; groups are averaged. What a group brings therefore has an inner product with x_i that says whether the choice
    made in R dimensions was right in all D, which is what a feed-forward can use.
    """
    spec = layer.spec
    if layer.log_beta is None or spec.key_heads != spec.heads or spec.source_dim != spec.dim:
        raise InvalidInputError(
            f"layer: expected a learned temperature, as many key heads as heads and one dim, got {layer.extra_repr()}"
        )
    D, H, R, V = spec.dim, spec.heads, spec.rank, spec.value_dim
    group = math.ceil(D / V)
    groups = math.ceil(H / group)
    row = math.sqrt(0.5)  # the length of a row of Q and K in the standard initialisation
    for head in range(H):
        place = head % group
        if place == 0:
            projection, basis = _orthonormal(R, D, layer.q_weight), _orthonormal(D, D, layer.q_weight)
        rows = torch.arange(place * V, (place + 1) * V, device=basis.device) % D
        fresh = torch.arange(place * V, (place + 1) * V, device=basis.device) < D
        layer.q_weight[head] = row * projection
        layer.k_weight[head] = -row * projection
        layer.v_weight[head] = row * basis[rows]
        layer.o_weight[head] = (fresh[:, None] / (row * groups)) * basis[rows]
    layer.log_beta.fill_(math.log(SHARPNESS * math.sqrt(D * R) / (row * length) ** 2))


def _orthonormal(rows: int, columns: int, like: Tensor) -> Tensor:
    # no QR exists for types narrower than float32
    dtype = torch.promote_types(like.dtype, torch.float32)
    return nn.init.orthogonal_(torch.empty(rows, columns, device=like.device, dtype=dtype))
