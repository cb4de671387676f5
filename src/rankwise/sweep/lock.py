"""One driver a store: an operating-system lock that dies with its holder, and says who that is."""

from __future__ import annotations

import fcntl
import json
import os
import platform
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from rankwise.errors import LockedStoreError, StorageError

_LOCK = "driver.lock"


@contextmanager
def driver_lock(directory: Path) -> Iterator[None]:
    """Hold ``directory`` as its only driver, or refuse with the name of the present one.

    ``flock`` is released by the kernel however the holder ends, so a killed driver leaves nothing to clean up.
    """
    path = directory / _LOCK
    try:
        handle = os.open(path, os.O_RDWR | os.O_CREAT, 0o644)
    except OSError as error:
        raise StorageError(f"{path}: cannot be written: {error.strerror}") from None
    try:
        _acquire(handle, path)
        _sign(handle)
        yield
    finally:
        os.close(handle)


def driver_of(directory: Path) -> dict[str, Any] | None:
    """Who drives the store now: pid, host, since, command; None if nobody does."""
    try:
        handle = os.open(directory / _LOCK, os.O_RDONLY)
    except OSError:
        return None
    try:
        fcntl.flock(handle, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except OSError:
        return _signature(handle)
    else:
        return None
    finally:
        os.close(handle)


def _acquire(handle: int, path: Path) -> None:
    for attempts_left in range(10, -1, -1):
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return
        except OSError:
            if not attempts_left:
                who = _signature(handle)
                raise LockedStoreError(
                    f"{path.parent}: another driver works on this store: process {who.get('pid', '?')} on "
                    f"{who.get('host', '?')} since {who.get('since', '?')} ({who.get('command', '?')}); "
                    f"wait for it, stop it, or give this sweep its own --store"
                ) from None
            time.sleep(0.05)  # `driver_of` holds the lock for an instant when it looks


def _sign(handle: int) -> None:
    who = {
        "pid": os.getpid(),
        "host": platform.node(),
        "since": time.strftime("%Y-%m-%d %H:%M:%S"),
        "command": " ".join(sys.argv)[:200],
    }
    os.ftruncate(handle, 0)
    os.pwrite(handle, json.dumps(who).encode(), 0)


def _signature(handle: int) -> dict[str, Any]:
    try:
        who = json.loads(os.pread(handle, 4096, 0))
    except ValueError:
        return {}
    return who if isinstance(who, dict) else {}
