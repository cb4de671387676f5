"""The array of a stranger's ``.npy`` file: its header checked against the file's size, then mapped, never unpickled."""

from __future__ import annotations

import math
from pathlib import Path
from tokenize import TokenError  # numpy reads headers of Python 2 with it
from typing import Any, BinaryIO

import numpy as np
from numpy.lib import format as npy
from numpy.typing import NDArray

from rankwise.errors import InvalidInputError
from rankwise.foreign_file import open_regular

_MOST_DIMENSIONS = 32
"""numpy itself has 32 or 64, by its version."""


def map_npy(path: Path) -> NDArray[Any]:
    """The array as a read-only view of the file, of whatever numbers it holds."""
    with open_regular(path, "a .npy file of numbers") as file:
        shape, fortran, dtype = _header(path, file)
        offset, size = file.tell(), path.stat().st_size
    if dtype.hasobject:
        raise InvalidInputError(
            f"{path}: expected a .npy file of numbers, no pickle, got Python objects, which only a pickle could hold; "
            f"convert where it was made: numpy.save(file, array.astype('float32'))"
        )
    # numpy multiplies shapes in 64 bits, which wrap around; integers of Python do not
    expected = math.prod(shape) * dtype.itemsize
    if expected != size - offset:
        raise InvalidInputError(
            f"{path}: the header says {list(shape)} of {dtype}, {expected:,} bytes, but {size - offset:,} follow; "
            f"the file is damaged or cut short"
        )
    if len(shape) > _MOST_DIMENSIONS:
        raise InvalidInputError(
            f"{path}: expected an array of at most {_MOST_DIMENSIONS} dimensions, got one of {len(shape)}"
        )
    if not expected:  # nothing can be mapped
        return np.empty(tuple(min(size, 1) for size in shape), dtype)  # as empty, whatever the other sizes claim
    return np.memmap(path, dtype, "r", offset, shape, "F" if fortran else "C")


def _header(path: Path, file: BinaryIO) -> tuple[tuple[int, ...], bool, np.dtype[np.generic]]:
    try:
        version = npy.read_magic(file)
        read = {(1, 0): npy.read_array_header_1_0, (2, 0): npy.read_array_header_2_0}[version]
        shape, fortran, dtype = read(file)
    except (ValueError, KeyError, EOFError, TypeError, SyntaxError, TokenError, RecursionError, MemoryError):
        raise InvalidInputError(
            f"{path}: expected a .npy file of numbers, no pickle, got something that numpy.save does not write"
        ) from None
    if any(isinstance(size, bool) or size < 0 for size in shape):  # numpy takes True for 1 here, and not when it maps
        raise InvalidInputError(f"{path}: expected a shape of sizes, got {list(shape)}")
    return tuple(shape), fortran, dtype
