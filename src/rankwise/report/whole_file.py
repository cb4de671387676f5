"""Files that are replaced in one piece: a reader, or a write that fails, finds the old one whole."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path

from rankwise.errors import StorageError


def write_whole(path: Path, data: bytes) -> Path:
    """``data`` as the file ``path``; its folder is made if it is missing."""
    draft = path.with_name(f".{path.name}.new")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        draft.write_bytes(data)
        draft.replace(path)
    except OSError as error:
        with suppress(OSError):
            draft.unlink()
        raise StorageError(f"{path}: cannot be written: {error.strerror}; choose another file") from None
    return path
