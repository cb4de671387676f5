"""How the tensors of a block are to be read: what names and shapes leave open, as one small record.

``guess`` decides by the configuration and by the words of other tensors; ``proof`` decides by the scores that the model
itself computes. ``layer_ref`` turns block, sizes and reading into a ``LayerRef``.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Literal

import numpy as np

from rankwise.errors import InvalidInputError, require_number
from rankwise.models.layouts.blocks import AttentionBlock, tower_of
from rankwise.models.layouts.layer import LayerRef, NormRef, TensorSlice
from rankwise.models.layouts.masks import layer_kind, mask_of
from rankwise.models.layouts.rope import Rope, read_rope
from rankwise.models.layouts.sizes import Order, Sizes, bias_names, sizes_of
from rankwise.models.tensor_source import TensorSource
from rankwise.shapes import ConfigPart

Turning = Literal["none", "halves", "neighbours", "other"]
"""Rotary positions: none; pairs (i, i + P); pairs (2i, 2i + 1); of a kind that is not modelled (two dimensions)."""

POST_NORM = (
    "the norm stands behind the attention: gain and shift of the norm before it are part of the input and not folded"
)
OTHER_TURNING = "rotary positions of a kind that is not modelled: ranks are those at distance 0"
_GATED = "queries share their tensor with gates of the output, which are left out"
_BEFORE = ("input_layernorm", "pre_attention_layernorm", "pre_self_attn_layernorm", "ln_attn", "ln_1", "ln1",
           "attn_norm", "attention_norm", "attention_layernorm", "norm1", "norm_1", "layernorm_before", "layer_norm1",
           "layer_norm_1", "operator_norm", "input_norm", "attention.ln")  # fmt: skip
_BEFORE_CROSS = ("encoder_attn_layer_norm", "pre_cross_attn_layernorm", "cross_attn_layer_norm")
_FINAL = ("layer_norm", "final_layer_norm", "norm", "final_layernorm", "layernorm", "ln_f")
_NEIGHBOURS = ("gptj", "codegen", "glm", "glm4", "cohere", "cohere2", "llama4_text", "ernie4_5", "helium")
_POSITIONS = re.compile(r"(wpe|position_embedding|embed_positions|pos_embed|positions_embed)")
_RELATIVE = {"relative_key": "relative key", "relative_key_query": "relative key and query"}
_HEAD_NORMS = (("q_norm", "k_norm"), ("q_layernorm", "k_layernorm"), ("query_layernorm", "key_layernorm"),
               ("query_norm", "key_norm"), ("q_ln", "k_ln"), ("q_layer_norm", "k_layer_norm"))  # fmt: skip


@dataclass(frozen=True)
class Reading:
    """What names and shapes leave open about one block."""

    order: Order
    """Order of queries, keys and values in one tensor."""
    turning: Turning
    """How positions enter the scores."""
    norm: str | None
    """The norm whose output the queries see, named from the layer on; None: no norm with a gain comes first."""
    key_norm: str | None
    """The same for keys, its whole name; None: that of the queries, unless keys come from another stack."""
    unit_offset: bool
    """Whether norms multiply by 1 + gain."""
    rms: bool
    """Whether norms divide by the root mean square, without taking the mean off."""
    scale: str
    """Name of the rule in ``scales``."""
    causal: bool
    """Whether a token sees only itself and earlier ones."""
    score_bias: str | None
    """What is added to the scores, as ``LayerRef.score_bias`` names it; None: nothing."""


def guess(source: TensorSource, block: AttentionBlock, config: ConfigPart, family: str) -> Reading:
    """The most likely reading, by names and configuration alone."""
    bias = _score_bias(source, block, config, family)
    return Reading(
        order=_order(block, family, config),
        turning=_turning(source, block, config, family, bias),
        norm=norm_before(source, block),
        key_norm=_encoder_norm(source, block) if block.cross else None,
        unit_offset=("gemma" in family and family not in ("gemma3n", "gemma3n_text")) or family == "qwen3_next",
        rms=config.has("rms_norm_eps") or "SelfAttention" in block.path or family in ("lfm2", "pixtral"),
        scale=_scale_rule(block, config, family),
        causal=_causal(source, block, config, family),
        score_bias=bias,
    )


def scales(config: ConfigPart, rank: int, layer: int) -> dict[str, float]:
    """What scores may be multiplied by, rule by rule."""
    found = {"rank": rank**-0.5, "one": 1.0}
    scalar = config.values.get("query_pre_attn_scalar")
    if scalar is not None:
        found["scalar"] = require_number("query_pre_attn_scalar", scalar, above=0) ** -0.5
    for key in ("attention_multiplier", "scaling", "attention_scale"):
        if config.has(key) and isinstance(config.values[key], int | float):
            found[key] = float(config.values[key])
    found["half rank"] = (rank / 2) ** -0.5
    found["rank, layer"] = rank**-0.5 / (layer + 1)
    found["layer"] = 1 / (layer + 1)
    return found


def part_of(block: AttentionBlock, reading: Reading) -> str:
    """``"encoder"``, ``"decoder"``, ``"cross"``, or the tower's name."""
    if block.cross:
        return "cross"
    return block.tower or block.side or ("decoder" if reading.causal else "encoder")


def layer_ref(
    source: TensorSource, block: AttentionBlock, config: ConfigPart, family: str, number: int, reading: Reading
) -> LayerRef:
    """The block as a layer, read as ``reading`` says."""
    sizes = sizes_of(source, block, config, reading.order)
    axis = 1 if sizes.transposed else 0
    slices = {part: TensorSlice(getattr(block, part), rows, axis) for part, rows in sizes.rows.items()}
    biases = {f"{part}_bias": _bias(source, block, part, sizes) for part in sizes.rows}
    known = block.o is not None and "v" in sizes.rows
    outputs = TensorSlice(block.o, sizes.outputs(), 1 - axis) if known and block.o is not None else None
    o_bias = None if block.o is None else f"{block.o.removesuffix('.weight')}.bias"
    kind = "full_attention" if block.cross else layer_kind(config, family, number)
    mask, window = mask_of(config, kind, causal=reading.causal)
    norm = None if reading.norm is None else _norm_ref(source, f"{block.layer}{reading.norm}", reading)
    keys = norm if reading.key_norm is None or not block.cross else _norm_ref(source, reading.key_norm, reading)
    if block.cross and reading.key_norm is None:
        keys = None
    heads = _head_norms(source, block, sizes, config, reading)
    softcap = config.values.get("attn_logit_softcapping")
    notes = {POST_NORM: norm is None, OTHER_TURNING: reading.turning == "other", _GATED: sizes.gated}
    return LayerRef(
        part=part_of(block, reading),
        layer=number,
        dim=sizes.dim,
        context_dim=sizes.context_dim,
        heads=sizes.heads,
        kv_heads=sizes.kv_heads,
        rank=sizes.rank,
        value_rank=sizes.value_rank,
        scale=scales(config, sizes.rank, number)[reading.scale],
        mask=mask,
        window=window,
        q=slices["q"],
        k=slices["k"],
        v=slices["v"] if known else None,
        o=outputs,
        q_bias=biases["q_bias"],
        k_bias=biases["k_bias"],
        v_bias=biases["v_bias"] if known else None,
        o_bias=o_bias if o_bias is not None and source.has(o_bias) else None,
        rope=rope_of(config, sizes.rank, kind, reading.turning),
        query_norm=norm,
        key_norm=keys,
        q_head_norm=heads[0],
        k_head_norm=heads[1],
        softcap=None if softcap is None else require_number("attn_logit_softcapping", softcap, above=0),
        score_bias=reading.score_bias,
        other_positions=reading.turning == "other",
        gated=sizes.gated,
        notes=tuple(note for note, holds in notes.items() if holds),
    )


def rope_of(config: ConfigPart, rank: int, kind: str, turning: Turning) -> Rope | None:
    """The rotary positions of a layer."""
    if turning not in ("halves", "neighbours"):
        return None
    values = dict(config.values)
    if kind == "sliding_attention" and config.has("rope_local_base_freq"):  # Gemma 3 before the two sorts had a name
        values |= {"rope_theta": values["rope_local_base_freq"], "rope_scaling": None}
    dims = config.number("rotary_dim") if config.has("rotary_dim") else None
    return read_rope(values, rank, kind=kind, interleaved=turning == "neighbours", dims=dims)


def norms_of(source: TensorSource, block: AttentionBlock) -> list[str]:
    """Names, from the layer on, of every gain in the layer."""
    start = block.layer
    return [
        name[len(start) :].removesuffix(".weight")
        for name, info in source.tensors.items()
        if name.startswith(start) and name.endswith(".weight") and len(info.shape) == 1
    ]


def _bias(source: TensorSource, block: AttentionBlock, part: str, sizes: Sizes) -> TensorSlice | None:
    for name in bias_names(block, part):
        if source.has(name):
            apart = name.endswith(f".{part}_bias")
            index = sizes.rows[part]
            if apart:
                index = np.arange(index.size).reshape(index.shape)
            if source.info(name).shape != ((index.size,) if apart else _bias_shape(source, block, part, sizes)):
                raise InvalidInputError(f"{name}: expected one number per output, got {list(source.info(name).shape)}")
            return TensorSlice(name, index, 0)
    return None


def _bias_shape(source: TensorSource, block: AttentionBlock, part: str, sizes: Sizes) -> tuple[int]:
    shape = source.info(getattr(block, part)).shape
    return (shape[1] if sizes.transposed else shape[0],)


def _norm_ref(source: TensorSource, name: str, reading: Reading) -> NormRef:
    bias = f"{name}.bias" if source.has(f"{name}.bias") else None
    return NormRef("rms" if reading.rms and bias is None else "layer", f"{name}.weight", bias, reading.unit_offset)


def _head_norms(
    source: TensorSource, block: AttentionBlock, sizes: Sizes, config: ConfigPart, reading: Reading
) -> tuple[NormRef | None, NormRef | None]:
    """QK-norm: a gain for the coordinates of one head, or of all heads one after the other."""
    for q, k in _HEAD_NORMS:
        names = (f"{block.path}{q}", f"{block.path}{k}")
        fits = [((sizes.rank,), (heads * sizes.rank,)) for heads in (sizes.heads, sizes.kv_heads)]
        if all(source.has(f"{name}.weight") and source.info(f"{name}.weight").shape in shapes
               for name, shapes in zip(names, fits, strict=True)):  # fmt: skip
            first, second = (_norm_ref(source, name, reading) for name in names)
            return first, second
    if config.values.get("use_qk_norm") is True and config.values.get("model_type") == "llama4_text":
        return NormRef("rms", None), NormRef("rms", None)
    return None, None


def _order(block: AttentionBlock, family: str, config: ConfigPart) -> Order:
    last = block.q.removesuffix(".weight").rpartition(".")[2]
    if family == "codegen":
        return "codegen"
    grouped = last == "query_key_value" or family in ("deberta", "minimax")
    return "head" if grouped or (last == "c_attn" and config.values.get("multi_query") is False) else "turn"


def _turning(source: TensorSource, block: AttentionBlock, config: ConfigPart, family: str, bias: str | None) -> Turning:
    if block.cross or bias is not None:
        return "none"
    stated = config.has("rope_theta", "rope_parameters", "rope_scaling", "rotary_pct", "rotary_dim", "rotary_emb_base",
                        "partial_rotary_factor", "rope_local_base_freq")  # fmt: skip
    if config.values.get("position_embedding_type") == "rotary" or family == "roformer":
        return "neighbours" if family == "roformer" else "halves"
    learned = any(_POSITIONS.search(name) and tower_of(name) == block.tower for name in source.tensors)
    if learned or not (stated or (config.has("rms_norm_eps") and config.has("max_position_embeddings"))):
        return "none"
    layer = block.numbers[-1] if block.numbers else 0
    without = config.values.get("no_rope_layers")
    if isinstance(without, list) and layer < len(without) and not without[layer]:
        return "none"
    if block.tower in ("vision", "audio") or config.has("image_size", "patch_size"):
        return "other"
    interleaved = config.values.get("rope_interleave") is True or family in _NEIGHBOURS
    return "neighbours" if interleaved else "halves"


def norm_before(source: TensorSource, block: AttentionBlock) -> str | None:
    """The norm whose output the queries see, by its name from the layer on; None where none is known to come first."""
    for name in _BEFORE_CROSS if block.cross else _BEFORE:
        if source.has(f"{block.layer}{name}.weight"):
            return name
    inner = "SelfAttention" in block.path or "EncDecAttention" in block.path
    if inner and source.has(f"{block.layer}layer_norm.weight"):
        return "layer_norm"
    # a norm behind the whole stack means that every layer has its norm in front
    name = "encoder_attn_layer_norm" if block.cross else "self_attn_layer_norm"
    if source.has(f"{block.layer}{name}.weight") and _final_norm(source, block.stack) is not None:
        return name
    return None


def _encoder_norm(source: TensorSource, block: AttentionBlock) -> str | None:
    """The norm behind the encoder, whose output cross-attention reads."""
    return _final_norm(source, re.sub(r"decoder(?=\.)", "encoder", block.stack))


def _final_norm(source: TensorSource, stack: str) -> str | None:
    above = re.sub(r"[^.]+\.$", "", re.sub(r"(layer\.)?N\..*$", "", stack))
    starts = {above, re.sub(r"[^.]+\.(N\..*)?$", "", stack)}
    for start in sorted(starts):
        for name in _FINAL:
            if source.has(f"{start}{name}.weight") and len(source.info(f"{start}{name}.weight").shape) == 1:
                return f"{start}{name}"
    return None


def _scale_rule(block: AttentionBlock, config: ConfigPart, family: str) -> str:
    if config.has("query_pre_attn_scalar"):
        return "scalar"
    if config.has("attention_multiplier"):
        return "attention_multiplier"
    by_layer = config.values.get("scale_attn_by_inverse_layer_idx") is True
    unscaled = config.values.get("scale_attn_weights") is False or family == "gpt_neo"
    if unscaled or "SelfAttention" in block.path or "EncDecAttention" in block.path:
        return "layer" if by_layer else "one"
    return "rank, layer" if by_layer else "rank"


def _causal(source: TensorSource, block: AttentionBlock, config: ConfigPart, family: str) -> bool:
    if block.cross or block.tower in ("vision", "audio", "qformer", "multimodal"):
        return False
    if config.has("is_causal"):
        return config.switch("is_causal")
    if block.side == "decoder":
        return True
    if block.side == "encoder" and family not in ("decision_transformer",):
        return config.switch("is_decoder")
    names = config.values.get("architectures") or source.config.get("architectures")
    masked = "bert" in family or "MaskedLM" in str(names)
    seeing = config.has("image_size", "num_mel_bins", "num_channels")
    return not masked and not seeing


def _score_bias(source: TensorSource, block: AttentionBlock, config: ConfigPart, family: str) -> str | None:
    if block.cross:
        return None
    stated = _RELATIVE.get(str(config.values.get("position_embedding_type")))
    if stated is not None:
        return stated
    for name in source.tensors:
        if name.startswith((block.path, re.sub(r"[^.]+\.$", "", block.path))) and "distance_embedding" in name:
            return "relative key"
        if "rel_embeddings" in name and family.startswith("deberta"):
            return "relative key and query"
    same = [name for name in source.tensors if (block.side or "") in name and (block.tower or "") in name]
    if any("relative_attention_bias" in name or "rel_attn_embed" in name for name in same):
        return "relative"
    if any("relative_position_bias" in name for name in same):
        return "relative"
    attention = config.values.get("attn_config")
    alibi = config.values.get("alibi") or (isinstance(attention, dict) and attention.get("alibi"))
    return "alibi" if alibi or family == "bloom" else None
