"""A file of vectors, named by its content."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field
from pathlib import Path

from rankwise.errors import InvalidInputError, require_sha256
from rankwise.foreign_file import open_regular
from rankwise.spec.fields import settle


@dataclass(frozen=True, kw_only=True)
class VectorFile:
    """Vectors to draw points from: the rows of the matrix in a ``.npy`` or ``.safetensors`` file.

    Which bytes those are is part of a run's identity (``sha256``), where they lie is not: a moved file is the same
    data, a changed one is other data and refused. ``tensor`` chooses one of several matrices of a safetensors file.
    """

    sha256: str
    path: str = field(metadata={"identity": False})
    tensor: str | None = None

    def __post_init__(self) -> None:
        settle(self)
        require_sha256("sha256", self.sha256)
        if not self.path:
            raise InvalidInputError("path: expected the place of the file, got an empty string")

    @classmethod
    def of(cls, path: Path, tensor: str | None = None) -> VectorFile:
        """The file at ``path`` as it is now."""
        return cls(sha256=content_sha256(path), path=str(path), tensor=tensor)


def content_sha256(path: Path) -> str:
    """The SHA-256 of a file's bytes, in hexadecimal digits."""
    with open_regular(path, "a readable file of vectors") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
