"""Vectors from a stranger's file: .npy or safetensors, read row by row, nothing executed, memory bounded.

The header is compared with the size of the file before anything is mapped, every row is looked at once (numbers, not
NaN), and at most ``2^27 / D`` of them, drawn at random, are kept.

Legend: R rows kept, D dim.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import torch
from jaxtyping import Float
from safetensors import SafetensorError, safe_open
from torch import Tensor

from rankwise.errors import InvalidInputError, nearest_name
from rankwise.foreign_file import open_regular
from rankwise.models import SafetensorsFile
from rankwise.tasks import map_npy

LARGEST_DIM = 8192
"""Forms are found from dim x dim matrices in float64: half a gigabyte each at this size."""
_NUMBERS_KEPT = 1 << 27
_MOST_ROWS = 1 << 16
_BYTES_AT_ONCE = 1 << 24
_NAMES_SHOWN = 8
_TORCH_FLOATS = ("F64", "F32", "F16", "BF16")

Progress = Callable[[int, int], None]
"""Told how many of how many steps are done."""


@dataclass(frozen=True)
class Vectors:
    """Rows of a file: ``rows`` [R, D] in float32, a random sample of the ``total`` it holds."""

    name: str
    rows: Float[Tensor, "R D"]
    total: int


class _Matrix(Protocol):
    """A matrix on disk whose rows can be read a few at a time, in the precision they are stored in."""

    shape: tuple[int, ...]

    def read(self, start: int, stop: int) -> Tensor: ...


def read_vectors(path: Path, tensor: str | None = None, *, seed: int = 0, progress: Progress | None = None) -> Vectors:
    """The vectors in ``path``; ``tensor`` names one in a safetensors file that holds several."""
    open_regular(path, "a .npy or .safetensors file").close()
    try:
        if path.suffix == ".npy":
            if tensor is not None:
                raise InvalidInputError(f"{path}: a .npy file holds one array; leave out the tensor name {tensor!r}")
            return _sampled(str(path), _Npy(path), seed, progress)
        if path.suffix == ".safetensors":
            name = _chosen(path, tensor_names(path), tensor)
            return _sampled(f"{path}:{name}", _SafetensorsMatrix(path, name), seed, progress)
    except OSError as error:
        raise InvalidInputError(f"{path}: expected a readable file, got: {error.strerror or error}") from None
    raise InvalidInputError(
        f"{path}: expected .npy or .safetensors, got {path.suffix or 'no ending'!r}; convert with "
        f"numpy.save('vectors.npy', array.astype('float32'))"
    )


def tensor_names(path: Path) -> list[str]:
    """The names in a safetensors file; none in any other."""
    return sorted(SafetensorsFile(path).tensors) if path.suffix == ".safetensors" and path.is_file() else []


class _Npy:
    """The matrix of a .npy file."""

    def __init__(self, path: Path) -> None:
        self._rows = map_npy(path)
        if self._rows.dtype.kind != "f" or self._rows.dtype.itemsize > 8:
            raise InvalidInputError(
                f"{path}: expected float16, float32 or float64, got {self._rows.dtype}; "
                f"convert where it was made: numpy.save(file, array.astype('float32'))"
            )
        self.shape = self._rows.shape
        _require_matrix(str(path), self.shape)

    def read(self, start: int, stop: int) -> Tensor:
        return torch.from_numpy(np.array(self._rows[start:stop], dtype=self._rows.dtype.newbyteorder("=")))


class _SafetensorsMatrix:
    """One tensor of a safetensors file, whose header is checked before the library maps it."""

    def __init__(self, path: Path, name: str) -> None:
        info = SafetensorsFile(path).tensors[name]
        if info.dtype not in _TORCH_FLOATS:
            raise InvalidInputError(f"{path}: {name!r}: expected one of {', '.join(_TORCH_FLOATS)}, got {info.dtype}")
        _require_matrix(f"{path}: {name!r}", info.shape)
        self.shape = info.shape
        try:
            self._rows: Any = safe_open(path, framework="pt").get_slice(name)
        except SafetensorError as error:
            raise InvalidInputError(f"{path}: {name!r}: expected a tensor that can be read, got: {error}") from None

    def read(self, start: int, stop: int) -> Tensor:
        rows: Tensor = self._rows[start:stop]
        return rows


def _chosen(path: Path, names: list[str], wanted: str | None) -> str:
    if wanted is None and len(names) == 1:
        return names[0]
    if wanted is None and "keys" in names:
        return "keys"
    shown = ", ".join(repr(name) for name in names[:_NAMES_SHOWN]) + (", ..." if len(names) > _NAMES_SHOWN else "")
    if wanted is None:
        raise InvalidInputError(f"{path}: expected a tensor name, because there are {len(names)}: {shown}")
    if wanted not in names:
        hint = nearest_name(wanted, names)
        raise InvalidInputError(f"{path}: expected the name of a tensor, got {wanted!r}{hint}; there are {shown}")
    return wanted


def _require_matrix(name: str, shape: tuple[int, ...]) -> None:
    if len(shape) != 2:
        raise InvalidInputError(
            f"{name}: expected one vector per row, [rows, dim], got {list(shape)}; "
            "reshape(-1, dim) flattens leading axes"
        )
    if not 2 <= shape[1] <= LARGEST_DIM:
        raise InvalidInputError(f"{name}: expected vectors of 2 to {LARGEST_DIM} numbers, got {shape[1]}")


def _sampled(name: str, matrix: _Matrix, seed: int, progress: Progress | None) -> Vectors:
    total, dim = matrix.shape
    most = min(_MOST_ROWS, _NUMBERS_KEPT // dim)
    chosen = np.arange(total) if total <= most else _without_replacement(total, most, seed)
    kept = []
    for start, stop in _blocks(total, dim):
        stored = matrix.read(start, stop)
        block = stored.float()  # a float64 beyond float32 becomes infinite and is refused as such
        finite = block.isfinite().all(1)
        if not bool(finite.all()):
            row = start + int((~finite).nonzero()[0])
            raise InvalidInputError(f"{name}: expected finite numbers, got NaN or infinity (first in row {row})")
        vanished = (block == 0).all(1) & (stored != 0).any(1)
        if bool(vanished.any()):
            row = start + int(vanished.nonzero()[0])
            raise InvalidInputError(
                f"{name}: expected numbers that float32 can tell from 0, got smaller ones (first in row {row}); "
                f"multiply the array where it was made"
            )
        low, high = np.searchsorted(chosen, (start, stop))
        kept.append(block[torch.from_numpy(chosen[low:high] - start)])
        if progress is not None:
            progress(stop, total)
    return Vectors(name, torch.cat(kept) if kept else torch.empty(0, dim), total)


def _without_replacement(total: int, most: int, seed: int) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
    random = np.random.default_rng(seed)
    return np.sort(random.choice(total, most, replace=False, shuffle=False)).astype(np.int64)


def _blocks(total: int, dim: int) -> Iterator[tuple[int, int]]:
    rows = max(1, _BYTES_AT_ONCE // (4 * dim))
    for start in range(0, total, rows):
        yield start, min(start + rows, total)
