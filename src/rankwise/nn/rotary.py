"""Rotary positions: pairs of coordinates turn by an angle proportional to the position.

Shapes: N positions, B batch, I queries, J keys, H heads, G key heads, R rank, P = dims / 2 rotating pairs,
F rows of frequencies.
"""

from __future__ import annotations

import torch
from jaxtyping import Float, Int
from torch import Tensor

from rankwise.errors import ShapeError
from rankwise.spec import RotarySpec


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


def rotated_pair(
    queries: Float[Tensor, "B I H R"],
    keys: Float[Tensor, "B J G R"],
    positions: Int[Tensor, "..."] | None,
    context_positions: Int[Tensor, "..."] | None,
    spec: RotarySpec,
) -> tuple[Float[Tensor, "B I H R"], Float[Tensor, "B J G R"]]:
    """Queries and keys turned by their positions; the angles are computed once where both have the same."""

    def angles(tokens: int, places: Tensor | None) -> tuple[Tensor, Tensor]:
        places = torch.arange(tokens, device=queries.device) if places is None else places
        cos, sin = rotation(places, spec, queries.shape[3], queries.dtype)
        return (cos.unsqueeze(-2), sin.unsqueeze(-2)) if spec.frequencies is None else (cos, sin)

    def turned(x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
        if spec.frequencies is not None:
            each = x.shape[2] // cos.shape[-2]  # heads that turn alike
            cos, sin = cos.repeat_interleave(each, -2), sin.repeat_interleave(each, -2)
        return rotate(x, cos, sin, spec.interleaved)

    asking = angles(queries.shape[1], positions)
    same = positions is context_positions and queries.shape[1] == keys.shape[1]
    asked = asking if same else angles(keys.shape[1], context_positions)
    return turned(queries, *asking), turned(keys, *asked)
