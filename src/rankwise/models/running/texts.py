"""Texts and token ids as sequences of one length, without padding.

All sequences have the same length because ranks, baselines and mean patterns of different lengths do not compare.

Legend: T texts, N tokens.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from jaxtyping import Int64
from torch import Tensor

from rankwise.errors import InvalidInputError, require_int
from rankwise.tasks.npy_file import map_npy

_MAX_TEXT_BYTES = 64 * 2**20
"""Enough for days of measuring; a larger file was hardly meant."""

_TEXTS_A_PASS, _NUMBERS_A_PASS = 8, 2**27


def texts_a_pass(numbers_a_text: int, *, least: int = 1) -> int:
    """How many texts to run together when each makes that many numbers: eight, fewer where memory would not do."""
    return min(_TEXTS_A_PASS, max(least, _NUMBERS_A_PASS // numbers_a_text))


def text_sequences(
    files: Sequence[Path], tokenizer: Any, *, length: int, limit: int | None = None
) -> Int64[Tensor, "T N"]:
    """The first ``limit`` pieces of exactly ``length`` tokens, taken from the files in turn, special tokens included.

    Each piece starts and ends as the tokenizer wants a text to start and end; what is left of a file after its last
    whole piece is not used.
    """
    require_int("length", length, minimum=2)
    if tokenizer is None:
        raise InvalidInputError("--text: expected a model directory with a tokenizer, got none; give --tokens instead")
    queues = [_pieces(file, tokenizer, length) for file in files]
    if not queues:
        raise InvalidInputError("--text: expected at least one file, got none")
    taken = [queue[turn] for turn in range(max(map(len, queues))) for queue in queues if turn < len(queue)]
    return torch.tensor(taken[:limit], dtype=torch.int64)


def token_sequences(
    file: Path, *, vocabulary: int, length: int | None = None, limit: int | None = None
) -> Int64[Tensor, "T N"]:
    """Token ids from ``file``: .npy integers [N] or [T, N], or JSON, a list of ids or of equally long lists of ids.

    One long list is cut into pieces of ``length``.
    """
    ids = _read_ids(file)
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
    return torch.from_numpy(ids[:limit].astype(np.int64))


def _pieces(file: Path, tokenizer: Any, length: int) -> list[list[int]]:
    rows = _rows(_read_text(file), tokenizer, length)
    whole = [row for row in rows if len(row) == length]
    if not whole:
        longest = max(map(len, rows), default=0)
        raise InvalidInputError(
            f"{file}: expected at least {length} tokens, got {longest}; choose --length {longest} or a longer text"
        )
    return whole


def _rows(text: str, tokenizer: Any, length: int) -> list[list[int]]:
    if not tokenizer.is_fast:  # those give the overflow as one list, without what encloses a piece
        ids = tokenizer(text, add_special_tokens=False, verbose=False)["input_ids"]
        inner = max(1, length - tokenizer.num_special_tokens_to_add())
        starts = range(0, max(len(ids), 1), inner)
        return [tokenizer.build_inputs_with_special_tokens(ids[start : start + inner]) for start in starts]
    read = tokenizer(text, truncation=True, max_length=length, return_overflowing_tokens=True, verbose=False)
    rows = read["input_ids"]
    return rows if rows and isinstance(rows[0], list) else [rows]


def _read_text(file: Path) -> str:
    try:
        if not file.is_file():
            raise InvalidInputError(f"{file}: expected a text file, got no such file")
        with file.open("rb") as opened:
            content = opened.read(_MAX_TEXT_BYTES + 1)
    except OSError as error:
        raise InvalidInputError(f"{file}: expected a readable file, got: {error.strerror}") from None
    if len(content) > _MAX_TEXT_BYTES:
        raise InvalidInputError(f"{file}: expected at most {_MAX_TEXT_BYTES // 2**20} MB of text, got a larger file")
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise InvalidInputError(f"{file}: expected UTF-8 text, got another encoding: {error}") from None


def _read_ids(file: Path) -> np.ndarray[Any, np.dtype[np.integer[Any]]]:
    if file.suffix == ".npy":
        try:
            ids = map_npy(file)
        except OSError as error:
            raise InvalidInputError(f"{file}: expected a .npy array of integers, got: {error.strerror}") from None
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
    return parsed
