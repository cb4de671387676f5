"""How far long work is: one protocol for everything that takes longer than a moment."""

from __future__ import annotations

from collections.abc import Callable

Progress = Callable[[str, int, int], None]
"""``report(what, done, total)``: what is being done, how much of it is done, and of how much."""


def silent(what: str, done: int, total: int) -> None:
    """Discard the progress; the default where none is to be shown."""
