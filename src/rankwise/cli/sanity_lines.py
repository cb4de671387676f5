"""Whether a model was fed what it was trained on, as a person reads it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rankwise.cli.output import print_line

if TYPE_CHECKING:
    from rankwise.models import RunSanity


def print_sanity(sanity: RunSanity | None) -> None:
    """A line of numbers, and a line for each doubt; nothing where no model was run."""
    if sanity is None:
        return
    print_line(f"The run: {sanity.sentence()}.")
    for warning in sanity.warnings():
        print_line(f"Warning: {warning}.", bold=True)
