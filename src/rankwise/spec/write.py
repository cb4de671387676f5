"""Specs as text that reads back equal."""

from __future__ import annotations

import json
from typing import Any

from rankwise.spec.canonical import plain


def to_toml(spec: Any) -> str:
    """``spec`` as TOML with every default written out; ``read.parse_toml`` gives an equal spec back."""
    import tomli_w

    return tomli_w.dumps(plain(spec))


def to_json(spec: Any) -> str:
    """``spec`` as one line of JSON; ``read.parse_json`` gives an equal spec back."""
    return json.dumps(plain(spec), allow_nan=False)
