"""Data that a path names: found, read and refused before anything is trained. No array library here."""

from __future__ import annotations

import gzip
import hashlib
import sysconfig
import zlib
from dataclasses import dataclass
from functools import lru_cache
from io import BytesIO
from pathlib import Path

from rankwise.errors import InvalidInputError
from rankwise.foreign_file import read_regular

_MAX_BYTES = 2**30
"""A corpus or a set of images is held in memory."""

# Not the library itself, or different on every machine.
_LEFT_OUT = {"site-packages", "dist-packages", "test", "tests", "__pycache__"}
_HELD_OUT_EVERY = 10
_LEAST_LIBRARY = 1_000_000


@dataclass(frozen=True, kw_only=True)
class Corpus:
    """A text in two parts, and the SHA-256 that names both."""

    training: bytes
    held_out: bytes
    sha256: str


def read_bytes(path: Path, what: str) -> bytes:
    """The bytes of a file that exists and is not empty; ``.gz`` is unpacked."""
    content = read_regular(path, what, limit=_MAX_BYTES)
    if not content:
        raise InvalidInputError(f"{path}: expected {what}, got an empty file")
    if path.suffix != ".gz":
        return content
    try:
        with gzip.GzipFile(fileobj=BytesIO(content)) as packed:
            unpacked = packed.read(_MAX_BYTES + 1)
    except (OSError, EOFError, zlib.error) as error:
        raise InvalidInputError(f"{path}: expected {what} packed by gzip, got: {error}") from None
    if len(unpacked) > _MAX_BYTES:
        raise InvalidInputError(f"{path}: expected {what} of at most {_MAX_BYTES // 2**30} GB unpacked, got more")
    return unpacked


def read_corpus(path: str | None = None) -> Corpus:
    """The text at ``path``, its last tenth held out; or the standard library's source, every tenth file held out.

    A file's SHA-256 is that of its bytes (``sha256sum FILE``), the library's that of all files with their names. Tests
    and installed packages are not the library; ``_sysconfigdata`` is left out because it describes one machine.
    """
    return _library() if path is None else _file(path)


@lru_cache(maxsize=2)
def _file(path: str) -> Corpus:
    content = read_bytes(Path(path).expanduser(), "a text file")
    try:
        content.decode("utf-8")
        wrong = content.find(b"\0")
    except UnicodeDecodeError as error:
        wrong = error.start
    if wrong >= 0:
        raise InvalidInputError(
            f"{path}: expected UTF-8 text, got a binary file (the byte {content[wrong]:#04x} at position {wrong:,})"
        )
    cut = len(content) - len(content) // _HELD_OUT_EVERY
    return Corpus(training=content[:cut], held_out=content[cut:], sha256=hashlib.sha256(content).hexdigest())


@lru_cache(maxsize=1)
def _library() -> Corpus:
    root = Path(sysconfig.get_paths()["stdlib"])
    files = sorted(
        (file.relative_to(root).as_posix(), file)
        for file in root.rglob("*.py")
        if not _LEFT_OUT & set(file.relative_to(root).parts) and not file.name.startswith("_sysconfigdata")
    )
    digest, parts = hashlib.sha256(), (bytearray(), bytearray())
    for index, (name, file) in enumerate(files):
        content = file.read_bytes()
        digest.update(f"{name}\0{len(content)}\0".encode() + content)
        parts[index % _HELD_OUT_EVERY == _HELD_OUT_EVERY - 1].extend(content)
    if len(parts[0]) < _LEAST_LIBRARY:
        raise InvalidInputError(
            f"{root}: expected the standard library's source, got {len(parts[0]):,} bytes of it (some distributions "
            f"leave it out); give the path of a text file instead"
        )
    return Corpus(training=bytes(parts[0]), held_out=bytes(parts[1]), sha256=digest.hexdigest())


def require_same_data(name: str, wanted: str, found: str, where: str) -> None:
    """That data is the data a spec was written for."""
    if wanted != found:
        raise InvalidInputError(
            f"{name}: expected data of SHA-256 {wanted}, got {found} from {where}; "
            f"the data has changed, and with it the run: write the new value into the spec if that is meant"
        )
