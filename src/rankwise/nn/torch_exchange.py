"""Weights to and from ``torch.nn.MultiheadAttention``."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from rankwise.errors import InvalidInputError
from rankwise.nn.attention import MultiheadAttention


@torch.no_grad()
def from_torch(cls: type[MultiheadAttention], module: nn.MultiheadAttention) -> MultiheadAttention:
    """``rank = value_rank = embed_dim / num_heads``; PyTorch's (out, in) matrices cut into heads."""
    if module.bias_k is not None or module.add_zero_attn:
        raise InvalidInputError(
            "from_torch: expected add_bias_kv=False and add_zero_attn=False; they add keys of no token"
        )
    if module.kdim != module.vdim:
        raise InvalidInputError(f"from_torch: expected kdim == vdim (one context), got {module.kdim} and {module.vdim}")
    if module.in_proj_weight is not None:
        q, k, v = module.in_proj_weight.chunk(3)
    else:
        q, k, v = module.q_proj_weight, module.k_proj_weight, module.v_proj_weight
    dim, heads = module.embed_dim, module.num_heads
    layer = cls(
        dim,
        heads,
        dim // heads,
        context_dim=None if module.kdim == dim else module.kdim,
        bias=module.in_proj_bias is not None,
        dropout=module.dropout,
        device=q.device,
        dtype=q.dtype,
    )
    for parameter, matrix in ((layer.q_weight, q), (layer.k_weight, k), (layer.v_weight, v)):
        parameter.copy_(matrix.unflatten(0, (heads, -1)))
    layer.o_weight.copy_(module.out_proj.weight.mT.unflatten(0, (heads, -1)))
    if module.in_proj_bias is not None:
        biases = module.in_proj_bias.unflatten(0, (3, heads, -1))
        for own, bias in zip((layer.q_bias, layer.k_bias, layer.v_bias), biases, strict=True):
            _bias(own).copy_(bias)
        _bias(layer.o_bias).copy_(_bias(module.out_proj.bias)[None])
    return layer.train(module.training)


@torch.no_grad()
def to_torch(layer: MultiheadAttention) -> nn.MultiheadAttention:
    """The inverse; a learned temperature and an average of heads are folded into the weights."""
    spec = layer.spec
    tied = spec.heads * spec.rank == spec.dim == spec.heads * spec.value_dim
    if not tied or spec.key_heads != spec.heads:
        raise InvalidInputError(
            "to_torch: expected heads*rank == dim == heads*value_rank and kv_heads == heads, all that "
            f"torch.nn.MultiheadAttention can be; got dim={spec.dim}, heads={spec.heads}, rank={spec.rank}, "
            f"value_rank={spec.value_dim}, kv_heads={spec.key_heads}"
        )
    plain = spec.scores == "softmax" and spec.score_form == "low_rank"
    if not plain or spec.qk_norm or spec.rope is not None or spec.causal or spec.window is not None:
        raise InvalidInputError(
            "to_torch: expected softmax scores of low rank without qk_norm, rope, causal and window, which "
            f"torch.nn.MultiheadAttention does not hold (its masks are given at each call); got {layer.extra_repr()}"
        )
    module = nn.MultiheadAttention(
        spec.dim,
        spec.heads,
        dropout=spec.dropout,
        bias=spec.bias,
        kdim=spec.context_dim,
        vdim=spec.context_dim,
        batch_first=True,
        device=layer.q_weight.device,
        dtype=layer.q_weight.dtype,
    )
    beta = torch.stack([layer.score_scale(h) for h in range(spec.heads)])[:, None] * spec.rank**0.5
    matrices = [
        (layer.q_weight * beta[..., None]).flatten(0, 1),
        layer.k_weight.flatten(0, 1),
        layer.v_weight.flatten(0, 1),
    ]
    if module.in_proj_weight is not None:
        module.in_proj_weight.copy_(torch.cat(matrices))
    else:
        targets = (module.q_proj_weight, module.k_proj_weight, module.v_proj_weight)
        for target, matrix in zip(targets, matrices, strict=True):
            target.copy_(matrix)
    module.out_proj.weight.copy_(layer.o_weight.flatten(0, 1).mT / spec.average)
    if spec.bias:
        q_bias = _bias(layer.q_bias) * beta
        stacked = torch.cat([q_bias.flatten(), _bias(layer.k_bias).flatten(), _bias(layer.v_bias).flatten()])
        _bias(module.in_proj_bias).copy_(stacked)
        _bias(module.out_proj.bias).copy_(_bias(layer.o_bias).sum(0) / spec.average)
    return module.train(layer.training)


def _bias(bias: Tensor | None) -> Tensor:
    assert bias is not None, "a layer built with bias=True has all its biases"
    return bias
