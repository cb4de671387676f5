"""What runs on a Ray worker: one job in a local engine of one worker process, its events as bytes.

The job is not executed by the Ray worker itself but by the same process that executes it on a laptop
(``rankwise.sweep.engines.worker``), so that arithmetic, threads, time limits, memory limits and the words for a death
are the same. That process outlives its job, for the next one, and dies with the Ray worker.
"""

from __future__ import annotations

import asyncio
import os
import shutil
from collections.abc import Iterator
from concurrent.futures import Future
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import ray

from rankwise import __version__
from rankwise.errors import EngineError
from rankwise.sweep.engines.engine import CLOSING, Checkpointed, Event, Job
from rankwise.sweep.engines.local import LocalEngine
from rankwise.sweep.engines.session_folder import hold_session_folder, session_folder
from rankwise.sweep.engines.wire import CHECKPOINT_SUFFIX, decode, encode, encode_events

_TICK = 0.2


class Bell:
    """Rings once, for everyone who waits: the driver asks all jobs to stop."""

    def __init__(self) -> None:
        self._rung = asyncio.Event()

    async def rung(self) -> bytes:
        """Returns when the bell has been rung."""
        await self._rung.wait()
        return b"rung"

    async def pid(self) -> bytes:
        """The process the bell hangs in."""
        return str(os.getpid()).encode()

    async def ring(self) -> bytes:
        """Wake everyone who waits, and all who will."""
        self._rung.set()
        return b"rung"


@dataclass(eq=False)
class _Seat:
    """A local engine kept between the jobs that this Ray worker gets, and the pending answer of the bell."""

    key: tuple[object, ...]
    engine: LocalEngine
    bell: str
    answer: Future[bytes] | None = None

    def asked_to_stop(self) -> bool:
        """Never waits: a task that waits for Ray lends its CPU to another, and two runs would share a core."""
        try:
            if self.answer is None:
                self.answer = ray.get_actor(self.bell).rung.remote().future()
            return self.answer.done() and self.answer.result() == b"rung"
        except (ray.exceptions.RayError, ValueError):
            self.answer = None  # the bell's process died, and Ray makes a new one; or the driver is gone
            return False


_seat: _Seat | None = None
_held: tuple[str, int] | None = None


def host(message: bytes, *files: bytes) -> Iterator[bytes]:
    """Execute the job that ``message`` describes; yields events, and checkpoints where the driver cannot see them."""
    order = decode(message)
    if order["rankwise"] != __version__:
        yield encode({"broken": f"the driver has rankwise {order['rankwise']}, this node has {__version__}"})
        return
    here = session_folder(order["session"])
    _hold(order["session"])
    shared = order["marker"] is not None and Path(order["marker"]).exists()
    directory = Path(order["checkpoint_dir"]) if shared else here / "checkpoints" / order["run_id"]
    if not shared:
        directory.mkdir(parents=True, exist_ok=True)
        for name, data in zip(order["files"], files, strict=True):
            (directory / Path(name).name).write_bytes(data)
    job = Job(run_id=order["run_id"], spec=order["spec"], checkpoint_dir=directory, time_limit=order["time_limit"])
    try:
        for events in _execute(_seat_for(order, here), job):
            yield from _told(events, shared)
    except EngineError as error:
        yield encode({"broken": str(error)})
    finally:
        if not shared:
            shutil.rmtree(directory, ignore_errors=True)


def _hold(session: str) -> None:
    """Hold the session's folder on this node, and no longer that of the session before."""
    global _held
    if _held is not None and _held[0] == session:
        return
    if _held is not None:
        os.close(_held[1])
    _held = (session, hold_session_folder(session))


def _seat_for(order: dict[str, Any], here: Path) -> _Seat:
    """The seat of the last job if this one may use it, otherwise a new one."""
    global _seat
    limits = (order["entry"], order["memory_limit"], order["grace"])
    key = (order["session"], *limits, os.environ.get("CUDA_VISIBLE_DEVICES"))
    if _seat is not None and _seat.key == key:
        return _seat
    if _seat is not None:
        _seat.engine.close()
    entry, memory_limit, grace = limits
    engine = LocalEngine(here / str(os.getpid()), entry=entry, workers=1, memory_limit=memory_limit, grace=grace)
    _seat = _Seat(key, engine, order["bell"])
    return _seat


def _execute(seat: _Seat, job: Job) -> Iterator[list[Event]]:
    global _seat
    seat.engine.submit(job)
    stopping = False
    while True:
        events = seat.engine.events(_TICK)
        if events:
            yield events
        if any(isinstance(event, CLOSING) for event in events):
            break
        if not stopping and seat.asked_to_stop():
            stopping = True
            seat.engine.stop()
    if stopping:  # a stopped engine takes no more jobs
        seat.engine.close()
        _seat = None


def _told(events: list[Event], shared: bool) -> Iterator[bytes]:
    """``events`` as messages, each checkpoint followed by its bytes unless the driver shares the directory."""
    told: list[Event] = []
    for event in events:
        if shared or not isinstance(event, Checkpointed):
            told.append(event)
            continue
        path = Path(event.path)
        if path.suffix == CHECKPOINT_SUFFIX and path.exists():  # a newer one may have replaced it already
            data = path.read_bytes()
            yield encode_events([*told, event], [path.name])
            yield data
            told = []
    if told:
        yield encode_events(told)
