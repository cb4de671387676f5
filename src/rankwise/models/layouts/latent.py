"""Multi-head latent attention of DeepSeek-V2 and V3: keys and values unfolded from one latent a token.

The query's matrices act on its own latent (or on the input, without one). Keys act on latent + shared rotary key: the
nope rows of head h on the latent, its rope rows on the shared coordinates, unchanged.
"""

from __future__ import annotations

import numpy as np

from rankwise.errors import InvalidInputError
from rankwise.models.layouts.found import columns, find_stack, optional, require_shape, rms_norm, rows
from rankwise.models.layouts.layer import LatentRef, LayerRef, TensorSlice
from rankwise.models.layouts.rope import read_rope, yarn_mscale
from rankwise.models.tensor_source import TensorSource
from rankwise.shapes import ConfigPart, shape_of_config


def has_latent(source: TensorSource) -> bool:
    """Whether keys and values are unfolded from a latent."""
    return any(name.endswith("self_attn.kv_b_proj.weight") for name in source.tensors)


def latent_layers(source: TensorSource, config: ConfigPart) -> list[LayerRef]:
    """Every layer of a decoder with latent attention; layers that predict further tokens are left out."""
    shape = shape_of_config(config.values)
    if shape.latent is None:
        raise InvalidInputError("kv_lora_rank: expected a whole number (latent attention), got nothing")
    dim, heads, rank, values = shape.dim, shape.heads, shape.rank, shape.value_rank
    size, turning = shape.latent.keyvalue, shape.latent.rope
    nope = rank - turning
    interleaved = config.values.get("rope_interleave") is not False
    rope = read_rope(config.values, rank, interleaved=interleaved, start=nope, dims=turning) if turning else None
    unfolded = np.arange(heads * (nope + values)).reshape(heads, nope + values)
    stems = find_stack(
        source,
        r"layers\.{}self_attn\.kv_b_proj\.weight",
        layers=shape.layers,
        extra=config.number("num_nextn_predict_layers", minimum=0, default=0),
    )
    found = []
    for layer, stem in enumerate(stems):
        attention = f"{stem}self_attn."
        down, up = f"{attention}kv_a_proj_with_mqa.weight", f"{attention}kv_b_proj.weight"
        require_shape(source, down, (size + turning, dim), f"a latent of {size} and {turning} rotary coordinates")
        require_shape(source, up, (unfolded.size, size), f"{heads} heads of {nope} + {values} on a latent of {size}")
        query_latent = shape.latent.query
        query_down = None if query_latent is None else f"{attention}q_a_proj.weight"
        if query_latent is not None:
            require_shape(source, f"{attention}q_a_proj.weight", (query_latent, dim), f"a latent of {query_latent}")
        q_name = f"{attention}{'q_proj' if query_latent is None else 'q_b_proj'}.weight"
        norm = rms_norm(source, f"{stem}input_layernorm.weight", dim)
        found.append(
            LayerRef(
                part="decoder",
                layer=layer,
                dim=dim,
                context_dim=dim,
                heads=heads,
                kv_heads=heads,
                rank=rank,
                value_rank=values,
                scale=rank**-0.5 * _yarn_scale(config),
                mask="causal",
                q=rows(source, q_name, heads, rank, dim if query_latent is None else query_latent),
                k=TensorSlice(up, unfolded[:, :nope]),
                v=TensorSlice(up, unfolded[:, nope:]),
                o=columns(source, f"{attention}o_proj.weight", heads, values, dim),
                o_bias=optional(source, f"{attention}o_proj.bias"),
                rope=rope,
                query_norm=norm,
                key_norm=norm,
                latent=LatentRef(
                    query_down=query_down,
                    query_size=query_latent,
                    query_norm=None
                    if query_latent is None
                    else rms_norm(source, f"{attention}q_a_layernorm.weight", query_latent),
                    key_down=down,
                    key_size=size,
                    key_norm=rms_norm(source, f"{attention}kv_a_layernorm.weight", size),
                    rope=turning,
                ),
                notes=_bias_notes(source, attention),
            )
        )
    return found


def _yarn_scale(config: ConfigPart) -> float:
    """DeepSeek multiplies the score scale by mscale^2 where YaRN stretches the context."""
    rope = config.values.get("rope_parameters") or config.values.get("rope_scaling") or {}
    if not isinstance(rope, dict) or rope.get("rope_type", rope.get("type", "default")) == "default":
        return 1.0
    return yarn_mscale(rope.get("factor"), rope["mscale_all_dim"]) ** 2 if rope.get("mscale_all_dim") else 1.0


def _bias_notes(source: TensorSource, attention: str) -> tuple[str, ...]:
    biased = [name for name in ("q_a_proj", "kv_a_proj_with_mqa") if source.has(f"{attention}{name}.bias")]
    return (f"biases of {', '.join(biased)} are left out",) if biased else ()
