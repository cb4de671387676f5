"""What an attention shape costs, and which head dimensions kernels like.

Counted from the shape alone: weights, floating-point operations of one token at a full context (2 for a multiply and an
add), bytes of keys and values. Softmax, norms, rotary positions and the MLP are not counted.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from rankwise.errors import require_choice
from rankwise.shapes import STATE_BYTES, ModelShape

_BYTES = {"float32": 4, "bfloat16": 2, "float16": 2, "float8": 1, "int8": 1}
FLASH_LIMIT = 256
"""FlashAttention 2 and PyTorch's flash kernel refuse larger heads, PyTorch's also value dimensions unlike the keys'."""
_FLASH_TILES = (32, 64, 96, 128, 192, 256)
"""Head dimensions FlashAttention 2 is compiled for; others run in the next larger one."""
STEP = 8
"""Half-precision tensor cores and memory-efficient attention want multiples of it (16 bytes)."""


@dataclass(frozen=True, kw_only=True)
class Resources:
    """``parameters``: attention weights of all layers. ``flops_per_token``: of all layers, attending to the whole
    context. ``kv_bytes``: keys and values of one sequence at full context; None where layers differ or none are kept.
    """

    parameters: int
    flops_per_token: int
    kv_bytes_per_token: int | None
    kv_bytes: int | None


@dataclass(frozen=True, kw_only=True)
class Rounding:
    """A head dimension next to the wanted one that kernels take, and what going there costs in attention weights.

    ``tile`` is the size FlashAttention 2 computes it in, None beyond its limit.
    """

    rank: int
    tile: int | None
    parameters: float
    """Relative to the shape with the wanted rank."""


def resources(shape: ModelShape, *, length: int, reach: float | None, dtype: str, cached: bool = True) -> Resources:
    """Resources of ``shape`` at ``length`` tokens, of which a token sees the latest ``reach`` (all when None).

    Both costs that depend on the reach are linear in it: where layers differ, their mean gives the exact sum.
    """
    require_choice("dtype", dtype, tuple(_BYTES))
    seen = length if reach is None else min(length, reach)
    a_layer = 2 * shape.stored_parameters + 2 * shape.heads * (shape.rank + shape.value_rank) * seen
    bytes_a_token = shape.kv_bytes_per_token if cached else None
    if bytes_a_token is not None:
        bytes_a_token = bytes_a_token // STATE_BYTES * _BYTES[dtype]
    return Resources(
        parameters=shape.layers * shape.stored_parameters,
        flops_per_token=round(shape.layers * a_layer),
        kv_bytes_per_token=bytes_a_token,
        kv_bytes=None if bytes_a_token is None else round(bytes_a_token * seen),
    )


def together(parts: Sequence[Resources]) -> Resources:
    """The resources of layers of different shapes."""
    per_token, whole = [part.kv_bytes_per_token for part in parts], [part.kv_bytes for part in parts]
    return Resources(
        parameters=sum(part.parameters for part in parts),
        flops_per_token=sum(part.flops_per_token for part in parts),
        kv_bytes_per_token=None if None in per_token else sum(filter(None, per_token)),
        kv_bytes=None if None in whole else sum(filter(None, whole)),
    )


def rounded_up(rank: int) -> int:
    """The next multiple of 8."""
    return -(-rank // STEP) * STEP


def flash_tile(rank: int) -> int | None:
    """The compiled size that a head of ``rank`` runs in; None beyond the limit."""
    return next((tile for tile in _FLASH_TILES if tile >= rank), None)


def roundings(rank: int) -> list[Rounding]:
    """The multiples of 8 around ``rank`` and the next compiled size, smallest first."""
    tile = flash_tile(rank)
    candidates = {max(STEP, rank // STEP * STEP), rounded_up(rank), tile or rounded_up(rank)}
    return [Rounding(rank=one, tile=flash_tile(one), parameters=one / rank) for one in sorted(candidates)]
