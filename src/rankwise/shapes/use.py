"""How a model is used, as its configuration says: the tokens that it sees, and whether it generates.

Files differ in their words for the length: absolute positions, a training length, a decoder's own limit (Whisper), or
GGUF's ``ARCHITECTURE.context_length``. RoBERTa and its kin count positions from after the padding id.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

_LENGTHS = ("max_target_positions", "max_position_embeddings", "n_positions", "max_seq_len", "max_sequence_length",
            "n_ctx", "seq_length")  # fmt: skip
_PARTS = ("text_config", "language_config", "llm_config", "thinker_config", "decoder")
_LONGEST = 2**24
_FROM_PADDING = ("roberta", "xlm-roberta", "camembert", "longformer", "xlm-roberta-xl", "mpnet")
_ENCODERS = {
    *("bert", "roberta", "xlm-roberta", "xlm-roberta-xl", "camembert", "electra", "distilbert", "albert", "mpnet"),
    *("deberta", "deberta-v2", "modernbert", "nomic_bert", "longformer", "vit", "deit", "beit", "dinov2", "dinov3_vit"),
}


def context_length(config: Mapping[str, Any]) -> int | None:
    """The tokens that the model sees at most, None where the configuration does not say."""
    part: Mapping[str, Any] = config
    if isinstance(kind := config.get("general.architecture"), str):
        return _number(config.get(f"{kind}.context_length"))
    while not any(_number(part.get(key)) for key in _LENGTHS):
        inner = next((part[key] for key in _PARTS if isinstance(part.get(key), Mapping)), None)
        if inner is None:
            return None
        part = inner
    length = next(found for key in _LENGTHS if (found := _number(part.get(key))) is not None)
    if str(part.get("model_type")) in _FROM_PADDING:
        return length - (_number(part.get("pad_token_id")) or 0) - 1 or length
    return length


def generates(config: Mapping[str, Any]) -> bool:
    """Whether tokens are produced one after the other, so that keys and values are kept for the next."""
    return str(config.get("model_type")) not in _ENCODERS or config.get("is_decoder") is True


def _number(value: object) -> int | None:
    """A plausible number of tokens."""
    return value if isinstance(value, int) and not isinstance(value, bool) and 0 < value <= _LONGEST else None
