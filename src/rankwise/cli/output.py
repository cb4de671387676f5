"""How a command answers: a rich table for people, JSON for programs."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from rich.console import Console


def print_json(answer: Mapping[str, Any] | Sequence[Any]) -> None:
    """``answer`` as strict JSON on stdout: no NaN, no infinity, keys in the order given."""
    print(json.dumps(answer, indent=2, allow_nan=False))


class _PatientConsole(Console):
    """Rich would leave with exit code 1 when the reader of a pipe has had enough; ``cli.main`` knows better."""

    def on_broken_pipe(self) -> None:
        raise BrokenPipeError


def console() -> Console:
    """A console on stdout that respects NO_COLOR and does not cut tables when it is not a terminal."""
    out = _PatientConsole(highlight=False)
    return out if out.is_terminal else _PatientConsole(highlight=False, width=160)


def short(number: float) -> str:
    """Three digits and a decimal prefix: 906M."""
    for size, prefix in ((1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k")):
        if number >= 0.9995 * size:
            return f"{number / size:#.3g}".rstrip(".") + prefix
    return f"{number:g}"
