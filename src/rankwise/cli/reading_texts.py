"""The texts a command runs a model on: ``--text FILE ...`` or ``--tokens FILE``, cut into pieces of ``--length``."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from rankwise.errors import InvalidInputError, require_int

if TYPE_CHECKING:
    from rankwise.models import Pieces, RunningModel


def read_pieces(
    running: RunningModel, text: tuple[Path, ...], tokens: Path | None, *, length: int | None, limit: int
) -> Pieces:
    """Token ids [pieces, length], and the files they come from."""
    from rankwise.models import text_sequences, token_sequences

    if text and tokens is not None:
        raise InvalidInputError("expected --text or --tokens, got both")
    if tokens is not None:
        return token_sequences(tokens, vocabulary=running.vocabulary, length=length, limit=limit)
    longest = running.longest
    wanted = 256 if length is None else require_int("--length", length, minimum=2)
    if length is None and longest is not None:
        wanted = min(wanted, longest)
    return text_sequences(text, running.tokenizer, length=wanted, limit=limit, without=running.no_tokenizer_because)
