"""What crosses a network between a driver and its workers: JSON in UTF-8, and checkpoints as safetensors bytes.

Never an object: nothing that arrives is unpickled, imported by a name it brings, or called.
"""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any, Literal, get_args, get_origin, get_type_hints

from rankwise.sweep.engines.engine import Checkpointed, Event
from rankwise.train import keep_only
from rankwise.whole_file import replace_whole

CHECKPOINT_SUFFIX = ".safetensors"

_PLAIN: dict[Any, Any] = {str: str, int: int, float: int | float, Mapping: dict}
_EVENTS: dict[str, type[Any]] = {kind.__name__: kind for kind in get_args(Event)}


def encode(table: Mapping[str, Any]) -> bytes:
    """``table`` as strict JSON."""
    return json.dumps(table, allow_nan=False, separators=(",", ":")).encode()


def decode(message: bytes) -> dict[str, Any]:
    """The table that ``encode`` wrote."""
    table = json.loads(message, parse_constant=_finite, parse_float=_finite)
    if not isinstance(table, dict):
        raise ValueError(f"expected a JSON object, got {type(table).__name__}")
    return table


def encode_events(events: Iterable[Event], files: Sequence[str] = ()) -> bytes:
    """Events in order, and the names of the files whose bytes are the messages after this one."""
    told = [{"event": type(event).__name__, **asdict(event)} for event in events]
    return encode({"events": told, "files": list(files)})


def decode_events(message: bytes) -> tuple[list[Event], list[str]]:
    """What ``encode_events`` said. Unknown events and fields and values of another type are errors."""
    table = decode(message)
    events = [_event(told) for told in table["events"]]
    files = table["files"]
    if not isinstance(files, list) or not all(isinstance(name, str) for name in files):
        raise ValueError("expected a list of names of files")
    return events, files


def _event(told: dict[str, Any]) -> Event:
    kind = _EVENTS[told.pop("event")]
    event: Event = kind(**told)
    for name, hint in get_type_hints(kind).items():
        value, choices = told[name], get_args(hint) if get_origin(hint) is Literal else None
        wanted = _PLAIN.get(get_origin(hint) or hint, object)
        if isinstance(value, bool) or not isinstance(value, wanted) or (choices is not None and value not in choices):
            raise ValueError(f"{kind.__name__}.{name}: expected {hint}, got {value!r:.60}")
    return event


def _finite(spelt: str) -> float:
    number = float(spelt)
    if not math.isfinite(number):  # NaN, Infinity, or an exponent beyond all floats
        raise ValueError(f"expected finite numbers, got {spelt:.60}")
    return number


def checkpoint_files(directory: Path) -> dict[str, bytes]:
    """The checkpoints in ``directory`` by their names."""
    return {path.name: path.read_bytes() for path in sorted(directory.glob(f"*{CHECKPOINT_SUFFIX}")) if path.is_file()}


def accept_checkpoint(directory: Path, name: str, data: bytes, event: Checkpointed) -> Checkpointed | None:
    """Keep a checkpoint that came from a worker; None if its bytes or its name are not what they should be.

    A name is one path component. The file replaces the ones before it only once it is on the disk.
    """
    if Path(name).name != name or not name.endswith(CHECKPOINT_SUFFIX):
        return None
    if hashlib.sha256(data).hexdigest() != event.sha256:
        return None
    directory.mkdir(parents=True, exist_ok=True)
    path = directory / name
    replace_whole(path, data)
    keep_only(path)
    return Checkpointed(run_id=event.run_id, path=str(path), sha256=event.sha256, step=event.step)
