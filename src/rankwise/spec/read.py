"""Specs from TOML and JSON, strictly: what is not understood is refused, by name, before anything runs."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path
from typing import TypeVar

from rankwise.errors import InvalidInputError, SpecError
from rankwise.foreign_file import read_regular
from rankwise.spec import strict_json
from rankwise.spec.fields import build, join, shorten

T = TypeVar("T")

MAX_BYTES = 2 * 2**20

# A key of more than 16 parts. No spec nests that deep, and tomllib needs quadratic time for long dotted keys.
_ENDLESS_KEY = re.compile(r"""(?<![\w-])(?:(?:[\w-]++|"[^"\n]*+"|'[^'\n]*+')[ \t]*+\.[ \t]*+){16}""")


def read_spec(cls: type[T], path: Path) -> T:
    """The spec of class ``cls`` in the file ``path`` (``.json``, otherwise TOML)."""
    text = _read_text(path)
    try:
        return parse_json(cls, text) if path.suffix == ".json" else parse_toml(cls, text)
    except SpecError as error:
        raise SpecError(f"{error}  [in {path}]") from None


def from_plain(cls: type[T], table: object) -> T:
    """The spec of class ``cls`` from dictionaries, lists, strings and numbers, as ``canonical.plain`` gives them."""
    return build(cls, table, "")


def parse_toml(cls: type[T], text: str) -> T:
    """The spec of class ``cls`` that ``text`` spells in TOML."""
    endless = _ENDLESS_KEY.search(text)
    if endless:
        raise SpecError(f"{shorten(endless.group())}: expected a key of at most 16 parts, got more")
    try:
        table = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise SpecError(_explain_toml(text, str(error))) from None
    except (ValueError, RecursionError) as error:
        raise SpecError(f"the file: expected TOML of sensible size, got {shorten(str(error))}") from None
    return build(cls, table, "")


def parse_json(cls: type[T], text: str) -> T:
    """The spec of class ``cls`` that ``text`` spells in strict JSON (no NaN, no infinity, no duplicate keys)."""
    return build(cls, strict_json.parse_strictly(text), "")


def _read_text(path: Path) -> str:
    try:
        content = read_regular(path, "a spec", limit=MAX_BYTES)
    except InvalidInputError as error:
        raise SpecError(str(error)) from None
    try:
        return content.decode("utf-8-sig").replace("\r\n", "\n")
    except UnicodeDecodeError as error:
        raise SpecError(f"{path}: expected UTF-8 text, got other bytes at position {error.start}") from None


_PLACE = re.compile(r"\(at line (\d+), column \d+\)")
_DUPLICATE = re.compile(r"overwrite a value|twice|Duplicate|immutable namespace")
_HEADER = re.compile(r"\s*\[\[?\s*([^\]]+?)\s*\]")


def _explain_toml(text: str, message: str) -> str:
    """``model.rank: duplicate key (line 12)`` where tomllib only says that something at line 12 is overwritten."""
    if not _DUPLICATE.search(message):
        return f"the file: expected TOML: {message}"
    lines = text.split("\n")
    place = _PLACE.search(message)
    number = int(place.group(1)) if place else len(lines)
    # tomllib points behind the value, which may be on the next line
    candidates = [i for i in range(min(number, len(lines)), 0, -1) if lines[i - 1].strip()]
    line = candidates[0] if candidates else number
    header = _HEADER.match(lines[line - 1])
    if header:
        return f"{shorten(header.group(1))}: duplicate key (line {line})"
    table = next((found.group(1) for i in range(line - 1, 0, -1) if (found := _HEADER.match(lines[i - 1]))), "")
    key = shorten(lines[line - 1].split("=")[0].strip())
    return f"{join(table, key)}: duplicate key (line {line})"
