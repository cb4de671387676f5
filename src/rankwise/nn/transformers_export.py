"""Layers and stacks as models of ``transformers`` whose configuration has a ``head_dim`` of its own.

``head_dim`` is our rank: Llama, SmolLM3 and Qwen3 let it differ from hidden_size / heads.
Outputs are the same. What the other side cannot say is folded into the weights where that is exact, and refused by
name where it is not:

- a learned temperature goes into W_Q (with ``qk_norm`` into the gain of queries, if it is one for all heads);
- the average of heads goes into W_O; interleaved rotary pairs become half-split ones by reordering rows of W_Q, W_K;
- ``value_rank`` other than ``rank`` (or an odd one) is refused, or on request (``pad=True``) padded with zeros, which
  costs what the larger of the two costs;
- feed-forward layers there are gated: the gate is our first matrix, what it multiplies is the constant 1 (a zero matrix
  with bias 1), which costs half as many parameters again.

Legend: H heads, G key/value heads, R rank, V value rank, D dim, E exported head_dim.
"""

from __future__ import annotations

from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.nn.functional import pad as padded

from rankwise.errors import InvalidInputError, MissingExtraError
from rankwise.nn.attention import MultiheadAttention
from rankwise.nn.feedforward import FeedForward
from rankwise.nn.transformer import Block, Transformer
from rankwise.spec import AttentionSpec, ModelSpec

_EPS = 1e-6  # of every norm here


def head_dim_config(spec: AttentionSpec | ModelSpec, *, pad: bool = False, vocabulary: int = 1, **fields: Any) -> Any:
    """The ``transformers`` configuration with explicit ``head_dim`` that can hold what ``spec`` describes.

    Qwen3 where queries and keys are normalised; SmolLM3 without positions, with a window, or where heads do not divide
    dim (Llama's configuration refuses that); Llama otherwise. An ``AttentionSpec`` becomes a model of one layer.
    ``fields`` are passed on (``max_position_embeddings=...``).
    """
    attention = spec.attention if isinstance(spec, ModelSpec) else spec
    layers = spec.layers if isinstance(spec, ModelSpec) else 1
    if isinstance(spec, ModelSpec):
        _require_expressible_stack(spec)
    _require_expressible(attention, pad)
    try:
        import transformers
    except ImportError:
        raise MissingExtraError("audit", "exporting to transformers") from None
    windowed = attention.window is not None
    common: dict[str, Any] = {
        "vocab_size": vocabulary,
        "hidden_size": attention.dim,
        "num_hidden_layers": layers,
        "num_attention_heads": attention.heads,
        "num_key_value_heads": attention.key_heads,
        "head_dim": _head_dim(attention),
        "attention_bias": attention.bias,
        "attention_dropout": attention.dropout,
        "rms_norm_eps": _EPS,
        "intermediate_size": 1,
        "bos_token_id": None,
        "eos_token_id": None,
        "pad_token_id": None,
        "tie_word_embeddings": False,
    }
    if attention.rope is not None:
        common["rope_parameters"] = {"rope_type": "default", "rope_theta": attention.rope.base}
    if isinstance(spec, ModelSpec) and spec.feedforward:
        common |= {"intermediate_size": spec.feedforward, "hidden_act": spec.activation}
    if windowed or attention.qk_norm:
        common |= {
            "use_sliding_window": windowed,
            "sliding_window": attention.window,
            "layer_types": ["sliding_attention" if windowed else "full_attention"] * layers,
        }
    if attention.qk_norm:
        return transformers.Qwen3Config(**common | fields)
    common["mlp_bias"] = isinstance(spec, ModelSpec) and spec.feedforward > 0
    if attention.rope is None or windowed or attention.dim % attention.heads:
        common["no_rope_layers"] = [int(attention.rope is not None)] * layers
        return transformers.SmolLM3Config(**common | fields)
    return transformers.LlamaConfig(**common | fields)


@torch.no_grad()
def export_attention(layer: MultiheadAttention, *, pad: bool = False, **fields: Any) -> nn.Module:
    """The layer as the ``self_attn`` of a one-layer ``transformers`` model; its ``.config`` has the ``head_dim``."""
    model = _new_model(head_dim_config(layer.spec, pad=pad, **fields), layer.q_weight)
    target = model.layers[0].self_attn
    _fill_attention(target, layer)
    return target.train(layer.training)


@torch.no_grad()
def export_transformer(model: Transformer, *, pad: bool = False, **fields: Any) -> Any:
    """The stack as a ``transformers`` model: ``exported(inputs_embeds=x).last_hidden_state == model(x)``.

    Its table of tokens (``vocabulary=1`` row unless given) is zero: a stack here begins with vectors.
    """
    exported = _new_model(head_dim_config(model.spec, pad=pad, **fields), next(model.parameters()))
    for block, target in zip(model.blocks, exported.layers, strict=True):
        assert isinstance(block, Block)
        assert isinstance(block.attention, MultiheadAttention)  # latent attention has been refused
        _fill_attention(target.self_attn, block.attention)
        target.input_layernorm.weight.copy_(block.attention_norm.weight)
        if block.feedforward is not None and block.feedforward_norm is not None:
            target.post_attention_layernorm.weight.copy_(block.feedforward_norm.weight)
            _fill_feedforward(target.mlp, block.feedforward)
        else:
            target.mlp.down_proj.weight.zero_()
    exported.norm.weight.copy_(model.final_norm.weight)
    exported.embed_tokens.weight.zero_()
    return exported.train(model.training)


def _new_model(config: Any, like: Tensor) -> Any:
    from transformers import AutoModel

    return AutoModel.from_config(config, attn_implementation="sdpa").to(like.device, like.dtype)


def _head_dim(spec: AttentionSpec) -> int:
    """Even, because these configurations want that even of layers without rotary positions."""
    larger = max(spec.rank, spec.value_dim)
    return larger + larger % 2


def _require_expressible(spec: AttentionSpec, pad: bool) -> None:
    only: list[tuple[str, bool, str]] = [
        ("scores", spec.scores == "softmax", f"'softmax', got {spec.scores!r}"),
        ("score_form", spec.score_form == "low_rank", f"'low_rank', got {spec.score_form!r}"),
        ("causal", spec.causal, "True (these models are decoders), got False"),
        ("context_dim", spec.source_dim == spec.dim, f"dim={spec.dim} (self-attention), got {spec.source_dim}"),
    ]
    if spec.rope is not None:
        whole = spec.rope.frequencies is None and spec.rope.rotated(spec.rank) == spec.rank
        only.append(("rope", whole, "all coordinates of a head to turn, by a base alone"))
    elif spec.qk_norm:
        only.append(("rope", False, "rotary positions with qk_norm (Qwen3 always has them), got none"))
    for name, holds, wanted in only:
        if not holds:
            raise InvalidInputError(
                f"{name}: a transformers configuration with head_dim cannot hold it: expected {wanted}"
            )
    head_dim = _head_dim(spec)
    if spec.rank == spec.value_dim == head_dim:
        return
    if spec.rank < head_dim and (spec.rope is not None or spec.qk_norm):
        raise InvalidInputError(
            f"value_rank: expected at most rank={spec.rank}, got {spec.value_dim}: head_dim is one number for both, "
            "and a rank cannot be padded with zeros under rotary positions or qk_norm"
        )
    if not pad:
        raise InvalidInputError(
            f"value_rank: expected rank={spec.rank}, and that even, got {spec.value_dim}: head_dim is one even number "
            f"for both; pass pad=True to pad with zeros to {head_dim} (same outputs, the cost of that head_dim)"
        )


def _require_expressible_stack(spec: ModelSpec) -> None:
    def need(name: str, holds: bool, wanted: str) -> None:
        if not holds:
            raise InvalidInputError(
                f"{name}: a transformers configuration with head_dim cannot hold it: expected {wanted}, "
                f"got {getattr(spec, name)!r}"
            )

    need("kv_lora_rank", spec.kv_lora_rank is None, "None (latent attention is DeepSeek's, without head_dim)")
    need("generalized", spec.generalized is None, "None")
    need("norm", spec.norm == "rms", "'rms'")
    need("norm_place", spec.norm_place == "pre", "'pre'")
    need("residual", spec.residual == "plain", "'plain'")
    need("positions", spec.positions in ("none", "rotary"), "'none' or 'rotary'")
    need(
        "feedforward", not (spec.feedforward and spec.qk_norm), "0 with qk_norm (Qwen3's has no bias to open its gate)"
    )


def _fill_attention(target: Any, layer: MultiheadAttention) -> None:
    spec = layer.spec
    E = target.head_dim
    q_weight, k_weight = layer.q_weight, layer.k_weight
    q_bias, k_bias = layer.q_bias, layer.k_bias
    # their scores are divided by sqrt(head_dim), ours by sqrt(rank)
    scale = torch.stack([layer.score_scale(h) for h in range(spec.heads)])[:, None] * E**0.5
    order = _half_split_order(spec, q_weight.device)
    if layer.q_norm is not None and layer.k_norm is not None:
        if not torch.allclose(scale, scale[:1]):
            raise InvalidInputError(
                "temperature: expected one for all heads with qk_norm, got one per head: Qwen3 normalises all heads' "
                "queries with one gain, so there is no weight left to hold them"
            )
        target.q_norm.weight.copy_(layer.q_norm.weight[order] * scale[0])
        target.k_norm.weight.copy_(layer.k_norm.weight[order])
        scale = torch.ones_like(scale)
    target.q_proj.weight.copy_(_rows(q_weight[:, order] * scale[..., None], E))
    target.k_proj.weight.copy_(_rows(k_weight[:, order], E))
    target.v_proj.weight.copy_(_rows(layer.v_weight, E))
    target.o_proj.weight.copy_(_rows(layer.o_weight, E).mT / spec.average)
    if q_bias is not None and k_bias is not None and layer.v_bias is not None and layer.o_bias is not None:
        target.q_proj.bias.copy_(_rows((q_bias[:, order] * scale)[..., None], E)[:, 0])
        target.k_proj.bias.copy_(_rows(k_bias[:, order, None], E)[:, 0])
        target.v_proj.bias.copy_(_rows(layer.v_bias[..., None], E)[:, 0])
        target.o_proj.bias.copy_(layer.o_bias.mean(0))


def _half_split_order(spec: AttentionSpec, device: torch.device) -> Tensor:
    """Which of our coordinates stands where: pairs (2i, 2i + 1) go to (i, i + R/2), where these models turn them."""
    everything = torch.arange(spec.rank, device=device)
    if spec.rope is None or not spec.rope.interleaved:
        return everything
    return torch.cat((everything[0::2], everything[1::2]))


def _rows(weight: Float[Tensor, "heads r c"], head_dim: int) -> Float[Tensor, "rows c"]:
    """Heads one below the other, each with zero rows up to ``head_dim``."""
    return padded(weight, (0, 0, 0, head_dim - weight.shape[1])).flatten(0, 1)


def _fill_feedforward(target: Any, feedforward: FeedForward) -> None:
    first, _, second = feedforward
    for gate, linear in ((target.gate_proj, first), (target.down_proj, second)):
        gate.weight.copy_(linear.weight)
        gate.bias.zero_() if linear.bias is None else gate.bias.copy_(linear.bias)
    target.up_proj.weight.zero_()
    target.up_proj.bias.fill_(1.0)
