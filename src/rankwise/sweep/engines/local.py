"""Runs on this machine: persistent one-thread worker processes, as many as cores, that take jobs in turn.

One thread per worker and one worker per core beats one process with many threads on matrices of this size, and makes a
run's arithmetic independent of how many run beside it. Workers start when there is a job for them, so a sweep of three
runs starts three at most. The driver talks to them in JSON lines over pipes, from one thread.
"""

from __future__ import annotations

import json
import os
import selectors
import signal
import subprocess
import sys
import time
from collections import deque
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from rankwise.errors import EngineError
from rankwise.sweep.engines.engine import (
    TRAIN,
    Blocked,
    Checkpointed,
    Continued,
    Event,
    Failed,
    Finished,
    Job,
    Lost,
    Progress,
    Returned,
    Started,
)

_THREAD_POOLS = ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS", "VECLIB_MAXIMUM_THREADS")
_MAX_STILLBORN = 3
_LOG_TAIL = 4000


@dataclass(eq=False)
class _Worker:
    """One process and what it is doing."""

    process: subprocess.Popen[bytes]
    """The worker's process."""
    log: Path
    """Takes its standard error."""
    hello: dict[str, Any] | None = None
    """Its versions and machine; None until it is ready."""
    job: Job | None = None
    """None between jobs."""
    handed_over: bool = False
    """Whether the process has been sent its job."""
    began: float = 0.0
    """When the job began. This and the deadlines are times of ``time.monotonic``, in seconds."""
    log_start: int = 0
    """Size of the log when the job began, in bytes."""
    soft_deadline: float = float("inf")
    """When to ask it to stop."""
    hard_deadline: float = float("inf")
    """When to kill it."""
    overtime: bool = False
    """The stop was for the job's own time limit."""
    retired: bool = False
    """It gets no further job."""
    unread: bytearray = field(default_factory=bytearray)
    """The beginning of a message whose end has not arrived."""

    @property
    def free(self) -> bool:
        return self.hello is not None and self.job is None and not self.retired

    def send(self, message: dict[str, Any]) -> bool:
        """Whether the process was there to take the message."""
        assert self.process.stdin is not None
        try:
            self.process.stdin.write(json.dumps(message).encode() + b"\n")
            self.process.stdin.flush()
        except OSError:
            return False
        return True

    def log_tail(self) -> str:
        """The end of what the process printed during its present job."""
        with suppress(OSError), self.log.open("rb") as file:
            size = file.seek(0, os.SEEK_END)
            file.seek(max(self.log_start, size - _LOG_TAIL))
            return file.read().decode(errors="replace")
        return ""


class LocalEngine:
    """``workers`` processes that call ``entry``; see ``protocol.Engine``.

    ``log_dir`` takes one log file per worker. ``memory_limit`` in bytes bounds each worker's address space, so that a
    greedy run fails alone. ``grace`` is how long a run may take to checkpoint once asked to stop.
    """

    def __init__(
        self,
        log_dir: Path,
        *,
        entry: str = TRAIN,
        workers: int | None = None,
        memory_limit: int | None = None,
        grace: float = 8.0,
    ) -> None:
        self._entry = entry
        self._size = workers or usable_cores()
        self._log_dir = log_dir
        self._memory_limit = memory_limit
        self._grace = grace
        self._workers: dict[int, _Worker] = {}  # by seat, 0 to size - 1
        self._waiting: deque[Job] = deque()
        self._selector = selectors.DefaultSelector()
        self._events: list[Event] = []
        self._told: set[str] = set()  # runs whose Started the driver has, and that no worker has yet
        self._stopping = False
        self._stillborn = 0
        self._used_seats: set[int] = set()

    @property
    def slots(self) -> int:
        """One job at work and one waiting for every worker, so that none idles while the driver writes."""
        return 2 * self._size

    def submit(self, job: Job) -> None:
        """Take a job, starting a worker for it if all are busy and there is a seat."""
        if self._stopping:
            raise EngineError("the engine has been asked to stop and takes no more runs")
        self._waiting.append(job)
        self._assign()

    def events(self, timeout: float) -> list[Event]:
        """What happened since the last call, which the driver has noted; waits up to ``timeout`` seconds for more."""
        self._hand_over()
        self._wait(0.0 if self._events else timeout)
        self._keep_deadlines()
        self._assign()
        events, self._events = self._events, []
        self._told.update(event.run_id for event in events if isinstance(event, Started))
        return events

    def stop(self) -> None:
        """Give back what has not started; ask the rest to checkpoint and stop, and kill it after the grace period."""
        self._stopping = True
        self._hand_over()  # what was noted begins, and stops at its first look
        for worker in self._workers.values():
            if worker.job is not None and not worker.handed_over:
                self._waiting.append(worker.job)
                worker.job = None
        unstarted = {job.run_id for job in self._waiting}
        self._events = [event for event in self._events if event.run_id not in unstarted]
        self._events += [Returned(run_id=job.run_id, seconds=0.0) for job in self._waiting]
        self._waiting.clear()
        for worker in self._workers.values():
            if worker.job is not None and not worker.overtime:
                self._ask_to_stop(worker)

    def close(self) -> None:
        """Kill every worker and wait until it is gone."""
        for worker in self._workers.values():
            worker.process.kill()
        for seat in list(self._workers):
            self._bury(seat)
        self._selector.close()

    def _wait(self, timeout: float) -> None:
        now = time.monotonic()
        deadlines = [min(w.soft_deadline, w.hard_deadline) for w in self._workers.values() if w.handed_over]
        until = min([now + timeout, *deadlines])
        for key, _ in self._selector.select(max(0.0, until - now)):
            self._receive(key.data)

    def _assign(self) -> None:
        """Hand waiting jobs to free workers, and start workers for the others while there are seats."""
        for worker in self._workers.values():
            if not self._waiting:
                return
            if worker.free:
                self._announce(worker, self._waiting.popleft())
        starting = sum(worker.hello is None for worker in self._workers.values())
        for seat in range(self._size):
            if starting >= len(self._waiting):
                return
            if seat not in self._workers:
                self._start(seat)
                starting += 1

    def _start(self, seat: int) -> None:
        log = self._log_dir / f"worker-{seat}.log"
        command = [sys.executable, "-P", "-X", "faulthandler", "-m", "rankwise.sweep.engines.worker"]
        command += [self._entry, str(os.getpid())]
        command += [str(self._memory_limit)] if self._memory_limit else []
        paths = os.pathsep.join(path or str(Path.cwd()) for path in sys.path)
        try:
            self._log_dir.mkdir(parents=True, exist_ok=True)
            with log.open("ab" if seat in self._used_seats else "wb") as out:
                process = subprocess.Popen(
                    command,
                    stdin=subprocess.PIPE,
                    stdout=subprocess.PIPE,
                    stderr=out,
                    env=os.environ | dict.fromkeys(_THREAD_POOLS, "1") | {"PYTHONPATH": paths},
                    start_new_session=True,  # the terminal's Ctrl-C reaches the driver alone
                )
        except OSError as error:
            raise EngineError(f"{error.filename or log}: cannot start a worker: {error.strerror}") from None
        assert process.stdout is not None
        self._used_seats.add(seat)
        self._workers[seat] = _Worker(process, log)
        self._selector.register(process.stdout, selectors.EVENT_READ, seat)

    def _announce(self, worker: _Worker, job: Job) -> None:
        """Give the job to ``worker``, which gets it when the driver knows."""
        assert worker.hello is not None
        worker.job, worker.handed_over = job, False
        if job.run_id not in self._told:  # another worker may have died with it in its hands, before it began
            self._events.append(
                Started(run_id=job.run_id, versions=worker.hello["versions"], machine=worker.hello["machine"])
            )

    def _hand_over(self) -> None:
        for worker in self._workers.values():
            if worker.job is not None and not worker.handed_over and worker.job.run_id in self._told:
                self._begin(worker, worker.job)

    def _begin(self, worker: _Worker, job: Job) -> None:
        with suppress(OSError):
            worker.log_start = worker.log.stat().st_size
        message = {"run_id": job.run_id, "spec": job.spec, "checkpoint_dir": str(job.checkpoint_dir)}
        if not worker.send({"run": message}):
            worker.job, worker.retired = None, True  # it died idle: its end is being read, the job is none the worse
            self._waiting.appendleft(job)
            return
        self._told.discard(job.run_id)
        worker.handed_over, worker.began = True, time.monotonic()
        worker.soft_deadline = worker.began + (job.time_limit or float("inf"))
        worker.hard_deadline, worker.overtime = float("inf"), False

    def _receive(self, seat: int) -> None:
        worker = self._workers[seat]
        assert worker.process.stdout is not None
        chunk = os.read(worker.process.stdout.fileno(), 1 << 20)
        if not chunk:
            self._ended(seat)
            return
        worker.unread += chunk
        if b"\n" not in chunk:
            return
        *lines, rest = worker.unread.split(b"\n")
        worker.unread = rest
        for line in lines:
            try:
                message = json.loads(line)
            except ValueError:
                worker.process.kill()  # something in it writes where only messages belong: its run is lost
                return
            self._heard(worker, message)

    def _heard(self, worker: _Worker, message: dict[str, Any]) -> None:
        kind = message.pop("type")
        if kind == "ready":
            worker.hello = message
            self._stillborn = 0
        elif kind == "broken":
            raise EngineError(f"{self._entry}: the entry point does not load: {message['reason']}\n{message['log']}")
        elif kind == "progress":
            self._events.append(Progress(**message))
        elif kind == "checkpointed":
            self._events.append(Checkpointed(**message))
        elif kind == "continued":
            self._events.append(Continued(**message))
        else:
            self._closed(worker, kind, message)

    def _closed(self, worker: _Worker, kind: str, message: dict[str, Any]) -> None:
        """The job said its last word."""
        job = worker.job
        assert job is not None
        assert job.run_id == message["run_id"]
        if kind == "finished":
            self._events.append(Finished(**message))
        elif kind == "failed":
            self._events.append(Failed(**message))
            worker.retired = message["status"] == "oom"  # it leaves by itself
        elif kind == "blocked":
            self._events.append(Blocked(run_id=job.run_id, reason=message["reason"]))
        elif worker.overtime:
            self._events.append(_timeout(job, message["seconds"]))
        else:
            self._events.append(Returned(**message))
        worker.job, worker.handed_over = None, False

    def _ended(self, seat: int) -> None:
        """The process is gone, expectedly or not."""
        worker = self._workers[seat]
        worker.process.kill()  # in case it only closed its output
        self._bury(seat)
        job = worker.job
        if job is not None and not worker.handed_over:  # the job is none the worse
            self._events = [event for event in self._events if event.run_id != job.run_id]
            self._waiting.appendleft(job)
            return
        if job is None:
            if worker.hello is None:
                self._count_stillborn(worker)
            return
        seconds = time.monotonic() - worker.began
        if worker.overtime:
            self._events.append(_timeout(job, seconds))
        elif worker.hard_deadline < float("inf"):
            self._events.append(Returned(run_id=job.run_id, seconds=seconds))
        else:
            reason = _death(worker.process.returncode)
            self._events.append(Lost(run_id=job.run_id, reason=reason, log=worker.log_tail(), seconds=seconds))

    def _bury(self, seat: int) -> None:
        worker = self._workers.pop(seat)
        assert worker.process.stdout is not None
        assert worker.process.stdin is not None
        self._selector.unregister(worker.process.stdout)
        worker.process.wait()
        worker.process.stdout.close()
        with suppress(OSError):
            worker.process.stdin.close()

    def _count_stillborn(self, worker: _Worker) -> None:
        self._stillborn += 1
        if self._stillborn >= _MAX_STILLBORN:
            reason = _death(worker.process.returncode)
            raise EngineError(
                f"{self._stillborn} workers in a row died before their first run: {reason}; "
                f"the end of {worker.log}:\n{worker.log_tail()}"
            )

    def _ask_to_stop(self, worker: _Worker) -> None:
        assert worker.job is not None
        worker.soft_deadline = float("inf")
        worker.hard_deadline = time.monotonic() + self._grace
        worker.send({"stop": worker.job.run_id})

    def _keep_deadlines(self) -> None:
        now = time.monotonic()
        for worker in self._workers.values():
            if not worker.handed_over:
                continue
            if now >= worker.hard_deadline:
                worker.process.kill()
            elif now >= worker.soft_deadline:
                worker.overtime = True
                self._ask_to_stop(worker)


def usable_cores() -> int:
    """How many cores this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def _timeout(job: Job, seconds: float) -> Failed:
    reason = f"still running after its time limit of {job.time_limit:g} s"
    return Failed(run_id=job.run_id, status="timeout", reason=reason, traceback="", seconds=seconds)


def _death(code: int) -> str:
    """What a return code says about the end of a process."""
    if code >= 0:
        return f"the worker left with exit code {code}"
    with suppress(ValueError):
        name = signal.Signals(-code).name
        hint = " (killed by hand, or by the system for want of memory)" if name == "SIGKILL" else ""
        return f"the worker was ended by {name}{hint}"
    return f"the worker was ended by signal {-code}"
