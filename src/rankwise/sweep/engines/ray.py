"""Runs on a Ray cluster: every job is a Ray task that hosts the local engine's worker process (``ray_host``).

Without an address a Ray of this process's own is started, which listens on the loopback interface alone and ends with
the driver. With one, the driver joins that cluster; a connection that this process already has is used and left open.

Only bytes cross: JSON both ways, and checkpoints (safetensors) where workers do not see the driver's directory, which
each finds out by looking for a marker file. Ray passes bytes on as they are; its pickles hold nothing but the import
path of ``ray_host``. Ray is told to retry nothing: a lost worker or node is a ``Lost`` job, the driver's to count.
"""

from __future__ import annotations

import importlib.util
import math
import os
import secrets
import shutil
import time
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rankwise import __version__
from rankwise.errors import EngineError, MissingExtraError
from rankwise.sweep.engines.engine import (
    CLOSING,
    TRAIN,
    Blocked,
    Checkpointed,
    Event,
    Failed,
    Job,
    Lost,
    Returned,
    Started,
)
from rankwise.sweep.engines.local import usable_cores
from rankwise.sweep.engines.ray_head import RayHead, abandon, kill_own_processes, within
from rankwise.sweep.engines.ray_library import (
    death,
    import_ray,
    join_ray,
    keep_stdout_clean,
    signal_handlers_kept,
    start_ray,
)
from rankwise.sweep.engines.session_folder import hold_session_folder, session_folder
from rankwise.sweep.engines.wire import accept_checkpoint, checkpoint_files, decode, decode_events, encode

_FORCE_AFTER = 4.0  # seconds beyond the grace period, for messages on their way
_FAREWELL = 5.0


@dataclass(eq=False)
class _Task:
    """A job, the stream of its messages, and how far it is."""

    job: Job
    stream: Any  # ray.ObjectRefGenerator
    began: float | None = None  # when its Started was heard
    deadline: float = float("inf")  # when to use force

    @property
    def seconds(self) -> float:
        return 0.0 if self.began is None else time.monotonic() - self.began


class RayEngine:
    """``cpus`` and ``gpus`` (fractions allowed) reserved for every run; see ``protocol.Engine``.

    ``workers`` bounds how many runs are at work at a time. ``memory_limit`` and ``grace`` are those of ``LocalEngine``.
    ``patience`` is how long to wait for a node that is large enough for a run. ``share=False`` sends checkpoints to the
    driver even where its directory can be seen.
    """

    def __init__(
        self,
        log_dir: Path,
        *,
        entry: str = TRAIN,
        address: str | None = None,
        cpus: float = 1.0,
        gpus: float = 0.0,
        workers: int | None = None,
        memory_limit: int | None = None,
        grace: float = 8.0,
        patience: float = 60.0,
        share: bool = True,
    ) -> None:
        if importlib.util.find_spec("ray") is None:
            raise MissingExtraError("ray", "--engine ray")
        self._log_dir = log_dir
        self._entry = entry
        self._address = address
        self._cpus, self._gpus = cpus, gpus
        self._limit = workers
        self._memory_limit = memory_limit
        self._grace = grace
        self._patience = patience
        self._share = share
        self._session = secrets.token_hex(8)
        self._ray: Any = None
        self._owns_ray = False
        self._folder: int | None = None
        self._head: RayHead | None = None
        self._bell: Any = None
        self._remote: Any = None
        self._marker: Path | None = None
        self._tasks: dict[Any, _Task] = {}  # by stream
        self._dropped: list[Any] = []  # streams of workers that are being killed
        self._events: list[Event] = []
        self._stopping = False
        self._stillborn = 0
        self._seats = 0
        self._too_small_since: float | None = None

    @property
    def slots(self) -> int:
        """One job at work and one waiting for every seat of the cluster, or ``workers`` if that is less."""
        self._connect()
        self._look_at_nodes()
        wanted = 2 * max(1, self._seats)
        # A job that waits begins as soon as there is a seat. Seats bound the runs at work only in a Ray of our own, and
        # not where it has more of them than workers, its CPUs being whole and those of a run a fraction.
        seats_bound = self._started_here and self._limit == self._seats
        return wanted if self._limit is None or seats_bound else min(self._limit, wanted)

    @property
    def _started_here(self) -> bool:
        """Whether the cluster is a Ray of this engine's own, which does not grow."""
        return self._owns_ray and self._address is None

    def submit(self, job: Job) -> None:
        """Hand a job to the cluster, with the checkpoint it continues from if workers may not see it."""
        if self._stopping:
            raise EngineError("the engine has been asked to stop and takes no more runs")
        self._connect()
        self._launch(job)

    def events(self, timeout: float) -> list[Event]:
        """What happened since the last call; waits up to ``timeout`` seconds if nothing did."""
        if self._tasks:
            self._hear_all(0.0 if self._events else timeout)
            self._keep_deadlines()
            self._look_at_nodes()
        elif not self._events:
            time.sleep(timeout)
        events, self._events = self._events, []
        return events

    def stop(self) -> None:
        """Give back what has not started; ask the rest to checkpoint and stop, and use force after the grace period."""
        self._stopping = True
        if self._bell is not None:
            self._bell.ring.remote()
        for task in list(self._tasks.values()):
            if task.began is None:
                self._drop(task)
                self._events.append(Returned(run_id=task.job.run_id, seconds=0.0))
            else:
                task.deadline = time.monotonic() + self._grace + _FORCE_AFTER

    def close(self) -> None:
        """End every job and wait until its worker is gone; end the Ray that this engine has started."""
        if self._ray is None:
            return
        answers = self._head is None or self._head.answers
        if answers:
            answers = within(2 * _FAREWELL, self._end_jobs)
        else:
            within(1.0, self._drop_all)
        if self._head is not None:
            self._head.end()
        if self._owns_ray:
            if self._started_here and not answers:
                within(_FAREWELL, lambda: kill_own_processes(self._ray))
            if not within(_FAREWELL if not (answers or self._started_here) else 4 * _FAREWELL, self._ray.shutdown):
                abandon(self._ray)
        if self._folder is not None:
            os.close(self._folder)
            if self._started_here:
                shutil.rmtree(session_folder(self._session), ignore_errors=True)
        if self._marker is not None:
            with suppress(OSError):
                self._marker.unlink(missing_ok=True)
        self._ray = None

    def _end_jobs(self) -> None:
        self._drop_all()
        self._await_end(self._dropped, _FAREWELL)
        self._ray.get(self._bell.ring.remote(), timeout=_FAREWELL)
        self._ray.kill(self._bell)

    def _drop_all(self) -> None:
        for task in list(self._tasks.values()):
            self._drop(task)

    def _connect(self) -> None:
        if self._ray is not None:
            return
        ray = import_ray(own=self._address is None)
        if not ray.is_initialized():
            with signal_handlers_kept():
                self._start(ray)
        from rankwise.sweep.engines import ray_host

        self._ray, self._head = ray, RayHead(ray)
        name = f"rankwise-bell-{self._session}"
        forever = {"max_restarts": -1, "max_concurrency": 100_000}
        self._bell = ray.remote(ray_host.Bell).options(name=name, num_cpus=0, **forever).remote()
        options = {"num_cpus": self._cpus, "num_gpus": self._gpus, "max_retries": 0, "num_returns": "streaming"}
        self._remote = ray.remote(ray_host.host).options(**options)
        if self._share:
            self._marker = self._log_dir / f"seen-{self._session}"
            try:
                self._log_dir.mkdir(parents=True, exist_ok=True)
                for old in self._log_dir.glob("seen-*"):
                    old.unlink()
                self._marker.touch()
            except OSError as error:
                raise EngineError(f"{error.filename or self._log_dir}: cannot be written: {error.strerror}") from None
        self._look_at_nodes()

    def _start(self, ray: Any) -> None:
        try:
            if self._address is not None:
                join_ray(ray, self._address)
                return
            self._folder = hold_session_folder(self._session)
            cpus = math.ceil((self._limit or usable_cores()) * self._cpus)
            start_ray(ray, session_folder(self._session), cpus=cpus)
        finally:
            self._owns_ray = ray.is_initialized()
            keep_stdout_clean(ray)

    def _launch(self, job: Job) -> None:
        files: dict[str, bytes] = {}
        if self._address is not None or not self._share:
            files = checkpoint_files(job.checkpoint_dir)
        order = {
            "session": self._session,
            "rankwise": __version__,
            "bell": f"rankwise-bell-{self._session}",
            "marker": None if self._marker is None else str(self._marker.absolute()),
            "entry": self._entry,
            "memory_limit": self._memory_limit,
            "grace": self._grace,
            "run_id": job.run_id,
            "spec": job.spec,
            "checkpoint_dir": str(job.checkpoint_dir.absolute()),
            "time_limit": job.time_limit,
            "files": list(files),
        }
        stream = self._remote.remote(encode(order), *files.values())
        self._tasks[stream] = _Task(job, stream)

    def _hear_all(self, timeout: float) -> None:
        streams = list(self._tasks)
        self._ray.wait(streams, num_returns=1, timeout=timeout)
        ready, _ = self._ray.wait(streams, num_returns=len(streams), timeout=0)
        for stream in ready:
            task = self._tasks[stream]
            try:
                self._hear(task)
            except StopIteration:
                self._ended(task, "the Ray task ended without a word")
            except self._ray.exceptions.RayTaskError as error:
                raise EngineError(f"a worker of the Ray cluster cannot host runs: {error}") from None
            except self._ray.exceptions.RayError as error:
                self._ended(task, death(error))

    def _hear(self, task: _Task) -> None:
        """The next message of a task, and the files that belong to it."""
        message = self._ray.get(next(task.stream))
        try:
            broken = decode(message).get("broken")
            events, names = ([], []) if broken is not None else decode_events(message)
            if any(event.run_id != task.job.run_id for event in events):
                raise ValueError("it speaks of another run")
        except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
            self._drop(task)
            reason = f"expected events of this run from its worker, got a message that is none: {error!s:.200}"
            self._events.append(
                Failed(run_id=task.job.run_id, status="failed", reason=reason, traceback="", seconds=task.seconds)
            )
            return
        if broken is not None:
            raise EngineError(str(broken)[:2000])
        files = {name: self._ray.get(next(task.stream)) for name in names}
        for event in events:
            if isinstance(event, Started):
                task.began = time.monotonic()
                task.deadline = self._last_resort(task)
                self._stillborn = 0
            if isinstance(event, Checkpointed) and files:
                kept = self._keep(task, event, files)
                if kept is not None:
                    self._events.append(kept)
                continue
            self._events.append(event)
            if isinstance(event, CLOSING):
                self._tasks.pop(task.stream, None)

    def _keep(self, task: _Task, event: Checkpointed, files: dict[str, bytes]) -> Checkpointed | Blocked | None:
        """The checkpoint that came with ``event``, on this side's disk; a disk that refuses blocks the job."""
        ((name, data),) = files.items()
        try:
            return accept_checkpoint(task.job.checkpoint_dir, name, data, event)
        except OSError as error:
            self._drop(task)
            return Blocked(run_id=event.run_id, reason=f"{error.filename or task.job.checkpoint_dir}: {error.strerror}")

    def _ended(self, task: _Task, reason: str) -> None:
        """The Ray worker or its node is gone, and the job's own process with it."""
        del self._tasks[task.stream]
        job = task.job
        if self._stopping:
            self._events.append(Returned(run_id=job.run_id, seconds=task.seconds))
        elif task.began is not None:
            self._events.append(Lost(run_id=job.run_id, reason=reason, log="", seconds=task.seconds))
        else:  # the job had not begun: nothing of it is lost
            self._stillborn += 1
            if self._stillborn > 3 + self._seats:
                raise EngineError(f"{self._stillborn} Ray workers in a row died before their first run: {reason}")
            self._launch(job)

    def _last_resort(self, task: _Task) -> float:
        """The worker keeps the time limit; this is for one that cannot be heard any more."""
        limit = task.job.time_limit
        return float("inf") if limit is None else time.monotonic() + limit + self._grace + 3 * _FORCE_AFTER

    def _keep_deadlines(self) -> None:
        now = time.monotonic()
        for task in list(self._tasks.values()):
            if now < task.deadline:
                continue
            self._drop(task)
            run_id, seconds = task.job.run_id, task.seconds
            if self._stopping:
                self._events.append(Returned(run_id=run_id, seconds=seconds))
            else:
                reason = f"still running after its time limit of {task.job.time_limit:g} s"
                failed = Failed(run_id=run_id, status="timeout", reason=reason, traceback="", seconds=seconds)
                self._events.append(failed)

    def _drop(self, task: _Task) -> None:
        """Forget a task and have its worker killed, or never started."""
        self._tasks.pop(task.stream, None)
        self._dropped.append(task.stream)
        self._ray.cancel(task.stream, force=True)

    def _await_end(self, streams: list[Any], seconds: float) -> None:
        until = time.monotonic() + seconds
        while streams and time.monotonic() < until:
            ready, _ = self._ray.wait(streams, num_returns=len(streams), timeout=0.1)
            for stream in ready:
                try:
                    self._ray.get(next(stream))
                except (StopIteration, self._ray.exceptions.RayError):
                    streams.remove(stream)

    def _look_at_nodes(self) -> None:
        """How many runs the cluster can hold; raises if there is no node for even one, and none comes."""
        assert self._head is not None
        now, sizes = time.monotonic(), self._head.sizes()
        self._seats = sum(self._fitting(size) for size in sizes)
        if self._seats:
            self._too_small_since = None
            return
        self._too_small_since = self._too_small_since or now
        if now - self._too_small_since >= (0.0 if self._started_here else self._patience):
            nodes = "; ".join(f"{size.get('CPU', 0):g} CPUs, {size.get('GPU', 0):g} GPUs" for size in sizes) or "none"
            raise EngineError(
                f"expected a Ray node with {self._cpus:g} CPUs and {self._gpus:g} GPUs for a run, got nodes with "
                f"{nodes}; ask for less with --cpus and --gpus, or add a node: the same command continues"
            )

    def _fitting(self, size: dict[str, float]) -> int:
        wanted = {"CPU": self._cpus, "GPU": self._gpus}
        return min(math.floor(size.get(name, 0.0) / amount + 1e-9) for name, amount in wanted.items() if amount)
