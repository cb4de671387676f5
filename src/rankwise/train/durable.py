"""Files that are whole or not there, also after a power cut."""

from __future__ import annotations

import os
from pathlib import Path

_DRAFT = "draft.safetensors"


def write_durably(path: Path, data: bytes) -> None:
    """Write ``data`` under another name, bring it to the disk, then give it its name; a failure leaves nothing."""
    draft = path.with_name(_DRAFT)
    try:
        with draft.open("wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        draft.replace(path)
    except OSError:
        draft.unlink(missing_ok=True)
        raise
    _sync_directory(path.parent)


def keep_only(path: Path) -> None:
    """Remove the files beside ``path`` that have its suffix: the checkpoints that it replaces, and drafts."""
    for old in path.parent.glob(f"*{path.suffix}"):
        if old != path:
            old.unlink(missing_ok=True)


def _sync_directory(directory: Path) -> None:
    """Make the rename itself survive a power cut."""
    handle = os.open(directory, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
