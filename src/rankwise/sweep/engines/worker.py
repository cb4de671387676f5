"""The process that runs one job after another: ``python -m rankwise.sweep.engines.worker ENTRY DRIVER_PID [MEMORY]``.

It reads JSON lines from stdin (``{"run": {...}}``, ``{"stop": run_id}``) and writes JSON lines to what was its stdout.
The end of stdin means that the driver is gone, and so is this process, at once, whatever it is doing.
"""

from __future__ import annotations

import contextlib
import errno
import importlib
import json
import os
import platform
import queue
import signal
import sys
import threading
import time
import traceback
from collections.abc import Callable, Mapping
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any, TextIO

from rankwise.train import Diverged, Stopped

# The disk's refusals: they are nobody's bug, and the run goes on when there is room again.
_STORAGE = {errno.ENOSPC, errno.EDQUOT, errno.EROFS, errno.EFBIG, errno.EACCES, errno.EPERM}
_REPORT_EVERY = 0.2


def main() -> None:
    """Announce readiness (or why there is none), then work until stdin ends."""
    entry_name, driver, *memory = sys.argv[1:]
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is the driver's business
    _die_with(int(driver))
    channel = _Channel(_private_stdout())
    if memory:
        import resource

        resource.setrlimit(resource.RLIMIT_AS, (int(memory[0]), int(memory[0])))
    try:
        entry = _load_entry(entry_name)
    except Exception as error:
        channel.send({"type": "broken", "reason": f"{type(error).__name__}: {error}", "log": traceback.format_exc()})
        return
    inbox = _Inbox()
    channel.send({"type": "ready", "versions": _versions(), "machine": _machine()})
    while True:
        job = inbox.jobs.get()
        outcome = _run(entry, job, _Context(job, inbox, channel))
        channel.send(outcome)
        if outcome.get("status") == "oom":
            return  # a fresh process has the memory that this one may still hold


def _load_entry(name: str) -> Callable[..., Any]:
    """The function called ``package.module:function``."""
    module, colon, function = name.partition(":")
    if not colon:
        raise ImportError(f"expected an entry point 'package.module:function', got {name!r}")
    entry: Callable[..., Any] = getattr(importlib.import_module(module), function)
    if "torch" in sys.modules:
        sys.modules["torch"].set_num_threads(1)
    return entry


class _Inbox:
    """Messages from the driver, received by a thread of its own so that a stop is seen while a job runs."""

    def __init__(self) -> None:
        self.jobs: queue.SimpleQueue[dict[str, Any]] = queue.SimpleQueue()
        self.stopped: set[str] = set()
        threading.Thread(target=self._listen, daemon=True).start()

    def _listen(self) -> None:
        for line in sys.stdin.buffer:
            message = json.loads(line)
            if "run" in message:
                self.jobs.put(message["run"])
            else:
                self.stopped.add(message["stop"])
        os._exit(0)


class _Channel:
    """The way to the driver; an entry point may report from several threads."""

    def __init__(self, out: TextIO) -> None:
        self._out = out
        self._lock = threading.Lock()

    def send(self, message: Mapping[str, Any]) -> None:
        line = json.dumps(message, allow_nan=False) + "\n"
        with self._lock:
            self._out.write(line)
            self._out.flush()


class _Context:
    """``rankwise.train.contract.WorkerContext`` for one job."""

    def __init__(self, job: Mapping[str, Any], inbox: _Inbox, channel: _Channel) -> None:
        self._run_id = str(job["run_id"])
        self._inbox = inbox
        self._channel = channel
        self._reported = -float("inf")
        self.checkpoint_dir = Path(job["checkpoint_dir"])

    def should_stop(self) -> bool:
        return self._run_id in self._inbox.stopped

    def report(self, progress: Mapping[str, Any]) -> None:
        now = time.monotonic()
        if now - self._reported >= _REPORT_EVERY:
            self._reported = now
            self._channel.send({"type": "progress", "run_id": self._run_id, "values": _finite(progress)})

    def checkpointed(self, path: Path, sha256: str, step: int) -> None:
        place = {"path": str(path), "sha256": sha256, "step": step}
        self._channel.send({"type": "checkpointed", "run_id": self._run_id, **place})

    def continued(self, seconds: float) -> None:
        self._channel.send({"type": "continued", "run_id": self._run_id, "seconds": seconds})


def _run(entry: Callable[..., Any], job: Mapping[str, Any], context: _Context) -> dict[str, Any]:
    """The closing message of one job. Nothing the entry raises gets past here."""
    began = time.monotonic()

    def closing(kind: str, **more: Any) -> dict[str, Any]:
        return {"type": kind, "run_id": job["run_id"], "seconds": time.monotonic() - began, **more}

    try:
        context.checkpoint_dir.mkdir(parents=True, exist_ok=True)
        result = entry(job["spec"], context)
        json.dumps(result, allow_nan=False)  # a result that is not strict JSON is this run's failure
        if not isinstance(result, dict):
            raise TypeError(f"expected the entry point to return a dictionary, got {type(result).__name__}")
        return closing("finished", result=result)
    except Stopped:
        return closing("returned")
    except Diverged as outcome:
        return closing("failed", status="diverged", reason=str(outcome), traceback="")
    except BaseException as error:
        if isinstance(error, OSError) and error.errno in _STORAGE:
            return closing("blocked", reason=f"{error.filename or context.checkpoint_dir}: {error.strerror}")
        status = "oom" if _out_of_memory(error) else "failed"
        reason = f"{type(error).__name__}: {error}" if str(error) else type(error).__name__
        return closing("failed", status=status, reason=reason[:2000], traceback=traceback.format_exc()[-20_000:])


def _out_of_memory(error: BaseException) -> bool:
    """Python's own, CUDA's, and the RuntimeError that torch's CPU allocator raises."""
    return (
        isinstance(error, MemoryError)
        or type(error).__name__ == "OutOfMemoryError"
        or (isinstance(error, RuntimeError) and "DefaultCPUAllocator" in str(error))
        or (isinstance(error, OSError) and error.errno == errno.ENOMEM)
    )


def _finite(progress: Mapping[str, Any]) -> dict[str, Any]:
    """``progress`` without the values that strict JSON has no word for."""
    return {key: value for key, value in progress.items() if not isinstance(value, float) or abs(value) < float("inf")}


def _private_stdout() -> TextIO:
    """Stdout for messages alone; whatever else prints there goes to the log that stderr is."""
    out = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)
    return out


def _die_with(driver: int) -> None:
    """Ask Linux to kill this process when the driver dies; elsewhere the end of stdin does it."""
    if sys.platform == "linux":
        import ctypes

        PR_SET_PDEATHSIG = 1
        ctypes.CDLL(None, use_errno=True).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
        # Under memory pressure the kernel should end a worker, which is replaced, not the driver.
        with contextlib.suppress(OSError):  # containers may forbid it
            Path("/proc/self/oom_score_adj").write_text("500")
    if os.getppid() != driver:
        sys.exit(0)


def _versions() -> dict[str, str]:
    found = {"python": platform.python_version()}
    for package in ("rankwise", "torch", "numpy"):
        try:
            found[package] = version(package)
        except PackageNotFoundError:
            continue
    return found


def _machine() -> dict[str, Any]:
    return {"host": platform.node(), "platform": platform.platform(), "cpu": _cpu(), "cores": os.cpu_count()}


def _cpu() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return platform.processor()
    return next((line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")), "unknown")


if __name__ == "__main__":
    main()
