"""The tokenizer that belongs to a model, or the reason why there is none.

``transformers`` makes up a tokenizer of a handful of tokens where a folder has no tokenizer files: every word is
unknown to it, and what is measured then says nothing about the model. A tokenizer is taken only if its vocabulary has
about as many tokens as the model has embeddings.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

_LEAST_SHARE, _MOST_SHARE = 0.9, 1.1
"""Tables are padded (Phi-2 by 1.8 %) and some tokens have no row; stand-ins have 1 to 104 tokens for 30,000 rows."""


@dataclass(frozen=True, kw_only=True)
class FoundTokenizer:
    """A tokenizer of ``transformers``, or None and why."""

    tokenizer: Any
    missing_because: str | None


def find_tokenizer(
    transformers: Any, source: Path, options: Mapping[str, Any], *, vocabulary: int, gguf: Mapping[str, Any] | None
) -> FoundTokenizer:
    """The tokenizer in ``source``, if it fits a model of ``vocabulary`` embeddings.

    - ``options``: of ``from_pretrained``.
    - ``gguf``: the metadata of a GGUF file, which say whether texts begin with a BOS token; None for a folder.
    """
    try:
        tokenizer = transformers.AutoTokenizer.from_pretrained(source, **options)
        size = len(tokenizer)
        if gguf is not None:
            _enclose_as_trained(tokenizer, gguf)
    except Exception as error:  # of transformers or of the Rust library, which raises bare exceptions
        said = " ".join(str(error).split())[:200]
        return FoundTokenizer(tokenizer=None, missing_because=f"no tokenizer that loads ({said})")
    if not _LEAST_SHARE * vocabulary <= size <= _MOST_SHARE * vocabulary:
        return FoundTokenizer(
            tokenizer=None,
            missing_because=f"a tokenizer of {size} tokens for a model of {vocabulary} embeddings"
            + (", as transformers makes up where tokenizer files are missing" if size < vocabulary else ""),
        )
    return FoundTokenizer(tokenizer=tokenizer, missing_because=None)


def special_ends(tokenizer: Any) -> tuple[Sequence[int], Sequence[int]]:
    """What the tokenizer puts before and after a text, such as BOS, or [CLS] and [SEP]."""
    plain = tokenizer("a", add_special_tokens=False, verbose=False)["input_ids"]
    whole = tokenizer("a", verbose=False)["input_ids"]
    start = next((at for at in range(len(whole) + 1) if whole[at : at + len(plain)] == plain), 0)
    return whole[:start], whole[start + len(plain) :]


def _enclose_as_trained(tokenizer: Any, metadata: Mapping[str, Any]) -> None:
    """BOS and EOS as a GGUF file states them; where it is silent, SentencePiece has BOS, by llama.cpp's rule."""
    spm = metadata.get("tokenizer.ggml.model") == "llama"
    for end, otherwise in (("bos", True if spm else None), ("eos", None)):
        wanted = metadata.get(f"tokenizer.ggml.add_{end}_token", otherwise)
        token = metadata.get(f"tokenizer.ggml.{end}_token_id")
        if not isinstance(wanted, bool) or not isinstance(token, int):
            continue
        if getattr(tokenizer, f"{end}_token_id") != token:
            setattr(tokenizer, f"{end}_token", tokenizer.convert_ids_to_tokens(token))
        ends = special_ends(tokenizer)[0 if end == "bos" else 1]
        if (token in ends) != wanted:
            setattr(tokenizer, f"add_{end}_token", wanted)
