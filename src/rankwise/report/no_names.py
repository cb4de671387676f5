"""Text for a page that will be sent to others: it names no user, and its letters stand in the order they were written.

Everything that a page shows passes here, whatever part of rankwise it comes from.
"""

from __future__ import annotations

import re
from functools import cache
from getpass import getuser
from pathlib import Path
from typing import Any

from rankwise.foreign_file import plain_name

_NAME = r"[^/\\\s\"'<>|:,;]+"
_HOMES = re.compile(rf"(?:/home|/Users|/var/home|/export/home)/{_NAME}|[A-Za-z]:\\Users\\{_NAME}|/root\b")
"""Of any machine: runs of a cluster come from several."""


def without_homes(text: str) -> str:
    """``text`` with every home directory as ``~``."""
    own = str(Path.home())
    shorter = text.replace(own, "~") if len(own) > 1 else text
    return _HOMES.sub("~", shorter)


def page_text(text: str) -> str:
    """``text`` without homes and the user's name in paths, control characters and words of more than 200 letters."""
    shown = without_homes(re.sub(r"\S{201,}", lambda word: plain_name(word[0]), text))
    shown = "".join(letter if letter.isprintable() or letter in "\n\t" else "\ufffd" for letter in shown)
    return re.sub(rf"(?<=[/\\]){re.escape(_user())}(?=[/\\]|$)", "~", shown) if _user() else shown


def page_value(value: Any) -> Any:
    """``page_text`` of every text in a value or document."""
    if isinstance(value, dict):
        return {page_text(str(key)): page_value(one) for key, one in value.items()}
    if isinstance(value, list | tuple):
        return [page_value(one) for one in value]
    return page_text(value) if type(value) is str else value  # not of markup, which is a kind of text


@cache
def _user() -> str:
    """The user's name; empty where the system knows none, as in some containers."""
    try:
        return getuser()
    except (KeyError, OSError):
        return ""
