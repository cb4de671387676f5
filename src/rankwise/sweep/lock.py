"""One driver per store: an operating-system lock that dies with its holder, and says who that is.

Both the folder and the file ``driver.lock`` in it are locked: the file can be deleted, and then another one would be
free; the folder cannot be locked on some network file systems.
"""

from __future__ import annotations

import errno
import fcntl
import json
import os
import platform
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

from rankwise.errors import LockedStoreError, StorageError

_LOCK = "driver.lock"
_HELD = (errno.EWOULDBLOCK, errno.EAGAIN, errno.EACCES)


@contextmanager
def driver_lock(directory: Path) -> Iterator[None]:
    """Hold ``directory`` as its only driver, or refuse with the name of the present one.

    ``flock`` is released by the kernel however the holder ends, so a killed driver leaves nothing to clean up.
    """
    path = directory / _LOCK
    with ExitStack() as handles:
        for place, mode in ((directory, os.O_RDONLY), (path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW)):
            try:
                handle = os.open(place, mode | os.O_CLOEXEC, 0o644)
            except OSError as error:
                raise StorageError(f"{place}: cannot be written: {error.strerror}") from None
            handles.callback(os.close, handle)
            _acquire(handle, path)
        _sign(handle)
        yield


def driver_of(directory: Path) -> dict[str, Any] | None:
    """Who drives the store now: pid, host, since, command (what is known of them); None if nobody does."""
    return next((_signed(directory / _LOCK) for path in (directory, directory / _LOCK) if _is_held(path)), None)


def _is_held(path: Path) -> bool:
    try:
        handle = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
    except OSError:
        return False
    try:
        fcntl.flock(handle, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except OSError as error:
        return error.errno in _HELD
    else:
        return False
    finally:
        os.close(handle)


def _acquire(handle: int, path: Path) -> None:
    for attempts_left in range(10, -1, -1):
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return
        except OSError as error:
            if error.errno not in _HELD:
                return  # a file system without such locks: the other of the two holds
            if not attempts_left:
                who = _signed(path)
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


def _signed(path: Path) -> dict[str, Any]:
    try:
        handle = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
    except OSError:
        return {}
    try:
        who = json.loads(os.pread(handle, 4096, 0))
    except (OSError, ValueError):
        return {}
    finally:
        os.close(handle)
    return who if isinstance(who, dict) else {}
