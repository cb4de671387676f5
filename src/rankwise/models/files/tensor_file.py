"""What every weight file offers, whatever its format."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol, TypeAlias

import numpy as np

from rankwise.errors import InvalidInputError

RealArray: TypeAlias = np.ndarray[Any, np.dtype[np.floating[Any]]]

MAX_ELEMENTS = 2**32
"""No attention matrix of a published model has a hundredth of it; reading more is refused before it is tried."""


@dataclass(frozen=True)
class TensorInfo:
    """A tensor as its file describes it: ``dtype`` is the format's own name (``F32``, ``BF16``, ``Q4_1``)."""

    name: str
    dtype: str
    shape: tuple[int, ...]


class TensorFile(Protocol):
    """A file of named tensors, its header checked, its data unread."""

    @property
    def path(self) -> Path: ...

    @property
    def tensors(self) -> Mapping[str, TensorInfo]: ...

    def readable(self, dtype: str) -> bool:
        """Whether ``read`` can widen the type."""
        ...

    def read(self, name: str) -> RealArray:
        """One tensor in float32 or float64."""
        ...


def require_plain_name(name: str, path: Path) -> str:
    """``name`` if a terminal can show it: names come from strangers' files and go into tables and messages."""
    if not name or len(name) > 500 or not name.isprintable():
        raise InvalidInputError(f"{path}: expected printable tensor names of up to 500 characters, got {name!r:.80}")
    return name
