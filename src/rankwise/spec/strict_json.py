"""Reading JSON that a stranger wrote: a regular file of bounded size, without duplicate keys, without NaN."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from rankwise.errors import InvalidInputError, SpecError
from rankwise.foreign_file import read_regular
from rankwise.spec.fields import join, shorten

MAX_BYTES = 8 * 2**20
"""Larger than any config.json (label tables of 20,000 classes take 1 MB), small enough to read at once."""


def read_json_object(path: Path, limit: int = MAX_BYTES) -> dict[str, Any]:
    """The JSON object in the regular file ``path`` of at most ``limit`` bytes."""
    content = read_regular(path, "a JSON file", limit=limit)
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

    doubled = False

    def table(pairs: list[tuple[str, Any]]) -> Any:
        nonlocal doubled
        found = dict(pairs)
        if len(found) == len(pairs):
            return found
        doubled = True
        return _Doubled(pairs)

    try:
        read = json.loads(text, object_pairs_hook=table, parse_constant=constant)
        if doubled:
            raise SpecError(f"{_path_of_doubled(read, [])}: duplicate key")
        return read
    except json.JSONDecodeError as error:
        raise SpecError(f"line {error.lineno}, column {error.colno}: expected strict JSON: {error.msg}") from None
    except SpecError:
        raise
    except (ValueError, RecursionError) as error:  # integers of thousands of digits, brackets without end
        raise SpecError(f"the file: expected JSON of sensible size, got {shorten(str(error))}") from None


class _Doubled(list[tuple[str, Any]]):
    """A JSON object with a key that stands there twice."""


def _path_of_doubled(value: dict[str, Any] | list[Any], path: list[str]) -> str | None:
    """Where the first doubled key is; parts are joined once, so that depth does not multiply the work."""
    if isinstance(value, _Doubled):
        counted = Counter(key for key, _ in value)
        doubled = next(key for key, _ in value if counted[key] > 1)
        return join("".join(path).removeprefix("."), shorten(doubled))
    inner: Iterable[tuple[str | int, Any]] = value.items() if isinstance(value, dict) else enumerate(value)
    for key, item in inner:
        if isinstance(item, dict | list):
            path.append(f".{shorten(key)}" if isinstance(key, str) else f"[{key}]")
            found = _path_of_doubled(item, path)
            if found is not None:
                return found
            path.pop()
    return None
