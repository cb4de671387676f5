"""Safetensors, read one tensor at a time into numpy, with every number of the header checked first.

The library's own reader judges the file (sizes, overlaps, gaps); the offsets are then read here because the library
gives bfloat16 to torch only and maps the whole file, so that memory would grow with every layer.
"""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
from safetensors import SafetensorError, safe_open

from rankwise.errors import InvalidInputError
from rankwise.foreign_file import open_regular
from rankwise.models.files.tensor_file import MAX_ELEMENTS, RealArray, TensorInfo, require_plain_name
from rankwise.spec import parse_json_object

_MAX_HEADER = 16 * 2**20
"""Headers of published checkpoints stay below 1 MB for a file."""

_AT_ONCE = 2**22
"""Numbers, read and widened together."""
_READABLE = {"F64": 8, "F32": 4, "F16": 2, "BF16": 2, "F8_E4M3": 1}
_PICKLE_STARTS = (b"PK\x03\x04", b"\x80\x02", b"\x80\x03", b"\x80\x04", b"\x80\x05")
_CONVERT = (
    "pickled weights can run code when they are read, so they are refused; convert them where you trust them: "
    "torch.load(FILE, weights_only=True) and safetensors.torch.save_file, or "
    "AutoModel.from_pretrained(DIR).save_pretrained(NEW_DIR) and, to run texts, the same of AutoTokenizer"
)


def refuse_pickle(path: Path) -> None:
    """Complain, with the way out, if the file is a pickle by its name or by its first bytes."""
    with open_regular(path, "a safetensors file") as file:
        start = file.read(4)
    if start.startswith(_PICKLE_STARTS):
        raise InvalidInputError(f"{path}: expected safetensors, got a pickle: {_CONVERT}")
    if path.suffix != ".safetensors":
        raise InvalidInputError(
            f"{path}: expected a .safetensors or .gguf file, got {path.suffix or 'no ending'!r}: {_CONVERT}"
        )


class SafetensorsFile:
    """One safetensors file."""

    def __init__(self, path: Path) -> None:
        self.path = path
        refuse_pickle(path)
        header_size, header = self._checked_header()
        self._data_start = 8 + header_size
        self.tensors: dict[str, TensorInfo] = {}
        self._spans: dict[str, tuple[int, int]] = {}
        for name, entry in header.items():
            if name == "__metadata__":
                continue
            self.tensors[name] = TensorInfo(require_plain_name(name, path), str(entry["dtype"]), tuple(entry["shape"]))
            begin, end = entry["data_offsets"]
            self._spans[name] = (begin, end)

    def readable(self, dtype: str) -> bool:
        """Whether ``read`` can widen the type."""
        return dtype in _READABLE

    def read(self, name: str) -> RealArray:
        """One tensor; half types are widened to float32 exactly."""
        info = self.tensors[name]
        if info.dtype not in _READABLE:
            raise InvalidInputError(f"{self.path}: {name}: expected one of {', '.join(_READABLE)}, got {info.dtype}")
        if math.prod(max(size, 1) for size in info.shape) > MAX_ELEMENTS:  # also beside a size of 0
            raise InvalidInputError(f"{self.path}: {name}: expected at most 2^32 numbers, got shape {list(info.shape)}")
        begin, end = self._spans[name]
        with self.path.open("rb") as file:
            file.seek(self._data_start + begin)
            count, kind = (end - begin) // _READABLE[info.dtype], np.float64 if info.dtype == "F64" else np.float32
            values: RealArray = np.empty(count, kind)
            for some in np.split(values, range(_AT_ONCE, len(values), _AT_ONCE)):  # narrow numbers are never all kept
                raw = np.fromfile(file, dtype=np.uint8, count=len(some) * _READABLE[info.dtype])
                if len(raw) != len(some) * _READABLE[info.dtype]:
                    raise InvalidInputError(f"{self.path}: {name}: expected {end - begin} bytes, got fewer: changed?")
                some[:] = _widened(raw, info.dtype)
        return values.reshape(info.shape)

    def _checked_header(self) -> tuple[int, dict[str, dict[str, list[int]]]]:
        size = self.path.stat().st_size
        with self.path.open("rb") as file:
            start = file.read(8)
            header_size = int.from_bytes(start, "little")
            if len(start) < 8 or header_size > min(_MAX_HEADER, size - 8):
                raise InvalidInputError(
                    f"{self.path}: expected a safetensors header of at most {min(_MAX_HEADER, max(size - 8, 0))} "
                    f"bytes, got one that claims {header_size}"
                )
            content = file.read(header_size)
        header = parse_json_object(content, where=f"{self.path}: header")
        try:
            with safe_open(self.path, framework="np"):
                pass
        except (SafetensorError, OSError, ValueError) as error:
            raise InvalidInputError(f"{self.path}: expected a valid safetensors file, got: {error!s:.300}") from None
        return header_size, header


def _widened(raw: np.ndarray[tuple[int], np.dtype[np.uint8]], dtype: str) -> RealArray:
    if dtype == "F64":
        return raw.view("<f8")
    if dtype == "F32":
        return raw.view("<f4")
    if dtype == "F16":
        return raw.view("<f2").astype(np.float32)
    if dtype == "BF16":
        wide = raw.view("<u2").astype("<u4")
        wide <<= 16
        return wide.view("<f4")
    return _FLOAT8[raw]


def _float8_values() -> RealArray:
    """The 256 values of float8 e4m3 (bias 7, no infinities, 0x7f and 0xff not a number)."""
    codes = np.arange(256)
    exponent, mantissa = (codes >> 3) & 15, codes & 7
    size = np.where(exponent == 0, mantissa / 8 * 2.0**-6, (1 + mantissa / 8) * 2.0 ** (exponent - 7))
    size[(codes & 127) == 127] = np.nan
    return np.where(codes >= 128, -size, size).astype(np.float32)


_FLOAT8 = _float8_values()
