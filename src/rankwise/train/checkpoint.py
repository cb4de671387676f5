"""Checkpoints that are whole or not there: safetensors whose name carries the SHA-256 of their bytes.

``00000120.<sha256>.safetensors``: written under another name, brought to the disk, renamed, and only then is the one
before it removed. A file whose bytes do not hash to its name is never used. No pickle anywhere.
"""

from __future__ import annotations

import hashlib
import json
import logging
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from safetensors import SafetensorError, safe_open
from safetensors.torch import save
from torch import Tensor

from rankwise.train.durable import keep_only
from rankwise.whole_file import replace_whole

_NAME = re.compile(r"(\d{8,})\.([0-9a-f]{64})\.safetensors")
_FORMAT = "rankwise checkpoint 1"

_log = logging.getLogger(__name__)


@dataclass(frozen=True, kw_only=True)
class State:
    """Everything that a run needs to go on as if nothing had happened: tensors by name, and plain JSON values."""

    run_id: str
    step: int
    tensors: Mapping[str, Tensor]
    values: Mapping[str, Any]


@dataclass(frozen=True, kw_only=True)
class Saved:
    """A state as it was found: the file it is in and the SHA-256 of that file."""

    path: Path
    sha256: str
    state: State


def write_checkpoint(directory: Path, state: State) -> tuple[Path, str]:
    """Write ``state``, then remove what was there before; returns the path and its SHA-256."""
    facts = {"format": _FORMAT, "run_id": state.run_id, "step": state.step, "values": state.values}
    tensors = {name: tensor.detach().cpu().contiguous() for name, tensor in state.tensors.items()}
    data = save(tensors, {"rankwise": json.dumps(facts, allow_nan=False)})
    sha256 = hashlib.sha256(data).hexdigest()
    path = directory / f"{state.step:08d}.{sha256}.safetensors"
    replace_whole(path, data)
    keep_only(path)
    return path, sha256


def read_checkpoint(directory: Path, run_id: str) -> State | None:
    """The latest state of ``run_id`` whose bytes are what was written."""
    saved = find_checkpoint(directory, run_id)
    return None if saved is None else saved.state


def find_checkpoint(directory: Path, run_id: str) -> Saved | None:
    """The latest checkpoint of ``run_id`` whose bytes are what was written; damaged ones are logged and passed over."""
    found = [(int(match[1]), match[2], path) for path in directory.glob("*") if (match := _NAME.fullmatch(path.name))]
    for _, sha256, path in sorted(found, reverse=True):
        if not path.is_file() or hashlib.sha256(path.read_bytes()).hexdigest() != sha256:
            _log.warning("%s: damaged, its SHA-256 is not the one in its name; not used", path)
            continue
        state = _parsed(path, run_id)
        if state is not None:
            return Saved(path=path, sha256=sha256, state=state)
        _log.warning("%s: not a checkpoint of run %s; not used", path, run_id)
    return None


def _parsed(path: Path, run_id: str) -> State | None:
    """The state in a file whose bytes are what was written; None if that is not a state of ``run_id``."""
    try:
        with safe_open(path, framework="pt") as file:
            facts = json.loads((file.metadata() or {}).get("rankwise", "{}"))
            if facts.get("format") != _FORMAT or facts.get("run_id") != run_id:
                return None
            tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118 (not a dictionary)
        return State(run_id=run_id, step=facts["step"], tensors=tensors, values=facts["values"])
    except (SafetensorError, ValueError, KeyError, AttributeError):
        return None
