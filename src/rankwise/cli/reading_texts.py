"""The texts a command runs a model on: ``--text FILE ...`` or ``--tokens FILE``, cut into pieces of ``--length``."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from rankwise.errors import InvalidInputError, require_int

if TYPE_CHECKING:
    from torch import Tensor

    from rankwise.models.running.model import RunningModel


def read_pieces(
    running: RunningModel, text: tuple[Path, ...], tokens: Path | None, *, length: int | None, limit: int
) -> tuple[Tensor, tuple[str, ...]]:
    """Token ids [pieces, length] and the names of the files they come from."""
    from rankwise.models.running.texts import text_sequences, token_sequences

    if text and tokens is not None:
        raise InvalidInputError("expected --text or --tokens, got both")
    if tokens is not None:
        pieces = token_sequences(tokens, vocabulary=running.vocabulary, length=length, limit=limit)
        return pieces, (tokens.name,)
    longest = running.longest
    wanted = 256 if length is None else require_int("--length", length, minimum=2)
    if length is None and longest is not None:
        wanted = min(wanted, longest)
    return text_sequences(text, running.tokenizer, length=wanted, limit=limit), tuple(file.name for file in text)
