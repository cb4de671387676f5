"""Texts and token ids as pieces of one length, without padding.

All pieces have the same length because ranks, baselines and mean patterns of different lengths do not compare. A text
is tokenised only as far as the pieces need it, a portion at a time: a tokenizer takes some 200 bytes a character.

Legend: T texts, N tokens.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from jaxtyping import Int64
from torch import Tensor

from rankwise.errors import InvalidInputError, require_int
from rankwise.foreign_file import plain_name, read_regular
from rankwise.models.running.tokenizer import special_ends
from rankwise.tasks import map_npy

_MAX_TEXT_BYTES = 64 * 2**20
"""Enough for days of measuring; a larger file was hardly meant."""

_PORTION = 2**18
"""Characters; some 60,000 tokens of English."""

_GAP = re.compile(r"(?<=\S) (?=\S)")
_TEXTS_A_PASS, _NUMBERS_A_PASS = 8, 2**27


def texts_a_pass(numbers_a_text: int, *, least: int = 1) -> int:
    """How many texts to run together when each makes that many numbers: eight, fewer where memory would not do."""
    return min(_TEXTS_A_PASS, max(least, _NUMBERS_A_PASS // numbers_a_text))


@dataclass(frozen=True, kw_only=True)
class Pieces:
    """Token ids, and where they come from."""

    tokens: Int64[Tensor, "T N"]
    sources: tuple[str, ...]
    """The names of the files."""
    used: float
    """The share of the files that is in the pieces; by characters where not all of a text was tokenised."""


def text_sequences(
    files: Sequence[Path], tokenizer: Any, *, length: int, limit: int | None = None, without: str | None = None
) -> Pieces:
    """The first ``limit`` pieces of exactly ``length`` tokens, taken from the files in turn, special tokens included.

    Each piece starts and ends as the tokenizer wants a text to start and end; what is left of a file after its last
    whole piece is not used.

    - ``without``: why there is no tokenizer, if ``tokenizer`` is None.
    """
    require_int("length", length, minimum=2)
    if tokenizer is None:
        raise InvalidInputError(
            f"--text: expected the tokenizer that the model was trained with, got {without or 'none'}; put its files "
            f"(tokenizer.json, tokenizer_config.json) beside the weights, or give token ids with --tokens"
        )
    if not files:
        raise InvalidInputError("--text: expected at least one file, got none")
    read = [_pieces(file, tokenizer, length, limit) for file in files]
    queues = [pieces for pieces, _, _ in read]
    turns = [(turn, at) for turn in range(max(map(len, queues))) for at, rows in enumerate(queues) if turn < len(rows)]
    taken = turns[:limit]
    used = sum(read[at][1] for _, at in taken)
    return Pieces(
        tokens=torch.tensor([queues[at][turn] for turn, at in taken], dtype=torch.int64),
        sources=tuple(plain_name(file.name) for file in files),
        used=min(1.0, used / sum(characters for _, _, characters in read)),
    )


def token_sequences(file: Path, *, vocabulary: int, length: int | None = None, limit: int | None = None) -> Pieces:
    """Token ids from ``file``: .npy integers [N] or [T, N], or JSON, a list of ids or of equally long lists of ids.

    One long list is cut into pieces of ``length``.
    """
    ids = _read_ids(file)
    given = ids.size
    if ids.ndim == 1:
        piece = len(ids) if length is None else require_int("length", length, minimum=2)
        if piece > len(ids):
            raise InvalidInputError(f"{file}: expected at least --length {piece} ids, got {len(ids)}")
        ids = ids[: len(ids) // piece * piece].reshape(-1, piece)
    elif length is not None and ids.shape[1] > length:
        ids = ids[:, :length]
    if ids.ndim != 2 or ids.shape[0] < 1 or ids.shape[1] < 2:
        raise InvalidInputError(f"{file}: expected ids [texts, tokens] with at least two tokens, got {list(ids.shape)}")
    if int(ids.min()) < 0 or int(ids.max()) >= vocabulary:
        raise InvalidInputError(
            f"{file}: expected ids from 0 to {vocabulary - 1} (the model's vocabulary), got {int(ids.min())} to "
            f"{int(ids.max())}"
        )
    tokens = torch.from_numpy(ids[:limit].astype(np.int64))
    return Pieces(tokens=tokens, sources=(plain_name(file.name),), used=tokens.numel() / given)


def _pieces(file: Path, tokenizer: Any, length: int, limit: int | None) -> tuple[list[list[int]], float, int]:
    """Whole pieces of a file, at most ``limit``, how many characters each holds, and how many the file has."""
    text = _read_text(file)
    before, after = special_ends(tokenizer)
    inner = length - len(before) - len(after)
    if inner < 1:
        raise InvalidInputError(
            f"--length: expected more than the {len(before) + len(after)} special tokens of a piece, got {length}"
        )
    ids, read = _tokenised(text, tokenizer, None if limit is None else limit * inner)
    whole = len(ids) // inner if limit is None else min(limit, len(ids) // inner)
    if not whole:
        longest = len(ids) + len(before) + len(after)
        raise InvalidInputError(
            f"{file}: expected at least {length} tokens, got {longest}; choose --length {longest} or a longer text"
        )
    rows = [[*before, *ids[at : at + inner], *after] for at in range(0, whole * inner, inner)]
    return rows, inner / len(ids) * read, len(text)


def _tokenised(text: str, tokenizer: Any, wanted: int | None) -> tuple[list[int], int]:
    """The first ``wanted`` tokens of ``text`` at least, without special ones, and how many characters they took."""
    ids: list[int] = []
    start = 0
    while start < len(text) and (wanted is None or len(ids) < wanted):
        end = _end_of_portion(text, start)
        ids += tokenizer(text[start:end], add_special_tokens=False, verbose=False)["input_ids"]
        start = end
    return ids, start


def _end_of_portion(text: str, start: int) -> int:
    """Where a portion may end without cutting a token, if there is such a place in its second half.

    Before a single space between words: tokenizers that join spaces and line ends to one token cut there anyway.
    """
    end = start + _PORTION
    if end >= len(text):
        return len(text)
    *_, last = (end, *(gap.start() for gap in _GAP.finditer(text, start + _PORTION // 2, end)))
    return last


def _read_text(file: Path) -> str:
    """All kinds of line ends as ``"\\n"``: a carriage return would be a token of its own, easily foretold."""
    content = read_regular(file, "a text file", limit=_MAX_TEXT_BYTES)
    try:
        return content.decode("utf-8-sig").replace("\r\n", "\n").replace("\r", "\n")
    except UnicodeDecodeError as error:
        raise InvalidInputError(f"{file}: expected UTF-8 text, got another encoding: {error}") from None


def _read_ids(file: Path) -> np.ndarray[Any, np.dtype[np.integer[Any]]]:
    if file.suffix == ".npy":
        ids = map_npy(file)
    else:
        rows = _parsed_rows(file)
        if any(isinstance(row, list) and len(row) != len(rows[0]) for row in rows if isinstance(rows[0], list)):
            raise InvalidInputError(f"{file}: expected lists of one length, got several lengths")
        try:
            ids = np.array(rows)
        except ValueError as error:
            raise InvalidInputError(f"{file}: expected a list of ids or of equally long lists, got: {error}") from None
    if not isinstance(ids, np.ndarray) or ids.dtype.kind not in "iu" or ids.ndim not in (1, 2) or ids.size == 0:
        shape = list(getattr(ids, "shape", []))
        raise InvalidInputError(f"{file}: expected integer ids [tokens] or [texts, tokens], got {ids.dtype} {shape}")
    return ids


def _parsed_rows(file: Path) -> list[Any]:
    try:
        parsed = json.loads(_read_text(file))
    except (ValueError, RecursionError) as error:
        if isinstance(error, InvalidInputError):
            raise
        raise InvalidInputError(f"{file}: expected token ids as JSON or .npy, got something else: {error}") from None
    if not isinstance(parsed, list) or not parsed:
        raise InvalidInputError(f"{file}: expected a JSON list of token ids, got {type(parsed).__name__}")
    if any(one is True or one is False for row in parsed for one in (row if isinstance(row, list) else (row,))):
        raise InvalidInputError(f"{file}: expected token ids, got true or false, which numpy would take for 1 and 0")
    return parsed
