"""The one form of a spec that is hashed: run ids and seeds come from here and nowhere else.

Canonical form: a JSON object with sorted keys and no spaces. Left out are fields that are at their default, so that
adding or removing an option keeps the id of every run that does not use it, and fields marked ``identity=False``. The
``name`` of a task always counts: it says which kind of spec it is.
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import MISSING, Field, fields, is_dataclass
from typing import Any

_SCALARS = (str, int, float, bool)


def plain(spec: Any, *, identity_only: bool = False) -> Any:
    """``spec`` as dictionaries, lists, strings and numbers; fields that are None are left out.

    - ``identity_only``: leave out what does not decide the numbers of a run, too: the canonical form.
    """
    if type(spec) in _SCALARS:
        return spec
    own_writer = getattr(spec, "to_table", None)
    if own_writer is not None:
        return own_writer()
    if is_dataclass(spec):
        kept = [field for field in fields(spec) if not identity_only or _decides(field, getattr(spec, field.name))]
        values = {field.name: getattr(spec, field.name) for field in kept}
        return {name: plain(v, identity_only=identity_only) for name, v in values.items() if v is not None}
    return [plain(item, identity_only=identity_only) for item in spec]


def _decides(field: Field[Any], value: object) -> bool:
    default = field.default_factory() if field.default_factory is not MISSING else field.default
    return bool(field.metadata.get("identity", True)) and (field.name == "name" or value != default)


def canonical_json(spec: Any) -> str:
    """The canonical form of ``spec``."""
    return json.dumps(
        plain(spec, identity_only=True), sort_keys=True, separators=(",", ":"), allow_nan=False, ensure_ascii=True
    )


def run_id(spec: Any) -> str:
    """16 hexadecimal digits of the SHA-256 of the canonical form (a million runs collide with chance 3e-8)."""
    return hashlib.sha256(canonical_json(spec).encode()).hexdigest()[:16]


def derived_seed(run_id: str, purpose: str) -> int:
    """A seed in [0, 2**63) for one purpose ("init", "data", "validation", ...) of one run.

    Purposes get streams that have nothing to do with each other, and no stream depends on the order they are asked in.
    """
    digest = hashlib.sha256(f"{run_id}/{purpose}".encode()).digest()
    return int.from_bytes(digest[:8], "big") >> 1
