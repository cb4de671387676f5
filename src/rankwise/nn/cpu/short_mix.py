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

# Half a megabyte of 4-byte numbers; an eighth of it costs up to two thirds more, four times it is the same.
_IN_CACHE = 2**17

# Below so many multiplications a matrix, torch's batched product is a plain loop on a CPU.
_PLAIN_LOOP = 400

_MANY_HEADS = 16


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


class ProductMix(torch.autograd.Function):
    """``softmax(q k^T) v`` a head without matrix products: scores are sums of R products of numbers, all heads at once.

    All arrays have the heads as columns: q and k [R, B, tokens, H], weights [B, J, I, H]. They are worked through a few
    examples at a time, so that they stay in the cache. With m_i the output and g_i its gradient, the gradient of a
    score is ``w_ij <g_i, v_j - m_i>``. ``products_pay`` says when this is faster.
    """

    @staticmethod
    def forward(
        ctx: Any, queries: Float[Tensor, "B I H R"], keys: Float[Tensor, "B J H R"], values: Float[Tensor, "B J H V"]
    ) -> Float[Tensor, "B I H V"]:
        """Every query sees every key."""
        q, k, v = (_heads_as_columns(x) for x in (queries, keys, values))
        weights, mixed = q.new_empty(*k.shape[1:3], *q.shape[2:]), q.new_empty(len(v), *q.shape[1:])
        for w, m, q_i, k_j, v_j in _examples_at_a_time(weights, mixed, q, k, v):
            _sum_of_products(k_j[:, :, :, None], q_i[:, :, None], out=w)
            w -= w.amax(1, keepdim=True)
            w.exp_()
            w /= w.sum(1, keepdim=True)
            for column, value in zip(m, v_j, strict=True):
                torch.sum(w * value[:, :, None], 1, out=column)
        ctx.save_for_backward(weights, mixed, q, k, v)
        return mixed.permute(1, 2, 3, 0)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Float[Tensor, "B I H V"]) -> tuple[Tensor, ...]:
        """Gradients of queries, keys and values."""
        weights, mixed, *inputs = ctx.saved_tensors
        grads = [torch.empty_like(x) for x in inputs]
        pieces = _examples_at_a_time(weights, mixed, *inputs, _heads_as_columns(grad), *grads)
        for w, m, q_i, k_j, v_j, g, grad_q, grad_k, grad_v in pieces:
            for column, one in zip(grad_v, g, strict=True):
                torch.sum(w * one[:, None], 2, out=column)
            through = _sum_of_products(v_j[:, :, :, None], g[:, :, None], out=torch.empty_like(w))
            through -= (g * m).sum(0)[:, None]
            through *= w
            for column, key in zip(grad_q, k_j, strict=True):
                torch.sum(through * key[:, :, None], 1, out=column)
            for column, query in zip(grad_k, q_i, strict=True):
                torch.sum(through * query[:, None], 2, out=column)
        return tuple(x.permute(1, 2, 3, 0) for x in grads)


def products_pay(
    queries: Float[Tensor, "B I H R"], keys: Float[Tensor, "B J G R"], values: Float[Tensor, "B J W V"]
) -> bool:
    """Many heads, each with its own key and value head, matrices too small for a batched product, and at least 32 bits,
    as these sums are not kept in a longer format than what they add.

    Measured, forward and backward: .3 to .5 of the time at 64 heads (4 keys and ranks 1 to 12, 8 keys and 1 to 6,
    12 keys and 1 to 2, 16 keys and rank 1), the same time or more at 8 heads, and anywhere beyond ``_PLAIN_LOOP``.
    """
    heads, rank = queries.shape[2], max(keys.shape[3], values.shape[3])
    own = heads == keys.shape[2] == values.shape[2]
    exact = keys.dtype in (torch.float32, torch.float64)
    return own and exact and heads >= _MANY_HEADS and 0 < queries.shape[1] * keys.shape[1] * rank < _PLAIN_LOOP


def turning_pays(
    queries: Float[Tensor, "B I H R"], keys: Float[Tensor, "B J G R"], values: Float[Tensor, "B J W V"]
) -> bool:
    """Every head has its own key and value head, and both ranks lie between 1 and the number of keys.

    Measured at 16 keys: rank 8 gains, rank 32 loses a fifth.
    """
    own = queries.shape[2] == keys.shape[2] == values.shape[2]
    return own and 1 < keys.shape[3] < keys.shape[1] and 1 < values.shape[3] < keys.shape[1]


def _sum_of_products(a: Float[Tensor, "R ..."], b: Float[Tensor, "R ..."], *, out: Tensor) -> Tensor:
    torch.mul(a[0], b[0], out=out)
    for one, other in zip(a[1:], b[1:], strict=True):
        out.addcmul_(one, other)
    return out


def _examples_at_a_time(weights: Float[Tensor, "B J I H"], *others: Float[Tensor, "_ B _ H"]) -> Iterator[Any]:
    """Slices of all tensors, as many examples as have ``_IN_CACHE`` weights."""
    examples = max(1, _IN_CACHE // max(1, weights[:1].numel()))
    return zip(weights.split(examples), *(x.split(examples, dim=1) for x in others), strict=True)


def _heads_as_columns(x: Float[Tensor, "B N H R"]) -> Float[Tensor, "R B N H"]:
    return x.permute(3, 0, 1, 2).contiguous()


def _columns(x: Float[Tensor, "B N H R"]) -> Float[Tensor, "P R N"]:
    return x.permute(0, 2, 3, 1).flatten(0, 1)


def _rows(x: Float[Tensor, "P R N"], heads: int) -> Float[Tensor, "B N H R"]:
    return x.unflatten(0, (-1, heads)).permute(0, 3, 1, 2)
