"""Documents of other commands, read for the page: bounded, strict JSON of a known format."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from rankwise.errors import InvalidInputError
from rankwise.shapes.strict_json import read_json_object

MAX_BYTES = 64 * 2**20
"""An audit of a thousand heads with their spectra takes a few megabytes."""

FORMATS = {
    "audit": ("rankwise-audit/1", "rankwise audit MODEL -o FILE"),
    "need": ("rankwise-need/1", "rankwise need ... -o FILE"),
    "reduce": ("rankwise-reduction/1", "rankwise reduce MODEL ... --json > FILE"),
}


def read_document(path: Path, kind: str) -> dict[str, Any]:
    """The document in the regular file ``path``, which must be one of ``kind``."""
    expected, command = FORMATS[kind]
    document = read_json_object(path, MAX_BYTES)
    if document.get("format") != expected:
        raise InvalidInputError(
            f"{path}: format: expected {expected!r} (make it: {command}), got {document.get('format')!r}"
        )
    return document
