"""Ray as a library: imported with care, kept to its place, and its errors in words."""

from __future__ import annotations

import os
import secrets
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

LOOPBACK = "RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER"


def import_ray(*, own: bool) -> Any:
    """Ray, told before its import to phone nobody, and to use the loopback interface if it is to be this engine's."""
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    if own:
        os.environ.setdefault(LOOPBACK, "0")
        if "RAY_AUTH_MODE" not in os.environ:  # a token for this process; Ray would keep one in the home directory
            os.environ.setdefault("RAY_AUTH_TOKEN", secrets.token_hex(32))
    import ray

    return ray


def keep_stdout_clean(ray: Any) -> None:
    """Ray prints what happens to workers to stdout, which is for results; what matters comes as an event anyway."""
    ray._private.worker.print_to_stdstream = lambda *_, **__: None


@contextmanager
def without_dashboard_process() -> Iterator[None]:
    """Let a Ray that is started here have no dashboard process.

    ``include_dashboard=False`` starts one all the same, for usage statistics alone; although these are off, it asks the
    metadata servers of three clouds where it is.
    """
    from ray._private import services

    start = services.start_api_server
    services.start_api_server = lambda *_, **__: (None, None)
    try:
        yield
    finally:
        services.start_api_server = start


@contextmanager
def signal_handlers_kept() -> Iterator[None]:
    """Ray takes SIGTERM for itself; it is the sweep's, which stops gracefully."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    numbers = (signal.SIGINT, signal.SIGTERM)
    before = {number: signal.getsignal(number) for number in numbers}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def death(error: Exception) -> str:
    """What Ray's error says about the end of a worker."""
    kind = type(error).__name__
    known = {
        "WorkerCrashedError": "the Ray worker died",
        "NodeDiedError": "the Ray node died",
        "OutOfMemoryError": "Ray ended the worker for want of memory on its node",
        "TaskCancelledError": "the Ray task was cancelled",
    }
    return f"{known.get(kind, 'the Ray worker was lost')} ({kind})"
