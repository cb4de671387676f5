"""Progress on stderr: a bar where someone is watching, now and then a line where stderr is a pipe or a file."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.progress import BarColumn, TextColumn, TimeElapsedColumn, TimeRemainingColumn
from rich.progress import Progress as Bars
from rich.text import Text

from rankwise.progress import Progress

_SECONDS_BETWEEN_LINES = 10.0


@contextmanager
def shown_progress() -> Iterator[Progress]:
    """``report(what, done, total)`` for the length of a command."""
    errors = Console(stderr=True, highlight=False)
    if not errors.is_terminal:
        yield _Lines(errors)
        return
    columns = TextColumn("{task.description}"), BarColumn(), TimeElapsedColumn(), TimeRemainingColumn()
    with Bars(*columns, console=errors, transient=True) as bars:
        task = bars.add_task("", total=None)
        yield lambda what, done, total: bars.update(task, description=what, completed=done, total=total)


class _Lines:
    """A line every few seconds; work that is over sooner prints none."""

    def __init__(self, console: Console) -> None:
        self._console, self._since = console, time.monotonic()
        self._next = self._since + _SECONDS_BETWEEN_LINES

    def __call__(self, what: str, done: int, total: int) -> None:
        now = time.monotonic()
        if now < self._next:
            return
        self._next = now + _SECONDS_BETWEEN_LINES
        try:
            self._console.print(Text(f"{what}: {done} of {total} ({now - self._since:.0f} s)"), soft_wrap=True)
        except OSError:
            self._console.quiet = True
