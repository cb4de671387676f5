"""Documents of other commands, read for the page: bounded, strict JSON of a known format, complete for the page."""

from __future__ import annotations

from collections.abc import Mapping
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

# What a page shows of a document: the keys of an object, [the kind of every entry] of a list, a text or a number.
# A key that ends in "?" may hold null. An audit is read whole by its own reader.
_CHANGE = {"before": float, "after": float}
_NEED_POINT = dict.fromkeys(("rank", "error", "error_low", "error_high", "recall"), float)
_SHOWN: dict[str, Any] = {
    "audit": {},
    "need": {
        "settings": {"target": float, "context": float},
        "measurements": [
            {
                "name": str,
                **dict.fromkeys(("dim", "context", "need", "need_low", "need_high"), float),
                **dict.fromkeys(("need_isotropic", "need_pca", "need_random"), float),
                "participation_ratio": {"keys": float},
                "curves": {"best": [_NEED_POINT]},
                "isotropic": [dict.fromkeys(("rank", "error", "standard_error", "bound"), float)],
                "notes": [str],
            }
        ],
    },
    "reduce": {
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
    },
}
_NAMES = {dict: "an object", list: "a list", str: "a text", float: "a number"}


def read_document(path: Path, kind: str) -> dict[str, Any]:
    """The document in the regular file ``path``, which must be one of ``kind`` and have what a page shows of it."""
    expected, command = FORMATS[kind]
    document = read_json_object(path, MAX_BYTES)
    if document.get("format") != expected:
        raise InvalidInputError(
            f"{path}: format: expected {expected!r} (make it: {command}), got {document.get('format')!r}"
        )
    try:
        _require_keys(f"{path}: ", document, _SHOWN[kind])
    except InvalidInputError as error:
        raise InvalidInputError(f"{error}; make it again: {command}") from None
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
