"""Reading a JSON object that a stranger wrote: bounded in size, without duplicate keys, without NaN."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

from rankwise.errors import InvalidInputError

MAX_BYTES = 8 * 2**20
"""Larger than any config.json (label tables of 20,000 classes take 1 MB), small enough to read at once."""


def read_json_object(path: Path, limit: int = MAX_BYTES) -> dict[str, Any]:
    """The JSON object in the regular file ``path`` of at most ``limit`` bytes."""
    try:
        if not path.exists():
            raise InvalidInputError(f"{path}: expected a JSON file, got no such file")
        if not path.is_file():  # a pipe would block, a device would never end
            raise InvalidInputError(f"{path}: expected a JSON file, got something that is not a regular file")
        with path.open("rb") as file:
            # no more than there is: a read reserves what it asks for
            content = file.read(min(limit, os.fstat(file.fileno()).st_size) + 1)
    except OSError as error:
        raise InvalidInputError(f"{path}: expected a readable file, got: {error.strerror}") from None
    if len(content) > limit:
        raise InvalidInputError(f"{path}: expected at most {limit // 2**20} MB of JSON, got a larger file")
    return parse_json_object(content, where=str(path))


def parse_json_object(content: bytes, *, where: str) -> dict[str, Any]:
    """The JSON object that ``content`` spells; complaints start with ``where``. The caller bounds the size."""
    try:
        read = json.loads(content.decode("utf-8-sig"), object_pairs_hook=_without_duplicates, parse_constant=_constant)
    except _RefusedError as refused:
        raise InvalidInputError(f"{where}: {refused}") from None
    except (ValueError, RecursionError) as error:  # also bad UTF-8 and integers of thousands of digits
        raise InvalidInputError(f"{where}: expected JSON, got something else: {error}") from None
    if not isinstance(read, dict):
        raise InvalidInputError(f"{where}: expected a JSON object of keys and values, got a {type(read).__name__}")
    return read


class _RefusedError(Exception):
    """Valid for the parser, not for us."""


def _without_duplicates(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    unique = dict(pairs)
    if len(unique) < len(pairs):
        keys = [key for key, _ in pairs]
        twice = next(key for key in keys if keys.count(key) > 1)
        raise _RefusedError(f"{twice!r}: expected the key once, got it {keys.count(twice)} times")
    return unique


def _constant(name: str) -> float:
    # transformers writes Infinity for limits that do not bind; NaN stands for nothing anyone could mean.
    if name == "NaN":
        raise _RefusedError("expected numbers, got NaN")
    return float(name)
