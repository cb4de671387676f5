"""The driver: plan -> store -> engine -> store. Running again is resuming."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from rankwise.errors import StorageError
from rankwise.spec import plain, to_json
from rankwise.sweep.engines.engine import (
    Blocked,
    Checkpointed,
    Continued,
    Engine,
    Event,
    Failed,
    Finished,
    Job,
    Lost,
    Progress,
    Returned,
    Started,
)
from rankwise.sweep.plain_text import one_line
from rankwise.sweep.plan import Plan, PlannedRun
from rankwise.sweep.progress import Silent, Tally, Watcher
from rankwise.sweep.signals import StopRequest
from rankwise.sweep.store import FAILURES, WORTH_RETRYING, Row, Status, Store

_MAX_LOSSES = 3
_TICK = 0.2
_KEEP_PROGRESS_EVERY = 2.0


@dataclass(frozen=True, kw_only=True)
class Outcome:
    """How a sweep ended: counts over its own runs, every failure as its row, and whether it was stopped."""

    counts: Mapping[Status, int]
    failures: tuple[Row, ...]
    interrupted: bool


def run_plan(
    plan: Plan,
    store: Store,
    engine: Engine,
    *,
    watcher: Watcher | None = None,
    stop: StopRequest | None = None,
    retry: bool = False,
) -> Outcome:
    """Run every run of ``plan`` that has no outcome in ``store`` yet, and close ``engine``.

    A run whose worker dies is tried again until three workers have died on it. ``retry`` reopens runs that
    failed, timed out or ran out of memory before. When ``stop`` is asked, running runs checkpoint and stay pending.
    Raises ``StorageError`` when the disk refuses; what is finished is kept. Raises ``CorruptStoreError`` before
    anything is run if a finished result was damaged.
    """
    store.check_results()
    with store.transaction():
        if retry:
            before = store.statuses()
            store.reopen(run.id for run in plan.runs if before.get(run.id) in WORTH_RETRYING)
        store.add((run.id, to_json(run.spec)) for run in plan.runs)
    driver = _Driver(plan, store, engine, watcher or Silent(), stop or StopRequest())
    try:
        driver.drive()
    finally:
        engine.close()
        driver.watcher.close(driver.tally)
    if driver.blocked is not None:
        raise StorageError(f"{driver.blocked}; what is finished is safe, the same command continues")
    own = {run.id for run in plan.runs}
    return Outcome(
        counts={status: count for status, count in driver.tally.counts.items() if count},
        failures=tuple(row for row in store.rows(*FAILURES) if row.run_id in own),
        interrupted=bool(driver.waiting or driver.given_back),
    )


class _Driver:
    def __init__(self, plan: Plan, store: Store, engine: Engine, watcher: Watcher, stop: StopRequest) -> None:
        statuses = store.statuses()
        self.store = store
        self.engine = engine
        self.watcher = watcher
        self.tally = Tally(plan, statuses)
        self.waiting = deque(run for run in plan.queue() if statuses[run.id] == "pending")
        self.given_back: list[str] = []
        self.blocked: str | None = None
        self._stop = stop
        self._in_flight: dict[str, PlannedRun] = {}
        self._unsaved_progress: dict[str, Mapping[str, Any]] = {}
        self._save_progress_at = 0.0

    def drive(self) -> None:
        while self._in_flight or (self.waiting and not self.tally.stopping):
            if (self._stop.asked or self.blocked) and not self.tally.stopping:
                self._ask_to_stop()
            self._submit()
            events = self.engine.events(_TICK)
            if events:
                with self.store.transaction():
                    for event in events:
                        self._apply(event)
                    self._save_progress()
            self.store.empty_log()
            self.watcher.update(self.tally)

    def _submit(self) -> None:
        while self.waiting and len(self._in_flight) < self.engine.slots and not self.tally.stopping:
            run = self.waiting.popleft()
            self._in_flight[run.id] = run
            self.engine.submit(
                Job(
                    run_id=run.id,
                    spec=plain(run.spec),
                    checkpoint_dir=self.store.checkpoint_dir(run.id).absolute(),
                    time_limit=run.spec.time_limit,
                )
            )

    def _ask_to_stop(self) -> None:
        self.tally.stopping = True
        count = len(self.tally.running)
        self.watcher.say(
            f"stopping: asking {count} running {'run' if count == 1 else 'runs'} to checkpoint (Ctrl-C: stop at once)"
        )
        self.engine.stop()

    def _apply(self, event: Event) -> None:
        run = self._in_flight[event.run_id]
        if isinstance(event, Started):
            self.store.begin(run.id, event.versions, event.machine)
            self.tally.started(run)
        elif isinstance(event, Progress):
            self._unsaved_progress[run.id] = event.values
            self.tally.progressed(run.id, event.values)
        elif isinstance(event, Checkpointed):
            self.store.note_checkpoint(run.id, event.path, event.sha256)
        elif isinstance(event, Continued):
            self.store.note_earlier_work(run.id, event.seconds)
        else:
            del self._in_flight[run.id]
            self._unsaved_progress.pop(run.id, None)
            self._close(run, event)

    def _close(self, run: PlannedRun, event: Finished | Failed | Blocked | Returned | Lost) -> None:
        if isinstance(event, Finished):
            self.store.finish(run.id, event.result, event.seconds)
            self.tally.ended(run, "done", event.result.get("error"))
        elif isinstance(event, Failed):
            self._fail(run, event.status, event.reason, event.traceback, event.seconds)
        elif isinstance(event, Lost):
            self._lost(run, event)
        else:
            self.given_back.append(run.id)
            self.store.give_back(run.id, event.seconds if isinstance(event, Returned) else 0.0)
            self.tally.ended(run, "pending")
            if isinstance(event, Blocked):
                self.blocked = self.blocked or event.reason

    def _lost(self, run: PlannedRun, event: Lost) -> None:
        losses = self.store.give_back(run.id, event.seconds, lost=True)
        if losses >= _MAX_LOSSES:
            counted = f"given up after {losses} dead workers, counted over all commands (--retry counts anew)"
            self._fail(run, "failed", f"{counted}: {event.reason}", event.log, 0.0)
            return
        self.watcher.say(f"retrying {run.label}: {event.reason} ({losses} of {_MAX_LOSSES} times)")
        self.tally.ended(run, "pending")
        self.waiting.append(run)

    def _fail(self, run: PlannedRun, status: Status, reason: str, log: str, seconds: float) -> None:
        self.store.fail(run.id, status, reason, log, seconds)
        self.tally.ended(run, status)
        self.watcher.say(f"{status}: {run.label}: {one_line(reason)}")

    def _save_progress(self) -> None:
        """Progress is for people who look into the store meanwhile: not worth a write each."""
        if self._unsaved_progress and time.monotonic() >= self._save_progress_at:
            self._save_progress_at = time.monotonic() + _KEEP_PROGRESS_EVERY
            for run_id, values in self._unsaved_progress.items():
                self.store.note_progress(run_id, values)
            self._unsaved_progress.clear()
