"""The gate for files that strangers wrote: regular files only, sizes known before reading, names made plain."""

from __future__ import annotations

import os
import stat
from io import BufferedReader
from pathlib import Path

from rankwise.errors import InvalidInputError

_LONGEST_NAME = 200


def open_regular(path: Path, expected: str) -> BufferedReader:
    """``path`` opened for reading if it is a regular file, or a link to one.

    A pipe would be waited for without end and a device would never end: neither is opened in a way that waits.

    - ``expected``: what the file should be, for the complaint.
    """
    try:
        handle = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except FileNotFoundError:
        raise InvalidInputError(f"{path}: expected {expected}, got no such file") from None
    except (OSError, ValueError) as error:  # ValueError: a name with a zero byte
        got = getattr(error, "strerror", None) or str(error)
        raise InvalidInputError(f"{path}: expected {expected}, got: {got}") from None
    if not stat.S_ISREG(os.fstat(handle).st_mode):
        os.close(handle)
        raise InvalidInputError(f"{path}: expected {expected}, got something that is not a regular file")
    return os.fdopen(handle, "rb")


def read_regular(path: Path, expected: str, *, limit: int) -> bytes:
    """The bytes of a regular file of at most ``limit`` bytes, compared before anything is allocated."""
    with open_regular(path, expected) as file:
        size = os.fstat(file.fileno()).st_size
        too_large = f"{path}: expected {expected} of at most {limit / 2**20:g} MB, got a larger file"
        if size > limit:
            raise InvalidInputError(too_large)
        try:
            content = file.read(size + 1)
        except OSError as error:
            raise InvalidInputError(f"{path}: expected {expected}, got: {error.strerror}") from None
    if len(content) > limit:
        raise InvalidInputError(too_large)
    return content


def plain_name(name: str) -> str:
    """``name`` as it may stand in a document, on a terminal and in a page.

    Bytes that are not UTF-8, control characters and marks that change the direction of text become "\\ufffd"; what is
    longer than 200 characters is cut in the middle.
    """
    half = (_LONGEST_NAME - 3) // 2
    short = name if len(name) <= _LONGEST_NAME else f"{name[:half]}...{name[-half:]}"
    return "".join(letter if letter.isprintable() else "\ufffd" for letter in short)
