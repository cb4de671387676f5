"""Where a layer's heads may start instead of at random.

Legend: H heads, R rank, V value rank, D dim.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

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


@torch.no_grad()
def start_shared_values(layer: MultiheadAttention) -> None:
    """Start ``layer`` as groups of heads that answer the same coordinates; queries and keys stay random.

    An orthonormal basis is cut into blocks of V directions, and the heads are dealt to them. With b the coordinates of
    a block and a_h(i, j) the weights of its g heads, what they bring together starts as ::

        u = m ( mean over h < g of  sum_j a_h(i, j) b(x_j)  -  sum_j a_g(i, j) b(x_j) ),    m = min(g, D / R)

    g - 1 heads vote, and the last one takes away what votes for anyone would bring. Where votes agree u is long, where
    they do not it is short: that is what a feed-forward sees of it, in the few coordinates of a block. Trained layers
    with several heads for a direction come to such groups by themselves, late (LOG.md). Nothing here knows the task.
    """
    spec = layer.spec
    if spec.key_heads != spec.heads or spec.source_dim != spec.dim:
        raise InvalidInputError(f"layer: expected as many key heads as heads and one dim, got {layer.extra_repr()}")
    D, H, R, V = spec.dim, spec.heads, spec.rank, spec.value_dim
    basis = _orthonormal(D, D, layer.v_weight)
    blocks = math.ceil(D / V)
    for block in range(min(blocks, H)):
        *votes, last = range(block, H, blocks)
        size = min(len(votes) + 1, D / R)
        shares = {head: size / len(votes) for head in votes} | {last: -size if votes else 1.0}
        rows = torch.arange(block * V, (block + 1) * V, device=basis.device)
        for head, share in shares.items():
            _bring(layer, head, basis, rows, share)


@torch.no_grad()
def start_address(layers: Sequence[MultiheadAttention]) -> None:
    """Start ``layers``, all of a stack but its last one, as votes on one address; queries and keys stay random.

    All their heads bring the same V coordinates B [V, D] of what they attend to, half of them with the other sign. With
    a_h(i, j) the weights of head h of a layer, that layer starts as ::

        x_i  ->  x_i + m B^T ( mean over half of the heads of  sum_j a_h(i, j) B x_j  -  the same over the others ),
        m = min(H, D / R)

    A last layer of rank V can find a token by these coordinates, whose votes were cast in all D dimensions. Trained
    so, half of the heads look at near tokens and the other half at far ones, and every head of the last layer searches
    by the address alone (LOG.md); from random values few starts come to that. Nothing here knows the task.
    """
    spec = layers[0].spec
    if spec.key_heads != spec.heads or spec.source_dim != spec.dim or spec.heads < 2:
        raise InvalidInputError(
            f"layers: expected at least two heads, as many key heads and one dim, got {layers[0].extra_repr()}"
        )
    D, H, R, V = spec.dim, spec.heads, spec.rank, spec.value_dim
    basis = _orthonormal(D, D, layers[0].v_weight)
    rows = torch.arange(V, device=basis.device)
    halves = (H + 1) // 2, H // 2
    for layer in layers:
        for head in range(H):
            against = head % 2
            _bring(layer, head, basis, rows, (-1) ** against * min(H, D / R) / halves[against])


def _bring(layer: MultiheadAttention, head: int, basis: Tensor, rows: Tensor, share: float) -> None:
    """Let ``head`` bring ``share`` times the coordinates ``rows`` of ``basis`` [D, D]; what lies beyond D is read, so
    that it can learn, and starts as nothing."""
    row, D = math.sqrt(0.5), len(basis)
    directions = basis[rows % D]
    layer.v_weight[head] = row * directions
    layer.o_weight[head] = (rows < D)[:, None] * (share / row) * directions


def _orthonormal(rows: int, columns: int, like: Tensor) -> Tensor:
    # no QR exists for types narrower than float32
    dtype = torch.promote_types(like.dtype, torch.float32)
    return nn.init.orthogonal_(torch.empty(rows, columns, device=like.device, dtype=dtype))
