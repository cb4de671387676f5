"""What an engine is: jobs go in as JSON, events come out; nothing else crosses, never a closure or a pickle.

The driver submits at most ``slots`` jobs at a time and asks for events in a loop. An engine promises:

- a job begins only after its ``Started`` was told and events were asked for again, when the driver has noted it: what
  the store counts as attempts is never less than what workers have begun (on Ray a job begins when a worker takes it,
  and the driver hears of it then);
- every submitted job gets exactly one closing event (``Finished``, ``Failed``, ``Blocked``, ``Returned``, ``Lost``),
  also after ``stop``, whatever happens to the processes that run it;
- a job runs in a process of its own time: its crash, hang or appetite for memory closes that job and no other;
- ``time_limit`` is kept by the engine, not trusted to the job;
- no process of the engine outlives the driver, even one killed with SIGKILL.

Engines do not retry. A ``Lost`` job is the driver's to count and to submit again; the entry point (see
``rankwise.train.contract``) then continues from its checkpoint.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, Protocol

# The real training. Engines import it by name inside their workers, so the driver never loads torch.
TRAIN = "rankwise.train.loop:run_entry"


@dataclass(frozen=True, kw_only=True)
class Job:
    """One run to execute: ``entry(spec, context)`` with checkpoints in ``checkpoint_dir``."""

    run_id: str
    spec: Mapping[str, Any]
    checkpoint_dir: Path
    time_limit: float | None = None


@dataclass(frozen=True, kw_only=True)
class Started:
    """A worker is about to begin the job; ``versions`` and ``machine`` say which software and hardware it is."""

    run_id: str
    versions: Mapping[str, str]
    machine: Mapping[str, Any]


@dataclass(frozen=True, kw_only=True)
class Progress:
    """The latest thing the job reported: step, of, error."""

    run_id: str
    values: Mapping[str, Any]


@dataclass(frozen=True, kw_only=True)
class Checkpointed:
    """A checkpoint is on disk."""

    run_id: str
    path: str
    sha256: str
    step: int


@dataclass(frozen=True, kw_only=True)
class Continued:
    """The job goes on from a checkpoint that took earlier attempts ``seconds`` of work."""

    run_id: str
    seconds: float


@dataclass(frozen=True, kw_only=True)
class Finished:
    """The entry point returned ``result``."""

    run_id: str
    result: Mapping[str, Any]
    seconds: float


@dataclass(frozen=True, kw_only=True)
class Failed:
    """The run has an outcome that is not a result; it is data, and not retried."""

    run_id: str
    status: Literal["failed", "diverged", "timeout", "oom"]
    reason: str
    traceback: str
    seconds: float


@dataclass(frozen=True, kw_only=True)
class Blocked:
    """The disk refuses: not this run's fault, and every other run will meet it too."""

    run_id: str
    reason: str


@dataclass(frozen=True, kw_only=True)
class Returned:
    """Stopped on request, unfinished; also a job that had not started yet."""

    run_id: str
    seconds: float


@dataclass(frozen=True, kw_only=True)
class Lost:
    """The process that ran the job is gone; ``log`` is the end of what it wrote."""

    run_id: str
    reason: str
    log: str
    seconds: float


# After one of these nothing more is heard of a job.
CLOSING = (Finished, Failed, Blocked, Returned, Lost)

Event = Started | Progress | Checkpointed | Continued | Finished | Failed | Blocked | Returned | Lost


class Engine(Protocol):
    """Something that executes jobs. Used from one thread."""

    @property
    def slots(self) -> int:
        """How many jobs to keep submitted: enough to keep every worker busy, few enough not to fill memory."""

    def submit(self, job: Job) -> None:
        """Take a job. Not after ``stop``."""

    def events(self, timeout: float) -> list[Event]:
        """What happened, in order for each job; waits at most ``timeout`` seconds for something to happen."""

    def stop(self) -> None:
        """Ask every job to checkpoint and stop; their closing events follow within the engine's grace period."""

    def close(self) -> None:
        """End all processes now. No events follow. May be called twice."""
