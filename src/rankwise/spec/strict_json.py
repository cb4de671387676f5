"""Reading JSON that a stranger wrote: a regular file of bounded size, without duplicate keys, without NaN."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

from rankwise.errors import InvalidInputError, SpecError
from rankwise.spec.fields import join, shorten

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
    """The JSON object that ``content`` spells, in which limits that do not bind may be Infinity, as transformers writes
    them; complaints start with ``where``. The caller bounds the size."""
    try:
        read = parse_strictly(content.decode("utf-8-sig"), infinite=True)
    except UnicodeDecodeError as error:
        raise InvalidInputError(f"{where}: expected JSON in UTF-8, got other bytes at {error.start}") from None
    except SpecError as error:
        raise InvalidInputError(f"{where}: {error}") from None
    if not isinstance(read, dict):
        raise InvalidInputError(f"{where}: expected a JSON object of keys and values, got a {type(read).__name__}")
    return read


def parse_strictly(text: str, *, infinite: bool = False) -> Any:
    """The value that ``text`` spells; a complaint starts with the path of the key, or with "the file"."""

    def constant(name: str) -> float:
        if infinite and name != "NaN":
            return float(name)
        raise SpecError(f"the file: expected finite numbers, got {name}")

    try:
        return _without_duplicates(json.loads(text, object_pairs_hook=_Pairs, parse_constant=constant), "")
    except json.JSONDecodeError as error:
        raise SpecError(f"line {error.lineno}, column {error.colno}: expected strict JSON: {error.msg}") from None
    except SpecError:
        raise
    except (ValueError, RecursionError) as error:  # integers of thousands of digits, brackets without end
        raise SpecError(f"the file: expected JSON of sensible size, got {shorten(str(error))}") from None


class _Pairs(list[tuple[str, Any]]):
    """A JSON object before its keys are known to be distinct."""


def _without_duplicates(value: Any, path: str) -> Any:
    if isinstance(value, _Pairs):
        table: dict[str, Any] = {}
        for key, inner in value:
            here = join(path, shorten(key))
            if key in table:
                raise SpecError(f"{here}: duplicate key")
            table[key] = _without_duplicates(inner, here)
        return table
    if isinstance(value, list):
        return [_without_duplicates(inner, f"{path}[{index}]") for index, inner in enumerate(value)]
    return value
