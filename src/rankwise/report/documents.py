"""A reduction, read for the page: bounded, strict JSON of a known format, complete for the page."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from rankwise.errors import InvalidInputError
from rankwise.spec.strict_json import read_json_object

MAX_BYTES = 64 * 2**20
"""An audit of a thousand heads with their spectra takes a few megabytes."""

FORMAT, _COMMAND = "rankwise-reduction/1", "rankwise reduce MODEL ... --json > FILE"

# What a page shows of a document: the keys of an object, [the kind of every entry] of a list, a text or a number.
# A key that ends in "?" may hold null.
_CHANGE = {"before": float, "after": float}
_SHOWN: dict[str, Any] = {
    "model": str,
    "rank": float,
    "original_rank": float,
    "chosen": str,
    "tolerance?": float,
    "cost?": {"cost": float},
    "cost_unit?": str,
    "texts?": {"tokens": float, "evaluation": float},
    "savings": {"attention_parameters": _CHANGE, "kv_cache_bytes_per_token": _CHANGE},
    "curve": [{"method": str, "rank": float, "cost": float, "lost_scores": float}],
    "sensitivity": [{"layer": str, "cost": float, "lost_scores": float}],
}
_NAMES = {dict: "an object", list: "a list", str: "a text", float: "a number"}


def read_reduction(path: Path) -> dict[str, Any]:
    """The document in the regular file ``path``, which must have what a page shows of it."""
    document = read_json_object(path, MAX_BYTES)
    if document.get("format") != FORMAT:
        raise InvalidInputError(
            f"{path}: format: expected {FORMAT!r} (make it: {_COMMAND}), got {document.get('format')!r}"
        )
    try:
        _require_keys(f"{path}: ", document, _SHOWN)
    except InvalidInputError as error:
        raise InvalidInputError(f"{error}; make it again: {_COMMAND}") from None
    return document


def _require_keys(prefix: str, values: Mapping[str, Any], shown: Mapping[str, Any]) -> None:
    for name, kind in shown.items():
        key = name.removesuffix("?")
        if key not in values:
            raise InvalidInputError(f"{prefix}{key}: expected this key, got none")
        if values[key] is not None or key == name:
            _require(f"{prefix}{key}", values[key], kind)


def _require(where: str, value: Any, shown: Any) -> None:
    kind = shown if isinstance(shown, type) else type(shown)
    allowed: tuple[type[Any], ...] = (int, float) if kind is float else (kind,)
    if isinstance(value, bool) or not isinstance(value, allowed):
        found = "null" if value is None else f"a {type(value).__name__}"
        raise InvalidInputError(f"{where}: expected {_NAMES[kind]}, got {found}")
    if isinstance(shown, dict):
        _require_keys(f"{where}.", value, shown)
    elif isinstance(shown, list):
        for at, entry in enumerate(value):
            _require(f"{where}[{at}]", entry, shown[0])
