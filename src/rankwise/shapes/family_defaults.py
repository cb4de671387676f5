"""What a configuration leaves unsaid: ``transformers`` does not write a text part's values that are its family's own.

The Gemmas are the families where guessing goes wrong in silence: their head dimension is not ``dim / heads``, and
Gemma 3 turns its sliding layers by another base than the others. Numbers as in ``transformers``' configuration classes.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

_GEMMA_3 = {
    "hidden_size": 2304,
    "intermediate_size": 9216,
    "num_hidden_layers": 26,
    "num_attention_heads": 8,
    "num_key_value_heads": 4,
    "head_dim": 256,
    "max_position_embeddings": 131_072,
    "query_pre_attn_scalar": 256,
    "sliding_window": 4096,
    "sliding_window_pattern": 6,
    "rope_theta": 1e6,
    "rope_local_base_freq": 1e4,
}

FAMILY_DEFAULTS: dict[str, dict[str, Any]] = {
    "gemma": {
        "hidden_size": 3072,
        "intermediate_size": 24_576,
        "num_hidden_layers": 28,
        "num_attention_heads": 16,
        "num_key_value_heads": 16,
        "head_dim": 256,
        "max_position_embeddings": 8192,
    },
    "gemma2": {
        "hidden_size": 2304,
        "intermediate_size": 9216,
        "num_hidden_layers": 26,
        "num_attention_heads": 8,
        "num_key_value_heads": 4,
        "head_dim": 256,
        "max_position_embeddings": 8192,
        "query_pre_attn_scalar": 256,
        "sliding_window": 4096,
        "attn_logit_softcapping": 50.0,
    },
    "gemma3": _GEMMA_3,
    "gemma3_text": _GEMMA_3,
}


def with_family_defaults(values: Mapping[str, Any], family: object) -> Mapping[str, Any]:
    """``values`` and, where they do not name a key, the family's own; a stated null stays null."""
    return {**FAMILY_DEFAULTS.get(family, {}), **values} if isinstance(family, str) else values
