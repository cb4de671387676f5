"""Files that are replaced in one piece: a reader, a full disk or a kill finds the old file whole, or the new one.

The new content is written beside the target under a name that nobody can guess, brought to the disk, and only then
given the target's name. A draft is locked by its writer; drafts without a living writer are removed by the next one.
"""

from __future__ import annotations

import fcntl
import os
import secrets
import shutil
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from rankwise.errors import StorageError

_PREFIX, _SUFFIX = ".rankwise-", ".draft"


def write_whole(path: Path, data: bytes) -> Path:
    """``data`` as the file ``path``; its folder is made if it is missing."""
    try:
        require_replaceable(path)
        path.parent.mkdir(parents=True, exist_ok=True)
        replace_whole(path, data)
    except OSError as error:
        raise StorageError(f"{path}: cannot be written: {error.strerror}; choose another file") from None
    return path


def replace_whole(path: Path, data: bytes) -> None:
    """``data`` as the file ``path``, in a folder that exists; the disk's refusal is an ``OSError``.

    New files have the rights that the umask leaves, others keep theirs. A link is replaced, not followed.
    """
    remove_dead_drafts(path.parent)
    draft = new_draft(path.parent)
    handle = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o666)
    try:
        try:
            hold_draft(handle)
            with suppress(FileNotFoundError):
                if stat.S_ISREG((before := path.lstat()).st_mode):
                    os.fchmod(handle, stat.S_IMODE(before.st_mode))
            with open(handle, "wb", closefd=False) as file:
                file.write(data)
            os.fsync(handle)
            draft.replace(path)
        finally:
            os.close(handle)
    except BaseException:
        with suppress(OSError):
            draft.unlink()
        raise
    sync(path.parent)


@contextmanager
def whole_folder(path: Path) -> Iterator[Path]:
    """A draft that becomes the new folder ``path`` when the block ends, and nothing where it fails.

    Libraries that write some files readable by their owner alone are overruled: every file gets the rights that the
    umask leaves.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    remove_dead_drafts(path.parent)
    draft = new_draft(path.parent)
    draft.mkdir()
    handle = os.open(draft, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    try:
        hold_draft(handle)
        yield draft
        allowed = stat.S_IMODE(os.fstat(handle).st_mode) & 0o666
        for file in draft.rglob("*"):
            if file.is_file():
                file.chmod(allowed)
                sync(file)
        draft.rename(path)
    except BaseException:
        shutil.rmtree(draft, ignore_errors=True)
        raise
    finally:
        os.close(handle)
    sync(path.parent)


def require_replaceable(path: Path) -> None:
    """Refuse what is there and is not a file: replacing a device or a pipe would break it for everyone."""
    if path.exists() and not path.is_file():
        raise StorageError(f"{path}: expected a regular file to replace, got something else; choose another file")


def new_draft(folder: Path) -> Path:
    """A path in ``folder`` that nothing has yet, for a file or a folder."""
    return folder / f"{_PREFIX}{secrets.token_hex(8)}{_SUFFIX}"


def hold_draft(handle: int) -> None:
    """Mark an open draft as being written, until ``handle`` is closed or the process ends."""
    with suppress(OSError):  # some network file systems have no such locks: drafts there stay when a writer is killed
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)


def remove_dead_drafts(folder: Path) -> None:
    """Remove drafts in ``folder`` whose writers are gone."""
    with suppress(OSError):
        for draft in folder.glob(f"{_PREFIX}*{_SUFFIX}"):
            _remove_if_dead(draft)


def _remove_if_dead(draft: Path) -> None:
    with suppress(OSError):
        handle = os.open(draft, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            if draft.is_dir():
                shutil.rmtree(draft)
            else:
                draft.unlink()
        finally:
            os.close(handle)


def sync(path: Path) -> None:
    """Make a file's bytes, or a rename in a folder, survive a power cut."""
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
