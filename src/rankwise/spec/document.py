"""Documents that commands write for each other: a named format, read back by the dataclass that was written.

A document is a JSON object with a key ``format`` and the fields of a dataclass. Fields may be added to a format, with a
default, not changed.
"""

from __future__ import annotations

import json
import math
from dataclasses import fields, is_dataclass
from pathlib import Path
from typing import Any, TypeVar

from rankwise.errors import InvalidInputError, SpecError
from rankwise.spec.fields import build
from rankwise.spec.strict_json import read_json_object
from rankwise.whole_file import write_whole

T = TypeVar("T")

MAX_BYTES = 64 * 2**20
"""An audit of a thousand heads with their spectra takes a few megabytes."""


def to_document(format: str, content: Any, *, digits: int | None = None) -> dict[str, Any]:
    """``content``, a dataclass, as plain values; fields that are None and have that default are left out.

    - ``digits``: how many significant digits of every number to keep.
    """
    return {"format": format, **_plain(content, digits)}


def read_document(cls: type[T], path: Path, *, format: str, made_by: str) -> T:
    """The document in the regular file ``path``; ``made_by`` is the command that writes one."""
    table = read_json_object(path, MAX_BYTES)
    if table.get("format") != format:
        raise InvalidInputError(
            f"{path}: format: expected {format!r} (make it: {made_by}), got {table.get('format')!r}"
        )
    try:
        return build(cls, {key: value for key, value in table.items() if key != "format"}, "")
    except SpecError as error:
        raise InvalidInputError(f"{path}: {error}; make it again: {made_by}") from None


def write_document(document: dict[str, Any], path: Path) -> None:
    """``document`` as strict JSON, replaced in one piece."""
    write_whole(path, (json.dumps(document, allow_nan=False) + "\n").encode())


def _plain(value: Any, digits: int | None) -> Any:
    if is_dataclass(value):
        kept = [(field, getattr(value, field.name)) for field in fields(value)]
        return {f.name: _plain(v, digits) for f, v in kept if not (v is None and f.default is None)}
    if isinstance(value, dict):
        return {key: _plain(item, digits) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(item, digits) for item in value]
    if isinstance(value, float):
        if not math.isfinite(value):
            raise ValueError(f"expected finite numbers in a document, got {value}")
        return value if digits is None else float(f"{value:.{digits}g}")
    return value
