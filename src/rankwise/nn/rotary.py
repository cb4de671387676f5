"""Rotary positions: pairs of coordinates turn by an angle proportional to the position.

Shapes: N positions, R rank, P = dims / 2 rotating pairs, F rows of frequencies.
"""

from __future__ import annotations

import torch
from jaxtyping import Float, Int
from torch import Tensor

from rankwise.errors import ShapeError
from rankwise.spec.attention import RotarySpec


def rotation(
    positions: Int[Tensor, "... N"], spec: RotarySpec, rank: int, dtype: torch.dtype
) -> tuple[Float[Tensor, "... P"], Float[Tensor, "... P"]]:
    """Cosine and sine of ``position * base**(-2i / dims)`` for the pairs i = 0 .. P - 1 of a rank-``rank`` head.

    ``dtype`` is that of the tensor to be rotated: float64 angles are computed and returned for float64,
    float32 ones (as ``transformers`` does) for every narrower type, whose integers would end at 256 (bfloat16).
    Leading dimensions of ``positions`` must broadcast with those of the tensor to be rotated. Where ``spec`` has
    ``frequencies`` of its own, the last two dimensions are their rows and pairs: [..., N, F, P].
    """
    exact = torch.float64 if dtype == torch.float64 else torch.float32
    dims = spec.rotated(rank)
    if spec.frequencies is not None:
        rows = torch.tensor(spec.frequencies, dtype=exact, device=positions.device)
        turned = positions[..., None, None].to(exact) * rows
        return turned.cos(), turned.sin()
    exponents = torch.arange(0, dims, 2, dtype=exact, device=positions.device) / dims
    angles = positions[..., None].to(exact) * (1.0 / spec.base**exponents)
    return angles.cos(), angles.sin()


def rotate(
    x: Float[Tensor, "... R"], cos: Float[Tensor, "... P"], sin: Float[Tensor, "... P"], interleaved: bool
) -> Float[Tensor, "... R"]:
    """``x`` [..., N, R] with its first 2P coordinates turned pair by pair; the others pass through.

    Pair i is coordinates (2i, 2i + 1) if ``interleaved`` (DeepSeek), else (i, i + P) (Llama); each keeps its place:
    ``(a, b) -> (a cos - b sin, b cos + a sin)``. The product is taken in the wider of the two types and returned
    in that of ``x``. Since ``rotate(q, m) . rotate(k, n)`` depends on ``m - n`` alone, so do the scores.
    """
    dims = 2 * cos.shape[-1]
    if x.shape[-1] < dims:
        raise ShapeError(
            f"rotate: expected at least {dims} coordinates (cos and sin hold {dims // 2} pairs), got x {list(x.shape)}"
        )
    turning, still = x[..., :dims], x[..., dims:]
    if interleaved:
        a, b = turning[..., 0::2], turning[..., 1::2]
        turned = torch.stack((a * cos - b * sin, b * cos + a * sin), dim=-1).flatten(-2)
    else:
        a, b = turning.chunk(2, dim=-1)
        turned = torch.cat((a * cos - b * sin, b * cos + a * sin), dim=-1)
    turned = turned.to(x.dtype)
    return torch.cat((turned, still), dim=-1) if still.shape[-1] else turned
