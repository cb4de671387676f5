"""Checkpoints that replace each other."""

from __future__ import annotations

from pathlib import Path


def keep_only(path: Path) -> None:
    """Remove the files beside ``path`` that have its suffix: the checkpoints that it replaces."""
    for old in path.parent.glob(f"*{path.suffix}"):
        if old != path:
            old.unlink(missing_ok=True)
