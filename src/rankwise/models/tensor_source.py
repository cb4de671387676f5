"""Named tensors of a model, wherever they are: what placement, audit and reduction read from.

``files.source.ModelSource`` reads them from files, ``ModuleSource`` from a module in memory. Both give numpy arrays in
float32 or float64, one tensor at a time.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from rankwise.errors import InvalidInputError, nearest_name
from rankwise.models.files.tensor_file import RealArray, TensorInfo

if TYPE_CHECKING:
    from torch import Tensor, nn


class TensorSource(Protocol):
    """The tensors of one model and its configuration."""

    @property
    def origin(self) -> str:
        """Where it is, for messages: the path, or the class of a module."""
        ...

    @property
    def name(self) -> str:
        """A short name for people."""
        ...

    @property
    def format(self) -> str:
        """``"safetensors"``, ``"gguf"`` or ``"module"``."""
        ...

    @property
    def config(self) -> Mapping[str, Any]:
        """The configuration as its file states it; ``{}`` without one."""
        ...

    @property
    def tensors(self) -> Mapping[str, TensorInfo]:
        """Shape and stored type of every tensor."""
        ...

    def info(self, name: str) -> TensorInfo:
        """Shape and stored type of one tensor; complains with the nearest name."""
        ...

    def has(self, name: str) -> bool:
        """Whether there is a tensor of that name."""
        ...

    def read(self, name: str) -> RealArray:
        """One tensor in float32 or float64."""
        ...

    def unreadable_because(self, name: str) -> str | None:
        """Why ``read`` would refuse the tensor, None if it would not."""
        ...

    def storage(self, names: list[str] | None = None) -> dict[str, int]:
        """How many tensors (of ``names``, default all) are stored in each type."""
        ...


class ModuleSource:
    """The parameters of a module in memory; ``config`` is the module's own, where it has one."""

    format = "module"

    def __init__(self, module: nn.Module) -> None:
        self.module = module
        stated = getattr(module, "config", None)
        self.config: Mapping[str, Any] = {} if stated is None else stated.to_dict()
        self._state: dict[str, Tensor] = dict(module.state_dict())
        self.tensors: Mapping[str, TensorInfo] = {
            name: TensorInfo(name, _dtype_name(tensor), tuple(tensor.shape)) for name, tensor in self._state.items()
        }

    @property
    def name(self) -> str:
        """The name it was loaded by, or its class."""
        return Path(str(self.config.get("_name_or_path") or "")).name or type(self.module).__name__

    @property
    def origin(self) -> str:
        """Its class."""
        return f"{type(self.module).__name__} in memory"

    def info(self, name: str) -> TensorInfo:
        """Shape and type of one tensor."""
        if name not in self.tensors:
            hint = nearest_name(name, list(self.tensors))
            raise InvalidInputError(f"{self.origin}: expected a tensor named {name!r}, got none{hint}")
        return self.tensors[name]

    def has(self, name: str) -> bool:
        """Whether the module has a tensor of that name."""
        return name in self.tensors

    def read(self, name: str) -> RealArray:
        """A copy of one tensor in float32; float64 stays."""
        self.info(name)
        tensor = self._state[name].detach()
        wide = tensor.double() if self.tensors[name].dtype == "F64" else tensor.float()
        return wide.cpu().numpy().copy()

    def unreadable_because(self, name: str) -> str | None:
        """Codes of quantised modules and tensors without data are refused."""
        if self._state[name].is_meta:
            return "on the meta device, without data"
        if not self._state[name].is_floating_point() or self.info(name).dtype.startswith("F8_"):
            return f"stored as {self.info(name).dtype}, which only its own kernels read"
        return None

    def storage(self, names: list[str] | None = None) -> dict[str, int]:
        """How many tensors are stored in each type."""
        return dict(Counter(self.info(name).dtype for name in (self.tensors if names is None else names)))


def as_source(model: TensorSource | nn.Module) -> TensorSource:
    """The tensors of a model: of a module in memory, or of what is a source already."""
    return ModuleSource(model) if hasattr(model, "state_dict") else model  # type: ignore[arg-type]


_DTYPES = {"float64": "F64", "float32": "F32", "float16": "F16", "bfloat16": "BF16", "float8_e4m3fn": "F8_E4M3",
           "uint8": "U8", "int8": "I8"}  # fmt: skip


def _dtype_name(tensor: Tensor) -> str:
    """The type by the name that safetensors gives it."""
    plain = str(tensor.dtype).removeprefix("torch.")
    return _DTYPES.get(plain, plain.upper())
