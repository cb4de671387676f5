"""GGUF files: numbers from their metadata, tensors under ``blk.N.attn_*``.

Converters store Llama's queries and keys with the two halves of each head interleaved, so their rotary pairs are
neighbours; other architectures keep theirs. Gemma's gains are stored with the one already added.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from rankwise.errors import InvalidInputError, nearest_name, require_number
from rankwise.models.layouts.found import find_stack, rms_norm, separate
from rankwise.models.layouts.layer import LayerRef, MaskKind
from rankwise.models.layouts.rope import Rope, read_rope
from rankwise.models.tensor_source import TensorSource
from rankwise.shapes import ConfigPart

_ARCHITECTURES = ("llama", "qwen2", "qwen3", "gemma", "gemma2", "gemma3")
_INTERLEAVED = ("llama",)
_SCALED_BY_DIM = {"gemma2": 46, "gemma3": 62}
"""Layers of the 27B models, whose scores are divided by sqrt(dim / heads): GGUF has no key for it."""
_YARN_KEYS = {
    "original_max_position_embeddings": "rope.scaling.original_context_length",
    "beta_fast": "rope.scaling.yarn_beta_fast",
    "beta_slow": "rope.scaling.yarn_beta_slow",
}


def gguf_layers(source: TensorSource) -> tuple[str, list[LayerRef]]:
    """The architecture's name, and every layer of a decoder of the Llama family."""
    family = str(source.config.get("general.architecture", ""))
    if family not in _ARCHITECTURES:
        raise InvalidInputError(
            f"{source.origin}: general.architecture: expected one of {', '.join(_ARCHITECTURES)}, got {family!r:.60}"
            f"{nearest_name(family, list(_ARCHITECTURES))}; or name the tensors with --q, --k, --v, --o and --heads"
        )
    stem = f"{family}."
    config = ConfigPart({key.removeprefix(stem): value for key, value in source.config.items() if key.startswith(stem)})
    config.path = stem
    dim, heads = config.number("embedding_length"), config.number("attention.head_count")
    groups = config.number("attention.head_count_kv", default=heads)
    if heads % groups:
        raise config.wrong("attention.head_count_kv", f"a divisor of the {heads} heads", groups)
    rank = config.number("attention.key_length", default=dim // heads)
    values = config.number("attention.value_length", default=rank)
    layers = config.number("block_count")
    divisor = dim // heads if _SCALED_BY_DIM.get(family) == layers else rank
    found = []
    for layer, prefix in enumerate(find_stack(source, r"blk\.{}attn_q\.weight", layers=layers)):
        norm = rms_norm(source, f"{prefix}attn_norm.weight", dim)
        q, k, v, o = (f"{prefix}attn_{name}" for name in ("q", "k", "v", "output"))
        qk_norm = source.has(f"{prefix}attn_q_norm.weight")
        mask, window = _mask(config, family, layer)
        found.append(
            LayerRef(
                part="decoder",
                layer=layer,
                **separate(source, (q, k, v, o), dim=dim, heads=heads, kv_heads=groups, rank=rank, value_rank=values),
                scale=divisor**-0.5,
                mask=mask,
                window=window,
                rope=_rope(source, config, rank, family, mask),
                query_norm=norm,
                key_norm=norm,
                q_head_norm=rms_norm(source, f"{prefix}attn_q_norm.weight", rank) if qk_norm else None,
                k_head_norm=rms_norm(source, f"{prefix}attn_k_norm.weight", rank) if qk_norm else None,
                softcap=config.values.get("attn_logit_softcapping"),
            )
        )
    return family, found


def _rope(source: TensorSource, config: ConfigPart, rank: int, family: str, mask: MaskKind) -> Rope:
    dims = config.number("rope.dimension_count", default=rank)
    if dims % 2 or dims > rank:
        raise config.wrong("rope.dimension_count", f"an even number up to the head dimension {rank}", dims)
    local = family == "gemma3" and mask == "window"
    stated: dict[str, Any] = {"rope_theta": 10_000.0 if local else config.values.get("rope.freq_base", 10_000.0)}
    interleaved = family in _INTERLEAVED
    if source.has("rope_freqs.weight"):  # Llama 3.1: each pair's own stretch
        plain = read_rope(stated, rank, interleaved=interleaved, dims=dims)
        stretch = source.read("rope_freqs.weight").ravel()
        if stretch.shape != plain.frequencies.shape or not (stretch > 0).all():
            raise InvalidInputError(f"rope_freqs.weight: expected {dims // 2} positive numbers, got {stretch.shape}")
        return replace(plain, frequencies=plain.frequencies / stretch)
    if local:
        return read_rope(stated, rank, interleaved=interleaved, dims=dims)
    scaling = _scaling(config)
    rope = read_rope(stated | {"rope_scaling": scaling}, rank, interleaved=interleaved, dims=dims)
    if scaling.get("rope_type") == "yarn":
        # factors on top of YaRN's own, where a configuration's attention_factor would replace it
        for key in ("rope.scaling.attn_factor", "rope.scaling.yarn_attn_factor"):
            rope = replace(rope, amplitude=rope.amplitude * require_number(key, config.values.get(key, 1.0), above=0))
    return rope


def _scaling(config: ConfigPart) -> dict[str, Any]:
    """The stretch in the words of a configuration; without a factor positions are not stretched."""
    sort = config.values.get("rope.scaling.type", "none")
    factor = config.values.get("rope.scaling.factor", config.values.get("rope.scale_linear"))
    if sort == "none" or factor is None:
        return {}
    scaling: dict[str, Any] = {"rope_type": sort, "factor": require_number("rope.scaling.factor", factor, above=0)}
    for ours, theirs in _YARN_KEYS.items():
        if config.has(theirs):
            scaling[ours] = config.values[theirs]
    if "original_max_position_embeddings" not in scaling and config.has("context_length"):
        scaling["original_max_position_embeddings"] = config.values["context_length"]
    return scaling


def _mask(config: ConfigPart, family: str, layer: int) -> tuple[MaskKind, int | None]:
    if not config.has("attention.sliding_window"):
        return "causal", None
    period = {"gemma2": 2, "gemma3": 6}.get(family, 1)
    if period > 1 and (layer + 1) % period == 0:
        return "causal", None
    return "window", config.number("attention.sliding_window")
