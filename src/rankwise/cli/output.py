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
