"""The store's file: made whole, opened with care, and its complaints said with its name."""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

from rankwise.errors import CorruptStoreError, InvalidInputError, StorageError
from rankwise.whole_file import new_draft, remove_dead_drafts, sync

_APPLICATION_ID = 0x52414E4B  # "RANK", what `file` and we recognise the database by
_SCHEMA_VERSION = 1
_SCHEMA = """
CREATE TABLE runs (
    position          INTEGER PRIMARY KEY,   -- the order in which runs were planned
    run_id            TEXT NOT NULL UNIQUE,
    spec              TEXT NOT NULL,         -- JSON, complete
    status            TEXT NOT NULL DEFAULT 'pending',
    attempts          INTEGER NOT NULL DEFAULT 0,  -- how often a worker began it
    losses            INTEGER NOT NULL DEFAULT 0,  -- how often that worker died
    result            TEXT,                  -- JSON, when done
    reason            TEXT,                  -- one line, when failed
    traceback         TEXT,
    planned           REAL NOT NULL,         -- seconds since 1970
    started           REAL,
    finished          REAL,
    seconds           REAL NOT NULL DEFAULT 0,  -- at work, all attempts together
    progress          TEXT,                  -- JSON, the last report
    versions          TEXT,                  -- JSON
    machine           TEXT,                  -- JSON
    checkpoint        TEXT,                  -- path, relative to the store
    checkpoint_sha256 TEXT,
    digest            TEXT                   -- SHA-256 over run_id, spec, status, result, reason
);
CREATE INDEX runs_by_status ON runs (status);
"""


def database_file(directory: Path) -> Path:
    """The database of the store in ``directory``."""
    return directory / "runs.db"


def connect_to_write(path: Path) -> sqlite3.Connection:
    """The database for its one driver: made if it is not there, checked page by page if it is."""
    with errors_named(path):
        if not path.exists():
            _create(path)
        if not path.is_file():
            raise CorruptStoreError(f"{path}: expected the store's database, got something that is not a regular file")
        connection = sqlite3.connect(path, timeout=_PATIENCE, isolation_level=None)
        with _closed_on_error(connection):
            connection.execute("PRAGMA synchronous = FULL")  # a finished run survives a power cut
            _check_kind(path, connection)
            (verdict,) = connection.execute("PRAGMA quick_check(1)").fetchone()
            if verdict != "ok":
                raise CorruptStoreError(f"{path}: damaged: {verdict}; {_WAY_OUT}")
        return connection


def connect_to_read(path: Path) -> sqlite3.Connection:
    """The database for anyone, also while the driver writes."""
    # WAL needs a shared-memory file beside the database; where none can be made, nobody is writing either.
    frozen = not os.access(path.parent, os.W_OK) and not path.with_name(path.name + "-wal").exists()
    uri = f"{path.absolute().as_uri()}?mode=ro{'&immutable=1' if frozen else ''}"
    with errors_named(path):
        connection = sqlite3.connect(uri, uri=True, timeout=_PATIENCE, isolation_level=None)
        with _closed_on_error(connection):
            _check_kind(path, connection)
        return connection


def empty_log(connection: sqlite3.Connection) -> bool:
    """Move what is committed from the write-ahead log into the database; False if a reader was in the way.

    SQLite takes a log only up to its first damaged byte, without a word: finished runs behind it would be trained
    again.
    """
    connection.execute(f"PRAGMA busy_timeout = {_LOG_PATIENCE_MS}")
    try:
        (busy, *_) = connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()
    finally:
        connection.execute(f"PRAGMA busy_timeout = {round(_PATIENCE * 1000)}")
    return not busy


@contextmanager
def errors_named(path: Path) -> Iterator[None]:
    """SQLite's and the system's complaints as ours, with the file and the way out."""
    try:
        yield
    except sqlite3.Error as error:
        code = getattr(error, "sqlite_errorcode", 0) & 0xFF  # the extended codes add detail in higher bits
        if code in _STORAGE_CODES:
            raise StorageError(f"{path}: cannot be written or read now: {error}; {_SAFE}") from None
        raise CorruptStoreError(f"{path}: damaged: {error}; {_WAY_OUT}") from None
    except UnicodeDecodeError as error:  # text in the database, or in SQLite's complaint about it
        raise CorruptStoreError(f"{path}: damaged: {error}; {_WAY_OUT}") from None
    except OSError as error:
        raise StorageError(f"{error.filename or path}: cannot be written: {error.strerror}; {_SAFE}") from None


_PATIENCE = 10.0  # seconds to wait for another tool that holds the database
_LOG_PATIENCE_MS = 20  # the next outcome tries again

_SAFE = "what is finished is safe, the same command continues"
_WAY_OUT = "restore it from a backup or move it away"

# The disk's and the system's refusals; every other error means that the bytes are not what was written.
_STORAGE_CODES = {
    sqlite3.SQLITE_PERM,
    sqlite3.SQLITE_BUSY,
    sqlite3.SQLITE_LOCKED,
    sqlite3.SQLITE_READONLY,
    sqlite3.SQLITE_IOERR,
    sqlite3.SQLITE_FULL,
    sqlite3.SQLITE_CANTOPEN,
    sqlite3.SQLITE_PROTOCOL,  # a race for locks, lost too often
}


@contextmanager
def _closed_on_error(connection: sqlite3.Connection) -> Iterator[None]:
    try:
        yield
    except BaseException:
        connection.close()
        raise


def _create(path: Path) -> None:
    """The empty database, complete at the instant it appears: a half-made one would look like a damaged one."""
    remove_dead_drafts(path.parent)
    for leftover in (path.with_name(path.name + end) for end in ("-wal", "-shm")):
        leftover.unlink(missing_ok=True)
    draft = new_draft(path.parent)
    with closing(sqlite3.connect(draft)) as db:
        db.executescript(_SCHEMA)
        db.execute(f"PRAGMA application_id = {_APPLICATION_ID}")
        db.execute(f"PRAGMA user_version = {_SCHEMA_VERSION}")
        db.execute("PRAGMA journal_mode = WAL")
    draft.replace(path)
    sync(path.parent)


def _check_kind(path: Path, connection: sqlite3.Connection) -> None:
    (application,) = connection.execute("PRAGMA application_id").fetchone()
    (version,) = connection.execute("PRAGMA user_version").fetchone()
    if application != _APPLICATION_ID:
        raise CorruptStoreError(f"{path}: expected a store of rankwise, got another or an emptied database; {_WAY_OUT}")
    if version != _SCHEMA_VERSION:
        raise InvalidInputError(
            f"{path}: expected a store of version {_SCHEMA_VERSION}, got version {version}: "
            f"use the rankwise that made it, or another --store"
        )
