"""Decoders that keep q, k and v in one tensor: GPT-2, GPT-NeoX, Falcon."""

from __future__ import annotations

import numpy as np

from rankwise.models.layouts.found import columns, find_stack, layer_norm, optional, require_shape
from rankwise.models.layouts.layer import LayerRef, TensorSlice
from rankwise.models.layouts.rope import read_rope
from rankwise.models.tensor_source import TensorSource
from rankwise.shapes.config import ConfigPart, shape_of_config


def gpt2_layers(source: TensorSource, config: ConfigPart) -> list[LayerRef]:
    """GPT-2: (in, out) tensors; columns are all queries, then all keys, then all values."""
    shape = shape_of_config(config.values)
    dim, heads, rank = shape.dim, shape.heads, shape.rank
    index = np.arange(3 * heads * rank).reshape(3, heads, rank)
    found = []
    for layer, stem in enumerate(find_stack(source, r"h\.{}attn\.c_attn\.weight", layers=shape.layers)):
        fused, out = f"{stem}attn.c_attn", f"{stem}attn.c_proj"
        require_shape(source, f"{fused}.weight", (dim, index.size), f"3 times {heads} heads of {rank}")
        require_shape(source, f"{fused}.bias", (index.size,), f"3 times {heads} heads of {rank}")
        require_shape(source, f"{out}.weight", (heads * rank, dim), f"{heads} heads of {rank} to {dim} outputs")
        scale = rank**-0.5 if config.values.get("scale_attn_weights") is not False else 1.0
        if config.switch("scale_attn_by_inverse_layer_idx"):
            scale /= layer + 1
        norm = layer_norm(source, f"{stem}ln_1", dim)
        weights = [TensorSlice(f"{fused}.weight", part, 1) for part in index]
        biases = [TensorSlice(f"{fused}.bias", part, 0) for part in index]
        found.append(
            LayerRef(
                part="decoder",
                layer=layer,
                dim=dim,
                context_dim=dim,
                heads=heads,
                kv_heads=heads,
                rank=rank,
                value_rank=rank,
                scale=scale,
                mask="causal",
                q=weights[0],
                k=weights[1],
                v=weights[2],
                o=TensorSlice(f"{out}.weight", index[0], 0),
                q_bias=biases[0],
                k_bias=biases[1],
                v_bias=biases[2],
                o_bias=f"{out}.bias",
                query_norm=norm,
                key_norm=norm,
            )
        )
    return found


def gpt_neox_layers(source: TensorSource, config: ConfigPart) -> list[LayerRef]:
    """GPT-NeoX: rows are query, key and value of head 0, then of head 1, and so on; part of each head turns."""
    heads = shape_of_config(config.values).heads
    return _rows_layers(source, config, r"layers\.{}attention\.query_key_value\.weight", heads, 1, ("input_layernorm",))


def falcon_layers(source: TensorSource, config: ConfigPart) -> list[LayerRef]:
    """Falcon: rows are the queries of a group, their key, their value, then the next group.

    One group for all heads with ``multi_query``, a group a head in the first models, ``num_kv_heads`` groups since.
    """
    shape = shape_of_config(config.values)
    pattern = r"h\.{}self_attention\.query_key_value\.weight"
    group = shape.heads // shape.kv_heads
    return _rows_layers(source, config, pattern, shape.kv_heads, group, ("ln_attn", "input_layernorm"))


def _rows_layers(
    source: TensorSource, config: ConfigPart, pattern: str, groups: int, group: int, norms: tuple[str, ...]
) -> list[LayerRef]:
    """Layers whose rows are ``groups`` times (``group`` queries, a key, a value)."""
    shape = shape_of_config(config.values)
    dim, heads, rank = shape.dim, shape.heads, shape.rank
    index = np.arange(groups * (group + 2) * rank).reshape(groups, group + 2, rank)
    parts = {"q": index[:, :group].reshape(heads, rank), "k": index[:, group], "v": index[:, group + 1]}
    alibi = config.switch("alibi")
    found = []
    for layer, stem in enumerate(find_stack(source, pattern, layers=shape.layers)):
        fused = f"{stem}{pattern.split('{}')[1]}".replace("\\", "").removesuffix(".weight")
        out = f"{fused.rsplit('.', 1)[0]}.dense"
        says = f"{heads} query heads and {groups} key and value heads of {rank}"
        require_shape(source, f"{fused}.weight", (index.size, dim), says)
        biased = source.has(f"{fused}.bias")
        if biased:
            require_shape(source, f"{fused}.bias", (index.size,), says)
        norm_name = next((name for name in norms if source.has(f"{stem}{name}.weight")), norms[-1])
        norm = layer_norm(source, f"{stem}{norm_name}", dim)
        found.append(
            LayerRef(
                part="decoder",
                layer=layer,
                dim=dim,
                context_dim=dim,
                heads=heads,
                kv_heads=groups,
                rank=rank,
                value_rank=rank,
                scale=rank**-0.5,
                mask="causal",
                q=TensorSlice(f"{fused}.weight", parts["q"]),
                k=TensorSlice(f"{fused}.weight", parts["k"]),
                v=TensorSlice(f"{fused}.weight", parts["v"]),
                o=columns(source, f"{out}.weight", heads, rank, dim),
                q_bias=TensorSlice(f"{fused}.bias", parts["q"]) if biased else None,
                k_bias=TensorSlice(f"{fused}.bias", parts["k"]) if biased else None,
                v_bias=TensorSlice(f"{fused}.bias", parts["v"]) if biased else None,
                o_bias=optional(source, f"{out}.bias"),
                rope=None if alibi else read_rope(config.values, rank),
                score_bias="alibi" if alibi else None,
                query_norm=norm,
                key_norm=norm,
            )
        )
    return found
