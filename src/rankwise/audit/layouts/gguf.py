"""GGUF files: numbers from their metadata, tensors under ``blk.N.attn_*``.

Converters store Llama's queries and keys with the two halves of each head interleaved, so their rotary pairs are
neighbours; other architectures keep theirs. Gemma's gains are stored with the one already added.
"""

from __future__ import annotations

import numpy as np

from rankwise.audit.files.source import ModelSource
from rankwise.audit.layouts.found import bias, columns, find_stack, optional, rms_norm, rows
from rankwise.audit.layouts.layer import LayerRef, MaskKind
from rankwise.audit.layouts.rope import Rope
from rankwise.errors import InvalidInputError, nearest_name, require_number
from rankwise.shapes.config import ConfigPart

ARCHITECTURES = ("llama", "qwen2", "qwen3", "gemma", "gemma2", "gemma3")
_INTERLEAVED = ("llama",)


def gguf_layers(source: ModelSource) -> tuple[str, list[LayerRef]]:
    """The architecture's name, and every layer of a decoder of the Llama family."""
    family = str(source.config.get("general.architecture", ""))
    if family not in ARCHITECTURES:
        raise InvalidInputError(
            f"{source.path}: general.architecture: expected one of {', '.join(ARCHITECTURES)}, got {family!r:.60}"
            f"{nearest_name(family, list(ARCHITECTURES))}; or name the tensors with --q, --k, --v, --o and --heads"
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
    found = []
    for layer, prefix in enumerate(find_stack(source, r"blk\.{}attn_q\.weight", layers=config.number("block_count"))):
        norm = rms_norm(source, f"{prefix}attn_norm.weight", dim)
        qk_norm = source.has(f"{prefix}attn_q_norm.weight")
        mask, window = _mask(config, family, layer)
        found.append(
            LayerRef(
                part="decoder",
                layer=layer,
                dim=dim,
                context_dim=dim,
                heads=heads,
                kv_heads=groups,
                rank=rank,
                value_rank=values,
                scale=rank**-0.5,
                mask=mask,
                window=window,
                q=rows(source, f"{prefix}attn_q.weight", heads, rank, dim),
                k=rows(source, f"{prefix}attn_k.weight", groups, rank, dim),
                v=rows(source, f"{prefix}attn_v.weight", groups, values, dim),
                o=columns(source, f"{prefix}attn_output.weight", heads, values, dim),
                q_bias=bias(source, f"{prefix}attn_q.bias", heads, rank),
                k_bias=bias(source, f"{prefix}attn_k.bias", groups, rank),
                v_bias=bias(source, f"{prefix}attn_v.bias", groups, values),
                o_bias=optional(source, f"{prefix}attn_output.bias"),
                rope=_rope(source, config, rank, family, mask),
                query_norm=norm,
                key_norm=norm,
                q_head_norm=rms_norm(source, f"{prefix}attn_q_norm.weight", rank) if qk_norm else None,
                k_head_norm=rms_norm(source, f"{prefix}attn_k_norm.weight", rank) if qk_norm else None,
                softcap=config.values.get("attn_logit_softcapping"),
            )
        )
    return family, found


def _rope(source: ModelSource, config: ConfigPart, rank: int, family: str, mask: MaskKind) -> Rope:
    dims = config.number("rope.dimension_count", default=rank)
    if dims % 2 or dims > rank:
        raise config.wrong("rope.dimension_count", f"an even number up to the head dimension {rank}", dims)
    base = require_number("rope.freq_base", config.values.get("rope.freq_base", 10_000.0), above=0)
    if family == "gemma3" and mask == "window":
        base = 10_000.0
    frequencies = base ** (-np.arange(0, dims, 2) / dims)
    if source.has("rope_freqs.weight"):  # Llama 3.1: each pair's own stretch
        stretch = source.read("rope_freqs.weight").ravel()
        if stretch.shape != frequencies.shape or not (stretch > 0).all():
            raise InvalidInputError(
                f"rope_freqs.weight: expected {len(frequencies)} positive numbers, got {stretch.shape}"
            )
        frequencies = frequencies / stretch
    elif config.values.get("rope.scaling.type") == "linear" and mask != "window":
        frequencies = frequencies / require_number("rope.scaling.factor", config.values["rope.scaling.factor"], above=0)
    return Rope(frequencies, interleaved=family in _INTERLEAVED)


def _mask(config: ConfigPart, family: str, layer: int) -> tuple[MaskKind, int | None]:
    if not config.has("attention.sliding_window"):
        return "causal", None
    period = {"gemma2": 2, "gemma3": 6}.get(family, 1)
    if period > 1 and (layer + 1) % period == 0:
        return "causal", None
    return "window", config.number("attention.sliding_window")
