"""Opening a model for reading: its configuration, and its tensors one at a time.

Nothing here runs code that came with a model, and nothing is allocated because a file says so: headers are checked
against the size of the file before any number in them is used, and a tensor is read only when asked for.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from rankwise.errors import InvalidInputError, nearest_name, require_int
from rankwise.foreign_file import plain_name
from rankwise.models.files.hub import local_model
from rankwise.models.files.safetensors_file import SafetensorsFile, refuse_pickle
from rankwise.models.files.tensor_file import RealArray, TensorFile, TensorInfo
from rankwise.spec import read_json_object

INDEX = "model.safetensors.index.json"
SINGLE = "model.safetensors"
_MAX_INDEX_BYTES = 64 * 2**20
"""Seven times the index of DeepSeek-V3, which names 91,991 tensors in 8.9 MB."""
_SCALES = ("_scale_inv", "_scale")
"""What float8 codes are multiplied by: DeepSeek's name for it, and that of compressed-tensors and ModelOpt."""
_PICKLES = (".bin", ".pt", ".pth", ".ckpt", ".pkl")


_SAYS_NOTHING = {"model", "models", "checkpoint", "weights"}


def model_name(path: Path) -> str:
    """A short name for people: the folder's or the file's, with the folder above where that says nothing; the hub's
    for what came from there."""
    path = path.absolute()
    if path.parent.name == "snapshots":
        return plain_name(path.parents[1].name.removeprefix("models--").replace("--", "/"))
    return plain_name(f"{path.parent.name}/{path.name}" if path.name in _SAYS_NOTHING else path.name)


@dataclass(frozen=True)
class ModelSource:
    """A model on disk: ``config`` as its file states it (``{}`` without one) and lazily read tensors."""

    path: Path
    format: str
    """``"safetensors"`` or ``"gguf"``."""
    config: Mapping[str, Any]
    files: tuple[TensorFile, ...]
    _owners: dict[str, TensorFile] = field(repr=False)

    @property
    def origin(self) -> str:
        """The path, for messages."""
        return str(self.path)

    @property
    def name(self) -> str:
        """A short name for people."""
        return model_name(self.path)

    @property
    def tensors(self) -> dict[str, TensorInfo]:
        """Shape and stored type of every tensor, in the files' order."""
        return {name: owner.tensors[name] for name, owner in self._owners.items()}

    def info(self, name: str) -> TensorInfo:
        """Shape and stored type of one tensor."""
        return self._owner(name).tensors[name]

    def has(self, name: str) -> bool:
        """Whether the model has a tensor of that name."""
        return name in self._owners

    def read(self, name: str) -> RealArray:
        """One tensor, upcast exactly to float32 (float64 stays); quantised ones are dequantised."""
        owner = self._owner(name)
        if not self.is_float8(name):
            return owner.read(name)
        scale = self._scale_of(name)
        if scale is None:
            wanted = " or ".join(f"{name}{ending}" for ending in _SCALES)
            raise InvalidInputError(f"{self.path}: {name}: expected the scale of its float8 codes, {wanted}, got none")
        return self._scaled(owner.read(name), scale)

    def readable(self, name: str) -> bool:
        """Whether ``read`` knows the type the tensor is stored in, and the scale its codes stand for."""
        return self.unreadable_because(name) is None

    def unreadable_because(self, name: str) -> str | None:
        """Why ``read`` would refuse the tensor, None if it would not."""
        owner = self._owner(name)
        dtype = owner.tensors[name].dtype
        if not owner.readable(dtype):
            return f"stored as {dtype}, which only its own kernels read"
        if self.is_float8(name) and self._scale_of(name) is None:
            return f"stored as {dtype} without a known scale"
        return None

    def is_float8(self, name: str) -> bool:
        """Whether the tensor is stored as codes of 8 bits, whose values need a scale beside them."""
        return self.info(name).dtype.startswith("F8_")

    def _scale_of(self, name: str) -> str | None:
        return next((f"{name}{ending}" for ending in _SCALES if self.has(f"{name}{ending}")), None)

    def _scaled(self, tensor: RealArray, scale: str) -> RealArray:
        """The values of float8 codes: one factor for all, for each row, or for each block (DeepSeek-V3)."""
        factors = self._owner(scale).read(scale)
        if factors.size == 1:
            return tensor * factors.reshape(())
        if factors.shape in ((len(tensor),), (len(tensor), 1)):
            return tensor * factors.reshape(-1, *[1] * (tensor.ndim - 1))
        height, width = block = self._float8_block()
        blocks = [-(-size // length) for size, length in zip(tensor.shape, block, strict=False)]
        if tensor.ndim != 2 or list(factors.shape) != blocks:
            raise InvalidInputError(
                f"{self.path}: {scale}: expected one factor, one for each row, or one for each {list(block)} block of "
                f"{list(tensor.shape)}, got {list(factors.shape)}"
            )
        for row, line in enumerate(factors):
            tensor[row * height : (row + 1) * height] *= np.repeat(line, width)[: tensor.shape[1]]
        return tensor

    def _float8_block(self) -> tuple[int, int]:
        quantization = self.config.get("quantization_config")
        stated = quantization.get("weight_block_size") if isinstance(quantization, Mapping) else None
        if stated is None:
            return 128, 128
        if not isinstance(stated, list) or len(stated) != 2:
            raise InvalidInputError(f"weight_block_size: expected two whole numbers, got {stated!r:.100}")
        height, width = (require_int("weight_block_size", length, minimum=1) for length in stated)
        return height, width

    def file_of(self, name: str) -> Path:
        """The file that holds a tensor."""
        return self._owner(name).path

    def storage(self, names: list[str] | None = None) -> dict[str, int]:
        """How many tensors (of ``names``, default all) are stored in each type: the quantisation by its name."""
        return dict(Counter(self.info(name).dtype for name in (self._owners if names is None else names)))

    def _owner(self, name: str) -> TensorFile:
        if name not in self._owners:
            hint = nearest_name(name, list(self._owners))
            raise InvalidInputError(f"{self.path}: expected a tensor named {name!r}, got none{hint}")
        return self._owners[name]


def open_model(model: Path | str, *, config: Path | str | None = None, download: bool = False) -> ModelSource:
    """The model at ``model``: a folder with config.json and safetensors, one safetensors file, or a GGUF file.

    ``config`` replaces the folder's config.json, or stands beside a single file (whose own folder's config.json is
    taken otherwise). With ``download`` a name that is no path is fetched from the Hugging Face hub; without it no
    network is used.
    """
    path = local_model(model, download=download)
    if path.is_dir():
        files = _folder_files(path)
        folder_config = Path(config) if config is not None else path / "config.json"
        known = config is not None or folder_config.exists()  # without one, tensors can still be named by hand
        return _source(path, "safetensors", read_json_object(folder_config) if known else {}, files)
    if path.suffix == ".gguf":
        from rankwise.models.files.gguf_file import GgufFile

        gguf = GgufFile(path)
        return _source(path, "gguf", gguf.config, {gguf: None})
    beside = path.parent / "config.json"
    if config is None and beside.is_file():
        config = beside
    refuse_pickle(path)
    file = SafetensorsFile(path)
    return _source(path, "safetensors", {} if config is None else read_json_object(Path(config)), {file: None})


def _source(
    path: Path, form: str, config: Mapping[str, Any], files: Mapping[TensorFile, set[str] | None]
) -> ModelSource:
    """``files`` maps each file to the tensors it is to provide, None for all."""
    owners: dict[str, TensorFile] = {}
    for file, wanted in files.items():
        for name in file.tensors if wanted is None else sorted(wanted):
            if name in owners:
                raise InvalidInputError(
                    f"{file.path}: expected {name!r} in one file, got it in {owners[name].path} too"
                )
            owners[name] = file
    return ModelSource(path, form, config, tuple(files), owners)


def _folder_files(folder: Path) -> dict[TensorFile, set[str] | None]:
    if (folder / INDEX).exists():
        return _sharded(folder)
    if (folder / SINGLE).exists():
        return {SafetensorsFile(folder / SINGLE): None}
    found = sorted(folder.glob("*.safetensors"))
    if len(found) == 1:
        return {SafetensorsFile(found[0]): None}
    if found:
        names = ", ".join(path.name for path in found[:5])
        raise InvalidInputError(f"{folder}: expected {INDEX} or one safetensors file, got several: {names}")
    for path in sorted(folder.iterdir()):
        if path.suffix in _PICKLES:
            refuse_pickle(path)
    gguf = next(iter(sorted(folder.glob("*.gguf"))), None)
    hint = f"; pass the GGUF file itself: {gguf}" if gguf else ""
    raise InvalidInputError(f"{folder}: expected model.safetensors or {INDEX}, got neither{hint}")


def _sharded(folder: Path) -> dict[TensorFile, set[str] | None]:
    index = folder / INDEX
    weight_map = read_json_object(index, _MAX_INDEX_BYTES).get("weight_map")
    if not isinstance(weight_map, dict) or not weight_map:
        raise InvalidInputError(f"{index}: weight_map: expected an object of tensor and file names, got something else")
    shards: dict[str, set[str]] = {}
    for tensor, shard in weight_map.items():
        # a shard lies beside its index: nothing else may be opened because an index names it
        if (
            not isinstance(shard, str)
            or "\\" in shard
            or Path(shard).name != shard
            or not shard.endswith(".safetensors")
        ):
            raise InvalidInputError(
                f"{index}: weight_map: expected the name of a .safetensors file in the same folder, got {shard!r:.100}"
            )
        shards.setdefault(shard, set()).add(tensor)
    if SINGLE not in shards and (folder / SINGLE).exists():  # transformers would run the one and we audit the other
        raise InvalidInputError(
            f"{folder}: expected one source of weights, got {SINGLE} and the other files that {INDEX} names; move the "
            f"one that is not meant out of the folder"
        )
    files: dict[TensorFile, set[str] | None] = {}
    for shard, tensors in sorted(shards.items()):
        file = SafetensorsFile(folder / shard)
        missing = sorted(tensors - file.tensors.keys())
        if missing:
            raise InvalidInputError(
                f"{folder / shard}: expected the {len(tensors)} tensors of {INDEX}, got a file without {missing[0]!r}"
            )
        files[file] = tensors
    return files
