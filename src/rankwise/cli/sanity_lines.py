"""Whether a model was fed what it was trained on, as a person reads it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rich.text import Text

from rankwise.cli.output import console

if TYPE_CHECKING:
    from rankwise.models import RunSanity


def print_sanity(sanity: RunSanity | None) -> None:
    """A line of numbers, and a line for each doubt; nothing where no model was run."""
    if sanity is None:
        return
    out = console()
    out.print(Text(f"The run: {sanity.sentence()}."), soft_wrap=True)
    for warning in sanity.warnings():
        out.print(Text(f"Warning: {warning}."), style="bold", soft_wrap=True)
