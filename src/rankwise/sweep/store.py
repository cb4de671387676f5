"""The only memory of a sweep: one SQLite file with a row for every run.

``runs.db`` is ordinary SQLite (WAL), so any tool can query it while a sweep runs; the driver is its only writer.
Beside it: ``checkpoints/RUN_ID/``, ``logs/`` and the lock. A row that has an outcome carries a digest over what it
says, so that bytes changed on disk are noticed and never become a number in a table.
"""

from __future__ import annotations

import hashlib
import json
import math
import sqlite3
import time
from collections.abc import Iterable, Iterator, Mapping
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from types import NoneType
from typing import Any, Literal, get_args

from rankwise.errors import CorruptStoreError, InvalidInputError, StorageError
from rankwise.sweep.database import connect_to_read, connect_to_write, database_file, empty_log, errors_named
from rankwise.sweep.lock import driver_lock

Status = Literal["pending", "running", "done", "failed", "diverged", "timeout", "oom"]
STATUSES: tuple[Status, ...] = get_args(Status)
FAILURES: tuple[Status, ...] = ("failed", "diverged", "timeout", "oom")
# A run that diverged would diverge again; the others may have met a bug since fixed, or a limit since raised.
WORTH_RETRYING: tuple[Status, ...] = ("failed", "timeout", "oom")
OUTCOMES: tuple[Status, ...] = ("done", *FAILURES)
_EMPTY_LOG_EVERY = 0.5
_DIGESTED = ("run_id", "spec", "status", "result", "reason")


_TEXT, _TABLE, _TIME = ((str, NoneType), "a text"), ((dict, NoneType), "a table"), ((int, float, NoneType), "a time")
_KINDS: dict[str, tuple[tuple[type, ...], str]] = {
    "run_id": ((str,), "a text"), "spec": ((dict,), "a table"), "attempts": ((int,), "a whole number"),
    "losses": ((int,), "a whole number"), "result": _TABLE, "reason": _TEXT, "traceback": _TEXT, "started": _TIME,
    "finished": _TIME, "seconds": ((int, float), "a number"), "progress": _TABLE, "versions": _TABLE,
    "machine": _TABLE, "checkpoint": _TEXT, "checkpoint_sha256": _TEXT,
}  # fmt: skip
"""SQLite keeps whatever is written, whatever a column is declared to be."""


def is_to_do(status: Status | None, *, retry: bool) -> bool:
    """Whether the next sweep trains a run of this status (None: one that the store does not know)."""
    return status not in OUTCOMES or (retry and status in WORTH_RETRYING)


@dataclass(frozen=True, kw_only=True)
class Row:
    """What the store knows about one run."""

    run_id: str
    """Hash of the run's spec."""
    spec: dict[str, Any]
    """The run's spec as plain values."""
    status: Status
    """Where the run stands."""
    attempts: int
    """How often a worker began it."""
    losses: int
    """How often that worker died, since the run was last retried."""
    result: dict[str, Any] | None
    """None until the run is done."""
    reason: str | None
    """Why it failed, in one line."""
    traceback: str | None
    """Where it failed."""
    started: float | None
    """When the last attempt began, in seconds since 1970."""
    finished: float | None
    """When it last had an outcome, in seconds since 1970."""
    seconds: float
    """At work, all attempts together."""
    progress: dict[str, Any] | None
    """The last report of a worker."""
    versions: dict[str, str] | None
    """The software of the last attempt."""
    machine: dict[str, Any] | None
    """The hardware of the last attempt."""
    checkpoint: str | None
    """Path of the last one, relative to the store where it lies inside."""
    checkpoint_sha256: str | None
    """Hash of its last checkpoint."""


class StoreReader:
    """A store as anyone may look at it, also while a driver works on it."""

    def __init__(self, directory: Path, connection: sqlite3.Connection) -> None:
        self.directory = directory
        self.path = database_file(directory)
        self._db = connection

    def counts(self) -> dict[Status, int]:
        """How many runs there are of each status, zeros included."""
        with errors_named(self.path):
            found = dict(self._db.execute("SELECT status, count(*) FROM runs GROUP BY status"))
        self._check_statuses(found)
        return {status: found.get(status, 0) for status in STATUSES}

    def statuses(self) -> dict[str, Status]:
        """The status of every run by its id."""
        with errors_named(self.path):
            found = dict(self._db.execute("SELECT run_id, status FROM runs ORDER BY position"))
        self._check_statuses(found.values())
        return found

    def rows(self, *statuses: Status) -> Iterator[Row]:
        """The runs of the given statuses (default: all), in the order they were planned, each checked."""
        columns = [*Row.__dataclass_fields__, "digest"]
        chosen = f"WHERE status IN ({', '.join('?' * len(statuses))})" if statuses else ""
        with errors_named(self.path):
            found = self._db.execute(f"SELECT {', '.join(columns)} FROM runs {chosen} ORDER BY position", statuses)
            for values in found:
                yield self._row(dict(zip(columns, values, strict=True)))

    def check_results(self) -> None:
        """Raise ``CorruptStoreError`` for a result that is not what was written; much cheaper than reading the rows."""
        columns = [*_DIGESTED, "digest"]
        with errors_named(self.path):
            for values in self._db.execute(f"SELECT {', '.join(columns)} FROM runs WHERE status = 'done'"):
                self._check_digest(dict(zip(columns, values, strict=True)))

    def close(self) -> None:
        """Let go of the file."""
        self._db.close()

    def __enter__(self) -> StoreReader:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _row(self, values: dict[str, Any]) -> Row:
        self._check_statuses([values["status"]])
        self._check_digest(values)
        del values["digest"]
        for name in ("spec", "result", "progress", "versions", "machine"):
            values[name] = None if values[name] is None else self._parsed(name, values)
        for name, (kinds, wanted) in _KINDS.items():
            if not isinstance(values[name], kinds):
                raise CorruptStoreError(
                    f"{self.path}: {name} of run {values['run_id']!r:.80}: expected {wanted}, got {values[name]!r:.80}"
                )
        return Row(**values)

    def _check_digest(self, values: Mapping[str, Any]) -> None:
        if values["status"] in OUTCOMES and values["digest"] != _digest(values):
            raise CorruptStoreError(
                f"{self.path}: the row of run {values['run_id']!r} is not what was written (its digest disagrees); "
                f"restore the file from a backup, or delete the row to train the run again"
            )

    def _parsed(self, name: str, values: Mapping[str, Any]) -> Any:
        try:
            return json.loads(values[name], parse_constant=_finite, parse_float=_finite)
        except (ValueError, TypeError, RecursionError):
            raise CorruptStoreError(f"{self.path}: {name} of run {values['run_id']!r} is not JSON any more") from None

    def _check_statuses(self, found: Iterable[str]) -> None:
        for status in found:
            if status not in STATUSES:
                raise CorruptStoreError(f"{self.path}: expected one of {', '.join(STATUSES)}, got status {status!r}")


class Store(StoreReader):
    """A store in the hands of its one driver."""

    def __init__(self, directory: Path, connection: sqlite3.Connection) -> None:
        super().__init__(directory, connection)
        opened = self.path.stat()
        self._file = (opened.st_dev, opened.st_ino)
        self._closed_some = False
        self._empty_log_at = 0.0

    @contextmanager
    def transaction(self) -> Iterator[None]:
        """All changes inside reach the disk together, or none does."""
        self.require_own_file()
        with errors_named(self.path):
            self._db.execute("BEGIN IMMEDIATE")
            try:
                yield
            except BaseException:
                if self._db.in_transaction:
                    self._db.execute("ROLLBACK")
                raise
            self._db.execute("COMMIT")

    def empty_log(self) -> None:
        """Move outcomes out of the write-ahead log, every half second at most: it costs two waits for the disk."""
        if self._closed_some and time.monotonic() >= self._empty_log_at:
            with errors_named(self.path):
                self._closed_some = not empty_log(self._db)
            self._empty_log_at = time.monotonic() + _EMPTY_LOG_EVERY

    def require_own_file(self) -> None:
        """That the path still leads to the file that was opened: SQLite would write on into a deleted one."""
        try:
            found = self.path.stat()
        except OSError:
            found = None
        if found is None or (found.st_dev, found.st_ino) != self._file:
            raise CorruptStoreError(
                f"{self.path}: deleted or replaced while this sweep used it; what it finished since may be lost: put "
                f"the store back, or give the same command again to train what is missing"
            )

    def add(self, runs: Iterable[tuple[str, str]]) -> None:
        """Plan runs, given as (id, spec as JSON). Known ones stay; unfinished ones take the new limits and tags."""
        self._db.executemany(
            "INSERT INTO runs (run_id, spec, planned) VALUES (?, ?, ?) "
            "ON CONFLICT (run_id) DO UPDATE SET spec = excluded.spec WHERE status IN ('pending', 'running')",
            ((run_id, spec, time.time()) for run_id, spec in runs),
        )

    def reopen(self, run_ids: Iterable[str]) -> None:
        """Make failed runs pending again; what they did before stays in ``attempts`` and ``seconds``."""
        for run_id in run_ids:
            changes = "status = 'pending', losses = 0, reason = NULL, traceback = NULL, digest = NULL"
            self._update(run_id, changes)

    def forget_running(self) -> None:
        """What was running is pending: the processes are gone. A transaction of its own."""
        with self.transaction():
            self._db.execute("UPDATE runs SET status = 'pending' WHERE status = 'running'")

    def begin(self, run_id: str, versions: Mapping[str, str], machine: Mapping[str, Any]) -> None:
        """A worker has begun the run."""
        self._update(
            run_id,
            "status = 'running', attempts = attempts + 1, started = ?, versions = ?, machine = ?",
            time.time(),
            json.dumps(versions),
            json.dumps(machine),
        )

    def note_progress(self, run_id: str, values: Mapping[str, Any]) -> None:
        """The run is alive and this far."""
        self._update(run_id, "progress = ?", json.dumps(values))

    def note_checkpoint(self, run_id: str, path: str, sha256: str) -> None:
        """The run has a checkpoint; a path inside the store is kept relative to it, so that stores can move."""
        here = self.directory.absolute()
        kept = str(Path(path).relative_to(here)) if Path(path).is_relative_to(here) else path
        self._update(run_id, "checkpoint = ?, checkpoint_sha256 = ?", kept, sha256)

    def note_earlier_work(self, run_id: str, seconds: float) -> None:
        """The run goes on from a checkpoint after ``seconds`` of work, which a killed driver had no time to count."""
        self._update(run_id, "seconds = max(seconds, ?)", seconds)

    def give_back(self, run_id: str, seconds: float, *, lost: bool = False) -> int:
        """The run is unfinished and pending again; returns how many workers have died on it."""
        self._update(run_id, "status = 'pending', seconds = seconds + ?, losses = losses + ?", seconds, int(lost))
        return int(self._db.execute("SELECT losses FROM runs WHERE run_id = ?", (run_id,)).fetchone()[0])

    def finish(self, run_id: str, result: Mapping[str, Any], seconds: float) -> None:
        """The run is done."""
        self._close(run_id, "done", json.dumps(result, allow_nan=False), None, None, seconds)

    def fail(self, run_id: str, status: Status, reason: str, traceback: str, seconds: float) -> None:
        """The run ended without a result, which is an outcome too."""
        self._close(run_id, status, None, reason, traceback, seconds)

    def checkpoint_dir(self, run_id: str) -> Path:
        """Where the run keeps its checkpoints."""
        return self.directory / "checkpoints" / run_id

    def _close(
        self, run_id: str, status: Status, result: str | None, reason: str | None, log: str | None, seconds: float
    ) -> None:
        (spec,) = self._db.execute("SELECT spec FROM runs WHERE run_id = ?", (run_id,)).fetchone()
        outcome = {"run_id": run_id, "spec": spec, "status": status, "result": result, "reason": reason}
        self._update(
            run_id,
            "status = ?, result = ?, reason = ?, traceback = ?, finished = ?, seconds = seconds + ?, digest = ?",
            *(status, result, reason, log, time.time(), seconds, _digest(outcome)),
        )
        self._closed_some = True

    def _update(self, run_id: str, changes: str, *values: object) -> None:
        changed = self._db.execute(f"UPDATE runs SET {changes} WHERE run_id = ?", (*values, run_id)).rowcount
        assert changed == 1, f"run {run_id} was never planned"


@contextmanager
def open_store(directory: Path) -> Iterator[Store]:
    """The store in ``directory`` as its only driver; made if it is not there, checked if it is."""
    with errors_named(directory):
        directory.mkdir(parents=True, exist_ok=True)
    with driver_lock(directory), closing(connect_to_write(database_file(directory))) as connection:
        store = Store(directory, connection)
        store.forget_running()  # no other driver is alive, so what says "running" was interrupted
        try:
            yield store
        finally:
            with suppress(StorageError, CorruptStoreError):  # the next driver will do it
                store.forget_running()


def read_store(directory: Path) -> StoreReader:
    """The store in ``directory`` for reading."""
    path = database_file(directory)
    if path.exists() and not path.is_file():
        raise CorruptStoreError(f"{path}: expected the store's database, got something that is not a regular file")
    if not path.exists():
        raise InvalidInputError(
            f"{directory}: expected a store, got no {path.name} in it; name another with --store, "
            "or make one: rankwise sweep FILE"
        )
    return StoreReader(directory, connect_to_read(path))


def _digest(values: Mapping[str, Any]) -> str:
    said = [values[name] for name in _DIGESTED]
    return hashlib.sha256(json.dumps(said, default=repr).encode()).hexdigest()  # bytes, where a row was damaged


def _finite(spelt: str) -> float:
    number = float(spelt)
    if not math.isfinite(number):
        raise ValueError(f"expected finite numbers, got {spelt:.60}")
    return number
