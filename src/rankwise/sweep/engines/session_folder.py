"""The folder of a sweep among a machine's temporary files, on every node that works for it.

Each process that uses it holds a lock in it. A process that is killed cannot tidy up: whoever opens such a folder next
first removes those that nobody holds any more.
"""

from __future__ import annotations

import fcntl
import os
import shutil
import stat
import tempfile
from contextlib import suppress
from pathlib import Path

_PREFIX, _LOCK = "rankwise-", "held"


def session_folder(session: str) -> Path:
    """Where the folder of a session is."""
    return Path(tempfile.gettempdir()) / f"{_PREFIX}{session}"


def hold_session_folder(session: str) -> int:
    """Make the folder if it is missing, and hold it until the handle is closed or the process ends."""
    remove_dead_folders()
    folder = session_folder(session)
    while True:
        folder.mkdir(mode=0o700, exist_ok=True)
        with suppress(FileNotFoundError):  # another process may find it not yet held, and remove it
            handle = os.open(folder / _LOCK, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
            fcntl.flock(handle, fcntl.LOCK_SH)
            with suppress(FileNotFoundError):
                if os.path.samestat(os.fstat(handle), (folder / _LOCK).lstat()):
                    return handle
            os.close(handle)


def remove_dead_folders() -> None:
    """Remove the folders of sessions that no process of this user on this machine holds."""
    for folder in Path(tempfile.gettempdir()).glob(f"{_PREFIX}*"):
        with suppress(OSError):
            found = folder.lstat()
            if stat.S_ISDIR(found.st_mode) and found.st_uid == os.geteuid():
                _remove_if_dead(folder)


def _remove_if_dead(folder: Path) -> None:
    handle = os.open(folder / _LOCK, os.O_RDWR | os.O_NOFOLLOW | os.O_CLOEXEC)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        shutil.rmtree(folder, ignore_errors=True)
    finally:
        os.close(handle)
