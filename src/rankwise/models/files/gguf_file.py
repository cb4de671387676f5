"""GGUF, read one tensor at a time; the package ``gguf`` undoes the quantisation.

The header is walked here: the package's reader keeps a numpy view for every token of the vocabulary, which takes
seconds and hundreds of megabytes before the first weight. Every length is checked against the size of the file.
"""

from __future__ import annotations

import math
import struct
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np

from rankwise.errors import InvalidInputError, MissingExtraError
from rankwise.foreign_file import open_regular
from rankwise.models.files.tensor_file import MAX_ELEMENTS, RealArray, TensorInfo, require_plain_name

_SCALARS = {0: "<B", 1: "<b", 2: "<H", 3: "<h", 4: "<I", 5: "<i", 6: "<f", 7: "<?", 10: "<Q", 11: "<q", 12: "<d"}
_STRING, _ARRAY = 8, 9
_LONGEST_TEXT = 2**20  # chat templates
_KEPT_ARRAY = 4096  # per-layer numbers are kept, vocabularies are skipped


class GgufFile:
    """One GGUF file; ``config`` holds its metadata (``general.architecture``, ``llama.block_count``, ...)."""

    def __init__(self, path: Path) -> None:
        try:
            from gguf import GGML_QUANT_SIZES, GGMLQuantizationType
        except ImportError:
            raise MissingExtraError("gguf", "reading GGUF files") from None
        self.path = path
        with open_regular(path, "a GGUF file") as file:
            reader = _Reader(file, path)
            self.config, entries, data_start = reader.header()
        size = path.stat().st_size
        self.tensors: dict[str, TensorInfo] = {}
        self._spans: dict[str, tuple[int, int]] = {}
        for name, dims, kind, offset in entries:
            try:
                quantisation = GGMLQuantizationType(kind)
            except ValueError:
                raise reader.wrong(f"{name}: a known quantisation", kind) from None
            block, block_bytes = GGML_QUANT_SIZES[quantisation]
            shape = tuple(reversed(dims))
            if name in self.tensors:
                raise reader.wrong("each tensor once", name)
            if shape and shape[-1] % block:
                raise reader.wrong(f"{name}: rows in blocks of {block} ({quantisation.name})", list(shape))
            count = math.prod(shape) // block * block_bytes
            if data_start + offset + count > size:
                raise reader.wrong(
                    f"{name}: data within the file's {size} bytes", f"{count} bytes at {data_start + offset}"
                )
            self.tensors[name] = TensorInfo(require_plain_name(name, path), quantisation.name, shape)
            self._spans[name] = (data_start + offset, count)

    def readable(self, dtype: str) -> bool:
        """Whether the package can undo the quantisation."""
        from gguf import GGML_QUANT_SIZES, GGMLQuantizationType
        from gguf.quants import dequantize

        kind = GGMLQuantizationType[dtype]
        try:
            dequantize(np.zeros((1, GGML_QUANT_SIZES[kind][1]), dtype=np.uint8), kind)
        except NotImplementedError:
            return False
        return True

    def read(self, name: str) -> RealArray:
        """One tensor, dequantised to float32."""
        from gguf import GGML_QUANT_SIZES, GGMLQuantizationType
        from gguf.quants import dequantize

        info = self.tensors[name]
        if math.prod(max(size, 1) for size in info.shape) > MAX_ELEMENTS:  # also beside a size of 0
            raise InvalidInputError(f"{self.path}: {name}: expected at most 2^32 numbers, got shape {list(info.shape)}")
        begin, count = self._spans[name]
        with self.path.open("rb") as file:
            file.seek(begin)
            raw = np.fromfile(file, dtype=np.uint8, count=count)
        kind = GGMLQuantizationType[info.dtype]
        block, block_bytes = GGML_QUANT_SIZES[kind]
        rows = raw.reshape(*info.shape[:-1], info.shape[-1] // block * block_bytes)
        if not self.readable(info.dtype):
            raise InvalidInputError(
                f"{self.path}: {name}: expected a quantisation that can be undone, got {info.dtype}"
            )
        return np.asarray(dequantize(rows, kind), dtype=np.float32).reshape(info.shape)


class _Reader:
    def __init__(self, file: BinaryIO, path: Path) -> None:
        self.file, self.path = file, path
        self.size = path.stat().st_size

    def header(self) -> tuple[dict[str, Any], list[tuple[str, list[int], int, int]], int]:
        """Metadata, (name, dimensions, type, offset) of every tensor, and where the data starts."""
        if self.take(4) != b"GGUF":
            raise self.wrong("the letters GGUF at the start", "something else")
        version = self.number("<I")
        if version not in (2, 3):
            raise self.wrong("version 2 or 3", version)
        tensors, pairs = self.count(24), self.count(12)
        config: dict[str, Any] = {}
        for _ in range(pairs):
            key = self.text()
            if key in config:
                raise self.wrong("each key once", key)
            config[key] = self.value(self.number("<I"))
        entries = [self.entry() for _ in range(tensors)]
        alignment = config.get("general.alignment", 32)
        if not isinstance(alignment, int) or not 1 <= alignment <= 2**20:
            raise self.wrong("general.alignment: a whole number up to 2^20", alignment)
        return config, entries, -(-self.file.tell() // alignment) * alignment

    def entry(self) -> tuple[str, list[int], int, int]:
        name, axes = self.text(), self.number("<I")
        if not 0 < axes <= 8:
            raise self.wrong(f"{name}: 1 to 8 dimensions", axes)
        dims = [self.number("<Q") for _ in range(axes)]
        return name, dims, self.number("<I"), self.number("<Q")

    def value(self, kind: int) -> Any:
        """A value; arrays longer than a few thousand (vocabularies) become None."""
        if kind in _SCALARS:
            return self.number(_SCALARS[kind])
        if kind == _STRING:
            return self.text()
        if kind != _ARRAY:
            raise self.wrong("a known type of value", kind)
        inner = self.number("<I")
        if inner == _ARRAY or (inner not in _SCALARS and inner != _STRING):
            raise self.wrong("an array of numbers or strings", inner)
        if inner == _STRING:
            count = self.count(8)
            if count <= _KEPT_ARRAY:
                return [self.text() for _ in range(count)]
            for _ in range(count):
                self.skip(self.number("<Q"))
            return None
        form = _SCALARS[inner]
        count = self.count(struct.calcsize(form))
        if count <= _KEPT_ARRAY:
            return [self.number(form) for _ in range(count)]
        self.skip(count * struct.calcsize(form))
        return None

    def number(self, form: str) -> Any:
        return struct.unpack(form, self.take(struct.calcsize(form)))[0]

    def count(self, least_bytes: int) -> int:
        """How many items follow; each takes at least ``least_bytes``, so that the file bounds the number."""
        count: int = self.number("<Q")
        if count * least_bytes > self.size:
            raise self.wrong(f"no more items than the file's {self.size} bytes can hold", count)
        return count

    def text(self) -> str:
        length = self.number("<Q")
        if length > _LONGEST_TEXT:
            raise self.wrong(f"a text of at most {_LONGEST_TEXT} bytes", length)
        return self.take(length).decode("utf-8", errors="replace")

    def skip(self, length: int) -> None:
        if self.file.tell() + length > self.size:
            raise self.wrong(f"data within the file's {self.size} bytes", f"{length} bytes more")
        self.file.seek(length, 1)

    def take(self, length: int) -> bytes:
        taken = self.file.read(length)
        if len(taken) < length:
            raise self.wrong("a complete header", "the end of the file")
        return taken

    def wrong(self, expected: str, got: object) -> InvalidInputError:
        return InvalidInputError(f"{self.path}: expected {expected}, got {got!r:.200}")
