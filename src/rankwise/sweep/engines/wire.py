"""What crosses a network between a driver and its workers: JSON in UTF-8, and checkpoints as safetensors bytes.

Never an object: nothing that arrives is unpickled, imported by a name it brings, or called.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any, get_args

from rankwise.sweep.engines.engine import Checkpointed, Event
from rankwise.train import keep_only
from rankwise.whole_file import replace_whole

CHECKPOINT_SUFFIX = ".safetensors"

_EVENTS: dict[str, type[Any]] = {kind.__name__: kind for kind in get_args(Event)}


def encode(table: Mapping[str, Any]) -> bytes:
    """``table`` as strict JSON."""
    return json.dumps(table, allow_nan=False, separators=(",", ":")).encode()


def decode(message: bytes) -> dict[str, Any]:
    """The table that ``encode`` wrote."""
    table = json.loads(message)
    if not isinstance(table, dict):
        raise ValueError(f"expected a JSON object, got {type(table).__name__}")
    return table


def encode_events(events: Iterable[Event], files: Sequence[str] = ()) -> bytes:
    """Events in order, and the names of the files whose bytes are the messages after this one."""
    told = [{"event": type(event).__name__, **asdict(event)} for event in events]
    return encode({"events": told, "files": list(files)})


def decode_events(message: bytes) -> tuple[list[Event], list[str]]:
    """What ``encode_events`` said. Unknown events and fields are errors: the versions differ."""
    table = decode(message)
    events: list[Event] = [_EVENTS[told.pop("event")](**told) for told in table["events"]]
    return events, [str(name) for name in table["files"]]


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
