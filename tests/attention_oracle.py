"""Attention written out plainly, one head and one query at a time: slow, obvious, and nobody's fused path."""

import torch


def attention_oracle(layer, query, context, visible, added=0.0):
    """Output and weights of ``layer``; ``visible`` and what is ``added`` to scores are [B, H, I, J]."""
    spec = layer.spec
    group = spec.heads // spec.key_heads
    zero = torch.zeros((), dtype=query.dtype)
    q = torch.einsum("bid,hrd->bhir", query, layer.q_weight) + (zero if layer.q_bias is None else layer.q_bias[:, None])
    k = torch.einsum("bjc,grc->bgjr", context, layer.k_weight)
    v = torch.einsum("bjc,gvc->bgjv", context, layer.v_weight)
    if layer.k_bias is not None:
        k, v = k + layer.k_bias[:, None], v + layer.v_bias[:, None]
    k, v = (torch.stack([x[:, h // group] for h in range(spec.heads)], 1) for x in (k, v))
    scale = torch.stack([layer.score_scale(h) for h in range(spec.heads)])
    scores = torch.einsum("bhir,bhjr->bhij", q, k) * scale[:, None, None] + added
    scores = scores.masked_fill(~visible, float("-inf"))
    if spec.scores == "hardmax":
        weights = torch.nn.functional.one_hot(scores.argmax(-1), scores.shape[-1]).to(query.dtype)
    else:
        weights = scores.softmax(-1)
    weights = torch.where(visible.any(-1, keepdim=True), weights, zero)
    output = torch.einsum("bhij,bhjv,hvd->bid", weights, v, layer.o_weight)
    if layer.o_bias is not None:
        output = output + layer.o_bias.sum(0)
    output = output / spec.average
    seen = visible.any(-1).any(1)
    return torch.where(seen[..., None], output, zero), weights
