"""Attention over short sequences with many small heads: a training step that is fast on a CPU.

Legend: B batch, I queries, J keys, H heads, P = B H pairs, R rank, V value rank.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch
from jaxtyping import Bool, Float
from torch import Tensor
from torch.autograd.function import once_differentiable

# Half a megabyte of 4-byte numbers; a quarter and four times that lose a tenth.
_IN_CACHE = 2**17


class ShortMix(torch.autograd.Function):
    """``softmax(q k^T) v`` a head, all matrices kept with tokens as columns: q^T [R, I], k^T [R, J], v^T [V, J], and
    the weights as [J, I].

    A product of 16 x 16 by 16 x 8 takes twice as long as its transpose: the wide side must be the contiguous one.
    Forward as well as backward are written so that it is (six products at rank 8: 20 instead of 36 ms for 16,384
    pairs). The softmax runs over the rows, not along them: its gradient takes 3 instead of 11 ms. Autograd would choose
    for itself, hence by hand; there is no second derivative.
    """

    @staticmethod
    def forward(
        ctx: Any,
        queries: Float[Tensor, "B I H R"],
        keys: Float[Tensor, "B J H R"],
        values: Float[Tensor, "B J H V"],
        hidden: Bool[Tensor, "b h i J"] | None,
    ) -> Float[Tensor, "B I H V"]:
        """``hidden`` is True where a query must not look; a query that sees nothing gets zeros."""
        q, k, v = (_columns(x) for x in (queries, keys, values))
        weights = torch.bmm(k.mT, q)
        if hidden is None:
            weights = weights.softmax(1)
        else:
            scores = weights.view(queries.shape[0], queries.shape[2], *weights.shape[1:])
            scores.masked_fill_(hidden.mT, torch.finfo(scores.dtype).min)
            weights = weights.softmax(1)
            if hidden.all(-1).any():  # elsewhere the softmax itself leaves zeros
                weights.view(scores.shape).masked_fill_(hidden.mT, 0.0)
        ctx.save_for_backward(q, k, v, weights)
        return _rows(torch.bmm(v, weights), queries.shape[2])

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Float[Tensor, "B I H V"]) -> tuple[Tensor | None, ...]:
        """Gradients of queries, keys and values."""
        q, k, v, weights = ctx.saved_tensors
        g = _columns(grad)
        through = torch._softmax_backward_data(torch.bmm(v.mT, g), weights, 1, weights.dtype)
        heads = grad.shape[2]
        grads = (torch.bmm(k, through), torch.bmm(q, through.mT), torch.bmm(g, weights.mT))
        return (*(_rows(x, heads) for x in grads), None)


class RankOneMix(torch.autograd.Function):
    """``softmax(q k^T) v`` of heads of rank 1: scores are products of two numbers, so nothing needs a matrix product.

    All arrays keep the heads as columns, [B, J, I, H], in the order the projections wrote them, and are worked through
    a few examples at a time, so that they stay in the cache. With m_i the output and g_i its gradient, the gradient of
    the score is ``w_ij g_i (v_j - m_i)``. 2.3 times faster than batched products at 64 heads, 3.2 at 512 (16 tokens,
    256 examples, forward and backward of the whole layer).
    """

    @staticmethod
    def forward(
        ctx: Any, queries: Float[Tensor, "B I H 1"], keys: Float[Tensor, "B J H 1"], values: Float[Tensor, "B J H 1"]
    ) -> Float[Tensor, "B I H 1"]:
        """Every query sees every key."""
        q, k, v = queries.squeeze(3), keys.squeeze(3), values.squeeze(3)
        weights, mixed = q.new_empty(*k.shape[:2], *q.shape[1:]), torch.empty_like(q)
        for w, m, q_i, k_j, v_j in _examples_at_a_time(weights, mixed, q, k, v):
            torch.mul(k_j[:, :, None], q_i[:, None], out=w)
            w -= w.amax(1, keepdim=True)
            w.exp_()
            w /= w.sum(1, keepdim=True)
            torch.sum(w * v_j[:, :, None], 1, out=m)
        ctx.save_for_backward(weights, mixed, q, k, v)
        return mixed.unsqueeze(3)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Float[Tensor, "B I H 1"]) -> tuple[Tensor, ...]:
        """Gradients of queries, keys and values."""
        weights, mixed, *inputs = ctx.saved_tensors
        grads = [torch.empty_like(x) for x in inputs]
        pieces = _examples_at_a_time(weights, mixed, *inputs, grad.squeeze(3), *grads)
        for w, m, q_i, k_j, v_j, g, grad_q, grad_k, grad_v in pieces:
            through = w * g[:, None]
            torch.sum(through, 2, out=grad_v)
            through *= v_j[:, :, None] - m[:, None]
            torch.sum(through * k_j[:, :, None], 1, out=grad_q)
            through *= q_i[:, None]
            torch.sum(through, 2, out=grad_k)
        return tuple(x.unsqueeze(3) for x in grads)


def products_suffice(
    queries: Float[Tensor, "B I H R"], keys: Float[Tensor, "B J G R"], values: Float[Tensor, "B J W V"]
) -> bool:
    """Rank and value rank are 1, and every head has its own key and value head."""
    own = queries.shape[2] == keys.shape[2] == values.shape[2]
    return own and keys.shape[3] == values.shape[3] == 1


def turning_pays(
    queries: Float[Tensor, "B I H R"], keys: Float[Tensor, "B J G R"], values: Float[Tensor, "B J W V"]
) -> bool:
    """Every head has its own key and value head, and both ranks lie between 1 and the number of keys.

    Measured at 16 keys: rank 8 gains, rank 32 loses a fifth.
    """
    own = queries.shape[2] == keys.shape[2] == values.shape[2]
    return own and 1 < keys.shape[3] < keys.shape[1] and 1 < values.shape[3] < keys.shape[1]


def _examples_at_a_time(weights: Float[Tensor, "B J I H"], *others: Tensor) -> Iterator[tuple[Tensor, ...]]:
    """Slices of all tensors, as many examples as have ``_IN_CACHE`` weights."""
    examples = max(1, _IN_CACHE // max(1, weights[:1].numel()))
    return zip(*(x.split(examples) for x in (weights, *others)), strict=True)


def _columns(x: Float[Tensor, "B N H R"]) -> Float[Tensor, "P R N"]:
    return x.permute(0, 2, 3, 1).flatten(0, 1)


def _rows(x: Float[Tensor, "P R N"], heads: int) -> Float[Tensor, "B N H R"]:
    return x.unflatten(0, (-1, heads)).permute(0, 3, 1, 2)
