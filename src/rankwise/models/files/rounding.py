"""What storing a model in its types has cost: the same tensors with one more rounding error of the same size.

A stored number x stands for any within half a step of it. ``rerounded`` adds an error drawn evenly from
``[-step/2, step/2]``: how far that moves a quantity is how far the file's own rounding moved it, without knowing the
numbers before. The step of a floating type is its last bit. That of codes with a scale per block (GGUF) is the smallest
gap between two values of a block, which is right where codes are evenly spaced.
"""

from __future__ import annotations

import zlib

import numpy as np
from jaxtyping import Float

from rankwise.models.files.tensor_file import RealArray, TensorInfo

_EXACT = ("F64", "F32")
"""Their last bit is below what an audit tells from zero."""
_LAST_BIT = {"F16": (10, -14), "BF16": (7, -126), "F8_E4M3": (3, -126), "F8_E5M2": (2, -126)}
"""Bits behind the leading one, and the exponent below which the step stays; codes of 8 bits have a scale besides."""
_BLOCK, _SHORT_BLOCK = 32, 16
"""Numbers with one scale: of the plain types of GGUF, and the least of its K types."""


def rerounded(values: RealArray, info: TensorInfo, draw: int) -> RealArray:
    """``values`` with an error of half a step at most; the same for the same tensor and the same ``draw``."""
    if not loses_digits(info.dtype):
        return values
    rng = np.random.default_rng([draw, zlib.crc32(info.name.encode())])
    error = rng.random(values.shape, dtype=np.float32) - np.float32(0.5)
    return (values + error * step(values, info.dtype)).astype(values.dtype)


def loses_digits(dtype: str) -> bool:
    """Whether the rounding of this type can be seen in an audit."""
    return dtype not in _EXACT


def step(values: RealArray, dtype: str) -> Float[np.ndarray, "..."]:
    """The distance between neighbouring numbers of the type, at each of ``values``."""
    if dtype in _LAST_BIT:
        bits, lowest = _LAST_BIT[dtype]
        exponent = np.frexp(values)[1] - 1
        steps: RealArray = np.ldexp(np.float32(1), np.maximum(exponent, lowest) - bits)
        return steps
    size = values.shape[-1]
    block = next((length for length in _blocks(dtype) if size % length == 0), size)
    ordered = np.sort(values.reshape(-1, block), axis=-1)
    gaps = np.diff(ordered, axis=-1)
    smallest = np.where(gaps > 0, gaps, np.inf).min(-1, initial=np.inf)
    smallest = np.where(np.isfinite(smallest), smallest, 0)
    return np.repeat(smallest, block).reshape(values.shape).astype(values.dtype)


def _blocks(dtype: str) -> tuple[int, ...]:
    return (_SHORT_BLOCK,) if "_K" in dtype or dtype.startswith("IQ") else (_BLOCK, _SHORT_BLOCK)
