"""From attention matrices and weights to the readings of every head.

Legend: T sequences, H heads, N queries, M keys, R rank, D dim, C context dim, S the smaller of them.
"""

from __future__ import annotations

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from rankwise.audit import barrier, seen_mask
from rankwise.measure import effective_rank, hardmax_rank
from rankwise.watch.observation import HeadReading


def attention_readings(
    name: str, weights: Float[Tensor, "T H N M"], qk: tuple[list[float], float] | None
) -> list[HeadReading]:
    """The readings of all heads of one layer; the mask is read off the zeros of ``weights``.

    - ``qk``: effective rank of every head's QK form, and that of Gaussian weights.
    """
    weights = weights.detach().float()
    visible: Bool[Tensor, "N M"] = (weights > 0).flatten(0, 1).any(0)
    entropy = torch.special.entr(weights).sum(-1)
    sees = weights.sum(-1) > 0
    ranks = hardmax_rank(weights.masked_fill(~sees[..., None], -torch.inf)).double().mean(0)
    entropies = (entropy * sees).sum((0, 2)) / sees.sum((0, 2)).clamp(min=1)
    counts = visible.sum(-1)
    uniform = float(counts[counts > 0].double().log().mean()) if bool(visible.any()) else 0.0
    mask = seen_mask(visible.cpu())
    queries, keys = weights.shape[2:]
    random = barrier(queries, keys, None if mask.kind == "full" else visible.cpu())
    return [
        HeadReading(
            layer=name,
            head=head,
            attention_rank=float(ranks[head]),
            attention_rank_random=random,
            entropy=float(entropies[head]),
            entropy_uniform=uniform,
            qk_effective=None if qk is None else qk[0][head],
            qk_effective_random=None if qk is None else qk[1],
        )
        for head in range(weights.shape[1])
    ]


def gaussian_effective_rank(dim: int, context_dim: int, rank: int, draws: int = 4, seed: int = 0) -> float:
    """Mean effective rank of ``W_Q^T W_K`` for Gaussian W_Q [rank, dim], W_K [rank, context_dim], by simulation."""
    generator = torch.Generator().manual_seed(seed)
    q = torch.randn(draws, rank, dim, generator=generator)
    k = torch.randn(draws, rank, context_dim, generator=generator)
    return float(effective_rank(singular_values=qk_singular_values(q, k)).mean())


def qk_singular_values(q: Float[Tensor, "H R D"], k: Float[Tensor, "H R C"]) -> Float[Tensor, "H S"]:
    """Singular values of ``W_Q^T W_K`` of every head, from Gram matrices of the smaller side.

    ``W_Q^T W_K`` and ``A^T B`` with ``A A^T = W_Q W_Q^T``, ``B B^T = W_K W_K^T`` have the same ones. A Gram matrix
    loses half the digits of the smallest, which the effective rank does not see.
    """
    q, k = q.detach().double(), k.detach().double()
    if q.shape[1] >= min(q.shape[2], k.shape[2]):
        return torch.linalg.svdvals(q.mT @ k)
    left, right = (_root(x @ x.mT) for x in (q, k))
    return torch.linalg.svdvals(left.mT @ right)


def _root(gram: Float[Tensor, "H R R"]) -> Float[Tensor, "H R R"]:
    values, vectors = torch.linalg.eigh(gram)
    return vectors * values.clamp(min=0).sqrt()[..., None, :]
