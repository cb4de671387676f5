"""How the new factors are stored: in a floating type, or, beside the blocks of a GGUF file, in blocks of their own.

A block holds 32 numbers as eight-bit integers and the scale they share: 8.5 bits a number. Fewer bits cost more than
the cut: a quarter of SmolLM2's cache is .200 nats from the original with ``Q8_0`` and .234 with ``Q5_0`` (.196 without
blocks; one validation piece of 512 tokens).
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal

import torch
from safetensors.torch import load_file, save_file
from torch import Tensor

from rankwise.errors import MissingExtraError

StoredType = Literal["float32", "float16", "bfloat16", "Q8_0"]
KEYS_VALUES = re.compile(r"blk\.\d+\.attn_[kv]\.(weight|bias)")
"""What factors replace in a GGUF file."""
_BLOCK = 32


def rounded(value: Tensor, kind: StoredType) -> Tensor:
    """``value`` as it will be read back."""
    return _decoded(_encoded(value, kind), value, kind)


def write_factors(file: Path, factors: Mapping[str, Tensor], kind: StoredType) -> None:
    """All factors, whose values are those that ``rounded`` gives."""
    save_file({name: _encoded(value.detach(), kind) for name, value in factors.items()}, file, {"format": "pt"})


def read_factors(file: Path, wanted: Mapping[str, Tensor], kind: StoredType) -> dict[str, Tensor]:
    """What was written, for factors of the shapes of ``wanted``."""
    return {
        name: _decoded(value, wanted[name], kind) if name in wanted else value
        for name, value in load_file(file).items()
    }


def _encoded(value: Tensor, kind: StoredType) -> Tensor:
    if kind != "Q8_0":
        return value.to(getattr(torch, kind)).contiguous()
    if not _in_blocks(value):
        return value.float().contiguous()
    rows = value if value.shape[1] % _BLOCK == 0 else value.mT
    quants: Any = _gguf().quants
    return torch.from_numpy(quants.quantize(rows.contiguous().numpy(), _gguf().GGMLQuantizationType[kind]))


def _decoded(stored: Tensor, like: Tensor, kind: StoredType) -> Tensor:
    if stored.dtype != torch.uint8:
        return stored.float()
    quants: Any = _gguf().quants
    rows = torch.from_numpy(quants.dequantize(stored.numpy(), _gguf().GGMLQuantizationType[kind]))
    return rows if like.shape[1] % _BLOCK == 0 else rows.mT.contiguous()


def _in_blocks(value: Tensor) -> bool:
    """Matrices with whole blocks in their rows or columns; biases stay as they are."""
    return value.ndim == 2 and any(size % _BLOCK == 0 for size in value.shape)


def _gguf() -> Any:
    try:
        import gguf
    except ImportError:
        raise MissingExtraError("gguf", "storing factors in blocks") from None
    return gguf
