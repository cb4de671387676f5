"""How a command answers: a rich table for people, JSON for programs."""

from __future__ import annotations

import io
import json
import os
from collections.abc import Callable, Mapping, Sequence
from contextlib import redirect_stdout
from contextvars import ContextVar
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.text import Text

from rankwise.errors import InvalidInputError
from rankwise.whole_file import require_replaceable

_WIDE = 160
_CAPTURED: ContextVar[bool] = ContextVar("captured", default=False)


def print_json(answer: Mapping[str, Any] | Sequence[Any]) -> None:
    """``answer`` as strict JSON on stdout."""
    print(json_text(answer), end="")


def json_text(answer: Mapping[str, Any] | Sequence[Any]) -> str:
    """Strict JSON for people and programs: no NaN, no infinity, keys in the order given, a newline at the end."""
    return json.dumps(answer, indent=2, allow_nan=False) + "\n"


class _PatientConsole(Console):
    """Rich would leave with exit code 1 when the reader of a pipe has had enough; ``cli.main`` knows better."""

    def on_broken_pipe(self) -> None:
        raise BrokenPipeError


def console() -> Console:
    """A console on stdout that respects NO_COLOR and does not cut tables when it is not a terminal."""
    if not _CAPTURED.get():
        out = _PatientConsole(highlight=False)
        return out if out.is_terminal else _PatientConsole(highlight=False, width=_WIDE)
    return Console(highlight=False, force_terminal=False, force_jupyter=False, color_system=None, width=_WIDE)


def print_line(words: str, *, bold: bool = False) -> None:
    """A paragraph: at the words where a terminal is narrow, in one line where something else reads it.

    Letters that would move others (control characters, marks of direction in a file's name) are shown as "\ufffd".
    """
    out = console()
    words = "".join(letter if letter.isprintable() or letter == "\n" else "\ufffd" for letter in words)
    out.print(Text(words), style="bold" if bold else None, soft_wrap=not out.is_terminal)


def printed(show: Callable[[], None]) -> str:
    """What ``show`` prints, as plain text also where colours are forced and stdout is a notebook's."""
    text, before = io.StringIO(), _CAPTURED.set(True)
    try:
        with redirect_stdout(text):
            show()
    finally:
        _CAPTURED.reset(before)
    return text.getvalue()


def require_target(option: str, path: Path, *, folder: bool = False) -> None:
    """Refuse what ``option`` cannot write to now, rather than after minutes of work."""
    if path.is_dir() if not folder else path.is_file():
        wanted, came = ("a folder", "the file") if folder else ("a file", "the folder")
        raise InvalidInputError(f"{option}: expected {wanted} to write, got {came} {path}")
    if not folder:
        require_replaceable(path)
    place = path
    while not place.exists() and place != place.parent:
        place = place.parent
    if place != path and not place.is_dir():
        raise InvalidInputError(f"{option}: expected a place for {path}, got the file {place} on the way")
    if not os.access(place, os.W_OK):
        raise InvalidInputError(f"{option}: expected a place that can be written, got {place}")


def require_figure_name(figure: Path) -> None:
    """Refuse an ending that is not drawn, where a figure is written as .png and .svg."""
    if figure.suffix.lower() not in ("", ".png", ".svg"):
        raise InvalidInputError(f"--figure: expected a name, with .png, .svg or no ending, got {figure}")


def short(number: float) -> str:
    """Three digits and a decimal prefix: 906M."""
    for size, prefix in ((1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k")):
        if number >= 0.9995 * size:
            return f"{number / size:#.3g}".rstrip(".") + prefix
    return f"{number:g}"
