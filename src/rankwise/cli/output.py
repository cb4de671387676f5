"""How a command answers: a rich table for people, JSON for programs."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from rich.console import Console


def print_json(answer: Mapping[str, Any] | Sequence[Any]) -> None:
    """``answer`` as strict JSON on stdout: no NaN, no infinity, keys in the order given."""
    print(json.dumps(answer, indent=2, allow_nan=False))


def console() -> Console:
    """A console on stdout that respects NO_COLOR and does not cut tables when it is not a terminal."""
    out = _Console(highlight=False)
    return out if out.is_terminal else _Console(highlight=False, width=160)


class _Console(Console):
    def on_broken_pipe(self) -> None:
        """Leave a closed pipe to ``main``; rich would exit with 1, which here means that runs failed."""
        raise BrokenPipeError
