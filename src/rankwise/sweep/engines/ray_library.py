"""Ray as a library: imported with care, kept to its place, and its errors in words."""

from __future__ import annotations

import os
import secrets
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from rankwise.errors import EngineError

_LOOPBACK = "RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER"
_OBJECT_STORE = 128 * 2**20  # messages and checkpoints pass through, nothing stays
_LONGEST_SOCKET = 107 - len("/session_2000-01-01_00-00-00_000000_4194304/sockets/plasma_store")
_QUIET: dict[str, Any] = {"log_to_driver": False, "logging_level": "ERROR"}


def import_ray(*, own: bool) -> Any:
    """Ray, told before its import to phone nobody, and to use the loopback interface if it is to be this engine's."""
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    if own:
        os.environ.setdefault(_LOOPBACK, "0")
        if "RAY_AUTH_MODE" not in os.environ:  # a token for this process; Ray would keep one in the home directory
            os.environ.setdefault("RAY_AUTH_TOKEN", secrets.token_hex(32))
    import ray

    return ray


def join_ray(ray: Any, address: str) -> None:
    """Join the cluster at ``address``."""
    try:
        ray.init(address=address, **_QUIET)
    except Exception as error:  # Ray raises bare ones too
        raise EngineError(f"{address}: no Ray cluster answers: {error}") from None


def start_ray(ray: Any, folder: Path, *, cpus: int) -> None:
    """Start a Ray of this process's own, which listens on the loopback interface alone.

    - ``folder``: for its files, if the names of its sockets fit there.
    """
    try:
        with _without_dashboard_process():
            started = ray.init(
                address="local",
                num_cpus=cpus,
                include_dashboard=False,
                object_store_memory=_OBJECT_STORE,
                _node_ip_address="127.0.0.1",
                _temp_dir=str(folder) if len(str(folder)) <= _LONGEST_SOCKET else None,
                **_QUIET,
            )
    except Exception as error:  # bare ones too, such as when its processes take too long to start
        raise EngineError(f"Ray does not start: {error}") from None
    ip = started.address_info["node_ip_address"]
    if ip != "127.0.0.1":
        ray.shutdown()
        raise EngineError(
            f"Ray was going to listen on {ip}, expected 127.0.0.1 alone: it was imported before this engine; "
            f"start Ray yourself and give its --address, or set {_LOOPBACK}=0 before the import"
        )


def keep_stdout_clean(ray: Any) -> None:
    """Ray prints what happens to workers to stdout, which is for results; what matters comes as an event anyway."""
    ray._private.worker.print_to_stdstream = lambda *_, **__: None


@contextmanager
def _without_dashboard_process() -> Iterator[None]:
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
