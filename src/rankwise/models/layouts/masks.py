"""Which keys a query of a layer sees, by the words of its configuration."""

from __future__ import annotations

from rankwise.models.layouts.layer import MaskKind
from rankwise.shapes import ConfigPart

_SLIDING = ("sliding_attention", "local", "chunked_attention")
_WINDOWS = ("sliding_window", "local_attention", "window_size", "attention_window", "attention_chunk_size")


def layer_kind(config: ConfigPart, family: str, layer: int) -> str:
    """``"full_attention"`` or ``"sliding_attention"``; older configurations say it by a period."""
    for key in ("layer_types", "attention_layers"):
        kinds = config.values.get(key)
        if isinstance(kinds, list) and layer < len(kinds):
            return str(kinds[layer])
    if family == "gemma2":
        return _SLIDING[0] if layer % 2 == 0 else "full_attention"
    if family.startswith("gemma3"):
        return _SLIDING[0] if (layer + 1) % config.number("sliding_window_pattern") else "full_attention"
    if family == "modernbert" and config.has("global_attn_every_n_layers"):
        return _SLIDING[0] if layer % config.number("global_attn_every_n_layers") else "full_attention"
    if family.startswith("qwen") and not _qwen_slides(config, family, layer):
        return "full_attention"
    return _SLIDING[0] if config.has("sliding_window") else "full_attention"


def _qwen_slides(config: ConfigPart, family: str, layer: int) -> bool:
    """Which layers have the window where it is switched on: the later ones, every second of the first ones, all."""
    first = config.number("max_window_layers", minimum=0, default=28)
    chosen = {"qwen2_moe": layer % 2 == 0 and layer < first, "qwen3_moe": True}.get(family, layer >= first)
    return config.switch("use_sliding_window") and chosen


def mask_of(config: ConfigPart, kind: str, *, causal: bool = True) -> tuple[MaskKind, int | None]:
    """Which keys a query sees."""
    key = next((key for key in _WINDOWS if config.has(key)), None) if kind in _SLIDING else None
    window = None if key is None or isinstance(config.values[key], list) else config.number(key)
    if not causal or config.switch("use_bidirectional_attention"):  # half the window on either side
        return "full", None if window is None else window // 2 + 1
    return ("causal" if window is None else "window"), window
