"""The Llama family: separate q, k, v, o, an RMSNorm in front, rotary positions, grouped keys, perhaps QK-norm."""

from __future__ import annotations

from rankwise.errors import require_number
from rankwise.models.layouts.found import find_stack, rms_norm, separate
from rankwise.models.layouts.layer import LayerRef, MaskKind
from rankwise.models.layouts.rope import Rope, read_rope
from rankwise.models.tensor_source import TensorSource
from rankwise.shapes.config import ConfigPart, shape_of_config

MODEL_TYPES = ("llama", "mistral", "mixtral", "qwen2", "qwen2_moe", "qwen3", "qwen3_moe", "gemma", "gemma2", "gemma3",
               "gemma3_text")  # fmt: skip
_GEMMA = ("gemma", "gemma2", "gemma3", "gemma3_text")
_SLIDING = "sliding_attention"


def llama_layers(source: TensorSource, config: ConfigPart) -> list[LayerRef]:
    """Every layer of a decoder of the Llama family."""
    shape = shape_of_config(config.values)
    dim, heads, groups, rank = shape.dim, shape.heads, shape.kv_heads, shape.rank
    family = str(config.values.get("model_type", source.config.get("model_type")))
    gemma = family in _GEMMA
    scale = rank**-0.5
    if config.has("query_pre_attn_scalar"):
        scale = require_number("query_pre_attn_scalar", config.values["query_pre_attn_scalar"], above=0) ** -0.5
    softcap = config.values.get("attn_logit_softcapping")
    found = []
    for layer, stem in enumerate(find_stack(source, r"layers\.{}self_attn\.q_proj\.weight", layers=shape.layers)):
        attention = f"{stem}self_attn."
        q, k, v, o = (f"{attention}{name}_proj" for name in "qkvo")
        norm = rms_norm(source, f"{stem}input_layernorm.weight", dim, unit_offset=gemma)
        qk_norm = source.has(f"{attention}q_norm.weight")
        kind = layer_kind(config, family, layer)
        mask, window = mask_of(config, kind)
        found.append(
            LayerRef(
                part="decoder",
                layer=layer,
                **separate(source, (q, k, v, o), dim=dim, heads=heads, kv_heads=groups, rank=rank),
                scale=scale,
                mask=mask,
                window=window,
                rope=_rope(config, rank, kind),
                query_norm=norm,
                key_norm=norm,
                q_head_norm=rms_norm(source, f"{attention}q_norm.weight", rank, unit_offset=gemma) if qk_norm else None,
                k_head_norm=rms_norm(source, f"{attention}k_norm.weight", rank, unit_offset=gemma) if qk_norm else None,
                softcap=None if softcap is None else require_number("attn_logit_softcapping", softcap, above=0),
            )
        )
    return found


def layer_kind(config: ConfigPart, family: str, layer: int) -> str:
    """``"full_attention"`` or ``"sliding_attention"``; older configurations say it by a period."""
    kinds = config.values.get("layer_types")
    if isinstance(kinds, list) and layer < len(kinds):
        return str(kinds[layer])
    if family == "gemma2":
        return _SLIDING if layer % 2 == 0 else "full_attention"
    if family.startswith("gemma3"):
        return _SLIDING if (layer + 1) % config.number("sliding_window_pattern") else "full_attention"
    if family.startswith("qwen") and not _qwen_slides(config, family, layer):
        return "full_attention"
    return _SLIDING if config.has("sliding_window") else "full_attention"


def _qwen_slides(config: ConfigPart, family: str, layer: int) -> bool:
    """Which layers have the window where it is switched on: the later ones, every second of the first ones, all."""
    first = config.number("max_window_layers", minimum=0, default=28)
    chosen = {"qwen2_moe": layer % 2 == 0 and layer < first, "qwen3_moe": True}.get(family, layer >= first)
    return config.switch("use_sliding_window") and chosen


def mask_of(config: ConfigPart, kind: str) -> tuple[MaskKind, int | None]:
    """Which keys a query sees."""
    window = config.number("sliding_window") if kind == _SLIDING and config.has("sliding_window") else None
    if config.switch("use_bidirectional_attention"):  # EmbeddingGemma: half the window on either side
        return "full", None if window is None else window // 2 + 1
    return ("causal" if window is None else "window"), window


def _rope(config: ConfigPart, rank: int, kind: str) -> Rope:
    values = dict(config.values)
    if kind == _SLIDING and config.has("rope_local_base_freq"):  # Gemma 3 before the two sorts had a name each
        values |= {"rope_theta": values["rope_local_base_freq"], "rope_scaling": None}
    return read_rope(values, rank, kind=kind)
