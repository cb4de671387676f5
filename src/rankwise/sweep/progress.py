"""What a person sees while a sweep runs: a live table on a terminal, now and then a line elsewhere."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

from rich.console import Console, Group
from rich.live import Live
from rich.table import Table
from rich.text import Text

from rankwise.sweep.plan import Plan, PlannedRun
from rankwise.sweep.store import FAILURES, Status


@dataclass
class _Running:
    run: PlannedRun
    since: float
    values: Mapping[str, Any] = field(default_factory=dict)
    fraction_at_start: float | None = None

    def note(self, values: Mapping[str, Any]) -> None:
        self.values = values
        if self.fraction_at_start is None:
            self.fraction_at_start = self.fraction

    @property
    def fraction(self) -> float:
        step, of = self.values.get("step"), self.values.get("of")
        return min(1.0, step / of) if isinstance(step, int | float) and isinstance(of, int | float) and of else 0.0


class Tally:
    """Where a sweep stands: counts, what runs now, the errors so far, and how long the rest will take."""

    def __init__(self, plan: Plan, statuses: Mapping[str, Status]) -> None:
        self.plan = plan
        self.counts = Counter(statuses[run.id] for run in plan.runs)
        self.running: dict[str, _Running] = {}
        self.best: tuple[float, str] | None = None
        self._one_task = len({run.spec.task.name for run in plan.runs}) == 1  # errors of two tasks do not compare
        self.stopping = False
        self._left = {run.id: run.work for run in plan.runs if statuses[run.id] == "pending"}
        self._worked = 0.0
        self._began: float | None = None

    def started(self, run: PlannedRun) -> None:
        """A worker has begun ``run``."""
        self.counts["pending"] -= 1
        self.counts["running"] += 1
        self._began = self._began or time.monotonic()
        self.running[run.id] = _Running(run, time.monotonic())

    def progressed(self, run_id: str, values: Mapping[str, Any]) -> None:
        """A run has reported."""
        if run_id in self.running:
            self.running[run_id].note(values)

    def ended(self, run: PlannedRun, status: Status, error: object = None) -> None:
        """A run has left its worker, with an outcome or as pending again."""
        was = self.running.pop(run.id, None)
        self.counts["running" if was else "pending"] -= 1
        self.counts[status] += 1
        if status == "pending":
            return
        self._left.pop(run.id, None)
        self._worked += run.work * (1.0 - ((was.fraction_at_start if was else None) or 0.0))
        if self._one_task and isinstance(error, int | float) and (self.best is None or error < self.best[0]):
            self.best = (float(error), run.label)

    def seconds_left(self) -> float | None:
        """The work left over the speed so far (``rankwise.sweep.run_time``); None before there is a speed."""
        if self._began is None:
            return None
        now = [(r.run.work, r.fraction, r.fraction_at_start or 0.0) for r in self.running.values()]
        worked = self._worked + sum(work * (fraction - start) for work, fraction, start in now)
        left = sum(self._left.values()) - sum(work * fraction for work, fraction, _ in now)
        elapsed = time.monotonic() - self._began
        return left * elapsed / worked if worked > 0 and elapsed > 0 else None

    @property
    def failed(self) -> int:
        """Runs that ended without a result, diverged ones included."""
        return sum(self.counts[status] for status in FAILURES)

    def line(self) -> str:
        """One line that says it all."""
        parts = [f"{self.counts['done']} of {len(self.plan.runs)} done"]
        parts += [f"{self.counts['running']} running"] if self.counts["running"] else []
        parts += [f"{self.failed} failed"] if self.failed else []
        parts += [f"lowest error {self.best[0]:.4g} ({self.best[1]})"] if self.best else []
        if self.counts["running"] or self.counts["pending"]:
            parts += ["stopping"] if self.stopping else [f"time left {duration(self.seconds_left())}"]
        return ", ".join(parts)


class Watcher(Protocol):
    """Someone who is shown the tally; must never stop the sweep."""

    def update(self, tally: Tally) -> None:
        """Something may have changed; called several times a second."""

    def say(self, message: str) -> None:
        """One line worth reading: a failure, a retry, a stop."""

    def close(self, tally: Tally) -> None:
        """The sweep has ended."""


class Silent:
    """Shows nothing."""

    def update(self, tally: Tally) -> None:
        """Nothing."""

    def say(self, message: str) -> None:
        """Nothing."""

    def close(self, tally: Tally) -> None:
        """Nothing."""


class _QuietWhenGone(Console):
    """A console whose reader may leave: the sweep goes on without it."""

    def on_broken_pipe(self) -> None:
        self.quiet = True


class Lines:
    """A line every few seconds, for logs and pipes."""

    def __init__(self, console: Console, every: float = 5.0) -> None:
        self._console = console
        self._every = every
        self._next = 0.0

    def update(self, tally: Tally) -> None:
        """The tally, if the last line is old enough."""
        if time.monotonic() >= self._next:
            self._next = time.monotonic() + self._every
            self.say(tally.line())

    def say(self, message: str) -> None:
        """One line, at once."""
        try:
            self._console.print(Text(message), soft_wrap=True)
        except OSError:
            self._console.quiet = True

    def close(self, tally: Tally) -> None:
        """The last line, whatever the time."""
        self.say(tally.line())


class LiveTable:
    """A table that stays in place, redrawn four times a second at most."""

    def __init__(self, console: Console) -> None:
        self._live = Live(console=console, auto_refresh=False, transient=True)
        self._lines = Lines(console)
        self._next = 0.0

    def update(self, tally: Tally) -> None:
        """Redraw, if the last picture is old enough."""
        if time.monotonic() < self._next:
            return
        self._next = time.monotonic() + 0.25
        try:
            self._live.start()  # hides the cursor, so not before someone is sure to call close
            self._live.update(_picture(tally), refresh=True)
        except OSError:
            self._live.console.quiet = True

    def say(self, message: str) -> None:
        """One line above the table."""
        self._lines.say(message)

    def close(self, tally: Tally) -> None:
        """Take the table away and leave one line."""
        try:
            self._live.stop()
        except OSError:
            self._live.console.quiet = True
        self._lines.close(tally)


def watcher() -> Watcher:
    """The live table if stderr is a terminal, lines otherwise."""
    console = _QuietWhenGone(stderr=True, highlight=False)
    return LiveTable(console) if console.is_terminal else Lines(console)


def duration(seconds: float | None) -> str:
    """``93`` as "1 min 33 s"; None as "unknown"."""
    if seconds is None:
        return "unknown"
    if seconds < 60:
        return f"{seconds:.0f} s" if seconds >= 10 else f"{seconds:.1f} s"
    minutes, rest = divmod(round(seconds), 60)
    if minutes < 60:
        return f"{minutes} min {rest} s"
    hours, minutes = divmod(minutes, 60)
    return f"{hours} h {minutes} min" if hours < 48 else f"{hours / 24:.1f} days"


def _picture(tally: Tally) -> Group:
    table = Table("running", box=None, pad_edge=False)
    for name in ("step", "error", "time"):
        table.add_column(name, justify="right")
    for running in list(tally.running.values())[:16]:
        values = running.values
        step = f"{values['step']}/{values['of']}" if "step" in values and "of" in values else ""
        error = f"{values['error']:.4g}" if isinstance(values.get("error"), int | float) else ""
        table.add_row(Text(running.run.label), step, error, duration(time.monotonic() - running.since))
    return Group(Text(tally.plan.name, style="bold"), table, Text(tally.line()))
