"""Ours: layers of low rank that find the farthest point by an address, hand-built.

Legend: B batch, N points, D dim, R rank. What trained layers were found to do (LOG.md): every point starts with R of
its coordinates as its address; each layer but the last turns the addresses towards the leading eigenvectors of the
points' Gram matrix, and the last one searches by them. No head sees more than R dimensions, and N points span no more
than N: with depth, rank competes with the number of points instead of the dimension.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch
from jaxtyping import Float
from torch import Tensor

from rankwise.errors import require_number
from rankwise.nn.attention import MultiheadAttention
from rankwise.nn.constructions import balanced_weights, coordinate_blocks
from rankwise.nn.transformer import Transformer
from rankwise.spec import ModelSpec

Steps = Sequence[tuple[float | Tensor, float | Tensor]]
"""For every layer but the last (b, e): how far the Gram matrix turns the addresses, and how much they push apart."""


def turned_addresses(points: Float[Tensor, "B N D"], rank: int, steps: Steps) -> Float[Tensor, "B N R"]:
    """The addresses z of all points after ``steps``, from z_i = P x_i, the first ``rank`` coordinates. One step is ::

        z_i  <-  z_i + mean over j of ( b <Q x_i, Q x_j> - e <z_i, z_j> ) (z_j - mean(z)),      Q = 1 - P

    A subspace iteration: with G the Gram matrix of the Q x and Z [N, R] the addresses, G Z turns Z to the leading
    eigenvectors of G, and -Z Z^T Z keeps the largest from outgrowing the others.
    """
    address, rest = points[..., :rank], points[..., rank:]
    gram = rest @ rest.mT
    for turn, push in steps:
        scores = turn * gram - push * (address @ address.mT)
        address = address + scores @ (address - address.mean(dim=-2, keepdim=True)) / points.shape[-2]
    return address


@torch.no_grad()
def address_search(
    dim: int,
    rank: int,
    steps: Sequence[tuple[float, float]],
    beta: float,
    *,
    gain: float = 1.0,
    scale: float = 1e-3,
    dtype: torch.dtype = torch.float32,
) -> Transformer:
    """``len(steps) + 1`` layers of d/r heads (rounded up) of rank r < d that do ``turned_addresses`` and then search.

    Head h reads its own r coordinates P_h, head 0 those of the address; all heads output the address of the point they
    attend to. As in ``constructions.linear_scores`` a softmax is linear at a small ``scale`` s, and heads with scores
    ``(s c_h / a_h) <P_h x_i, P_h x_j>`` and outputs a_h / s, where sum a_h = 0, add up to the step, with c_0 = -e and
    otherwise c_h = b, + O(s).

    In the last layer every head has the weights ``sm(-beta <z_i, z_j>)`` and outputs its own coordinates times
    ``gain``; the coordinates that held the address are 0 in the answer. Without steps this is one layer whose heads all
    search in the same r dimensions.
    """
    blocks = coordinate_blocks(dim, rank)
    for name, number in (("beta", beta), ("gain", gain), ("scale", scale)):
        require_number(name, number, above=0)
    heads = len(blocks)
    layers = len(steps) + 1
    spec = ModelSpec(dim=dim, layers=layers, heads=heads, rank=rank, bias=False, norm="none", residual="learned")
    model = Transformer(spec, dtype=dtype)
    address = blocks[:1].expand_as(blocks)
    *earlier, last = (layer for layer in model.attention_layers() if isinstance(layer, MultiheadAttention))
    weights = balanced_weights(heads)[:, None, None]
    for layer, (turn, push) in zip(earlier, steps, strict=True):
        wanted = torch.full_like(weights, turn)
        wanted[0] = -push
        _write(layer, scale * wanted / weights * blocks, blocks, address, weights / scale * address)
    answered = gain * blocks
    if steps:
        answered[0] = 0.0
    _write(last, -beta * address, address, blocks, answered)
    return model


def _write(layer: MultiheadAttention, query: Tensor, key: Tensor, value: Tensor, output: Tensor) -> None:
    """Weights [H, R, D] of a layer whose scores are ``<query x_i, key x_j>``."""
    layer.q_weight.copy_(query * math.sqrt(layer.spec.rank))
    layer.k_weight.copy_(key)
    layer.v_weight.copy_(value)
    layer.o_weight.copy_(output)


def best_rank_right(points: Float[Tensor, "B N D"], rank: int) -> float:
    """How often the best approximation of the Gram matrix of that rank (Eckart and Young) has its smallest entry of a
    row where the Gram matrix has it: the limit of all addresses."""
    gram = points @ points.mT
    values, vectors = torch.linalg.eigh(gram)
    values, vectors = values[..., -rank:], vectors[..., -rank:]
    nearest = (vectors * values.unsqueeze(-2)) @ vectors.mT
    return (nearest.argmin(-1) == gram.argmin(-1)).double().mean().item()
