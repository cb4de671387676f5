"""Text for a page that will be sent to others: home directories, which name their users, become ``~``."""

from __future__ import annotations

import re
from pathlib import Path

_NAME = r"[^/\\\s\"'<>|:,;]+"
_HOMES = re.compile(rf"(?:/home|/Users|/var/home|/export/home)/{_NAME}|[A-Za-z]:\\Users\\{_NAME}|/root\b")
"""Of any machine: runs of a cluster come from several."""


def without_homes(text: str) -> str:
    """``text`` with every home directory as ``~``."""
    own = str(Path.home())
    shorter = text.replace(own, "~") if len(own) > 1 else text
    return _HOMES.sub("~", shorter)
