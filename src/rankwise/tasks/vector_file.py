"""Vectors from a file, without running anything that is in it: ``.npy`` and ``.safetensors``, never pickle.

M vectors, D dim.
"""

from __future__ import annotations

from functools import lru_cache
from pathlib import Path

import numpy as np
import torch
from jaxtyping import Float
from safetensors import SafetensorError, safe_open
from torch import Tensor

from rankwise.errors import InvalidInputError, ShapeError
from rankwise.foreign_file import open_regular
from rankwise.spec import VectorFile, content_sha256
from rankwise.tasks.npy_file import map_npy


def load_vectors(file: VectorFile) -> Float[Tensor, "M D"]:
    """The matrix that ``file`` names; refused when the bytes there are not those the spec was made for."""
    return _checked_vectors(file.path, file.sha256, file.tensor)


@lru_cache(maxsize=1)
def _checked_vectors(path: str, sha256: str, tensor: str | None) -> Float[Tensor, "M D"]:
    found = content_sha256(Path(path))
    if found != sha256:
        raise InvalidInputError(
            f"{path}: expected the content that the run was planned with (SHA-256 {sha256[:12]}...), "
            f"got another one ({found[:12]}...); restore the file, or plan new runs with the changed one"
        )
    return read_matrix(Path(path), tensor)


def read_matrix(path: Path, tensor: str | None = None) -> Float[Tensor, "M D"]:
    """The matrix [M, D] of a ``.npy`` file, or the only one (the one named ``tensor``) of a ``.safetensors`` one."""
    if path.suffix == ".npy":
        if tensor is not None:
            raise InvalidInputError(f"tensor: expected none for {path.name}, which holds one matrix, got {tensor!r}")
        matrix = _read_npy(path)
    elif path.suffix == ".safetensors":
        matrix = _read_safetensors(path, tensor)
    else:
        raise InvalidInputError(
            f"{path}: expected a .npy or .safetensors file, got {path.suffix or 'no suffix'!r}; "
            f"convert it, for example with numpy.save(path, vectors)"
        )
    if matrix.ndim != 2 or 0 in matrix.shape:
        raise ShapeError(f"{path}: expected a matrix [vectors, dim], got shape {list(matrix.shape)}")
    return matrix


def _read_npy(path: Path) -> Tensor:
    array = map_npy(path)
    if array.dtype.kind not in "fiu":
        raise InvalidInputError(f"{path}: expected real numbers, got {array.dtype}")
    return torch.from_numpy(np.array(array, dtype=np.float64 if array.dtype == np.float64 else np.float32))


def _read_safetensors(path: Path, tensor: str | None) -> Tensor:
    open_regular(path, "a safetensors file").close()
    try:
        with safe_open(path, framework="pt") as file:
            shapes = {name: file.get_slice(name).get_shape() for name in file.keys()}  # noqa: SIM118 (not a dictionary)
            matrices = [name for name, shape in shapes.items() if len(shape) == 2]
            if tensor is None and len(matrices) != 1:
                raise InvalidInputError(
                    f"{path}: expected one matrix, got {len(matrices)}; choose one by its name: tensor = "
                    f"{', '.join(map(repr, sorted(matrices)[:5])) or '(none there)'}"
                )
            chosen = matrices[0] if tensor is None else tensor
            if chosen not in shapes:
                raise InvalidInputError(f"{path}: expected a tensor {chosen!r}, got {', '.join(sorted(shapes)[:5])}")
            values: Tensor = file.get_tensor(chosen)
    except (OSError, SafetensorError) as error:
        raise InvalidInputError(f"{path}: expected a safetensors file, got: {error!s:.300}") from None
    if values.is_complex() or values.dtype == torch.bool:
        raise InvalidInputError(f"{path}: expected real numbers, got {values.dtype}")
    return values if values.dtype == torch.float64 else values.float()
