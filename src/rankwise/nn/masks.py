"""Which keys a query may see. True is visible everywhere, as in ``scaled_dot_product_attention``.

Legend: B batch, H heads, I queries, J keys.
"""

from __future__ import annotations

import torch
from jaxtyping import Bool, Int
from torch import Tensor

from rankwise.errors import InvalidInputError, ShapeError


def structural_mask(
    queries: Int[Tensor, "#b I"], keys: Int[Tensor, "#b J"], *, causal: bool, window: int | None
) -> Bool[Tensor, "b I J"] | None:
    """Causal: a query at position i sees keys at j <= i. Window w: |i - j| < w. Both: 0 <= i - j < w.

    - ``queries``, ``keys``: the positions of the tokens.

    None when all is visible.
    """
    if not causal and window is None:
        return None
    offset = queries[:, :, None] - keys[:, None, :]
    visible = offset >= 0 if causal else torch.ones_like(offset, dtype=torch.bool)
    return visible if window is None else visible & (offset.abs() < window)


def token_positions(positions: Tensor | None, tokens: int, device: torch.device) -> Int[Tensor, "b N"]:
    """``positions`` [N] or [B, N] as [1, N] or [B, N]; 0, 1, 2, ... where none are given."""
    if positions is None:
        return torch.arange(tokens, device=device)[None]
    return positions if positions.ndim == 2 else positions[None]


def combined_mask(
    structure: Bool[Tensor, "own I J"] | None,
    mask: Tensor | None,
    key_mask: Tensor | None,
    sizes: tuple[int, int, int, int],
) -> Bool[Tensor, "b h i J"] | None:
    """All masks at once, broadcastable to ``sizes`` = (B, H, I, J); None when all is visible.

    ``mask`` is [I, J], [B, I, J] or [B, H, I, J], where B, H and I may be 1; ``key_mask`` is [B, J].
    """
    parts = [] if structure is None else [structure[:, None]]
    if mask is not None:
        parts.append(_checked(mask, sizes))
    if key_mask is not None:
        batch, _, _, keys = sizes
        if key_mask.dtype != torch.bool or key_mask.shape != (batch, keys):
            raise ShapeError(
                f"key_mask: expected booleans [batch, keys] = {[batch, keys]} (True = real token), "
                f"got {key_mask.dtype} {list(key_mask.shape)}"
            )
        parts.append(key_mask[:, None, None, :])
    if not parts:
        return None
    visible = parts[0]
    for part in parts[1:]:
        visible = visible & part
    return visible


def _checked(mask: Tensor, sizes: tuple[int, int, int, int]) -> Bool[Tensor, "b h i J"]:
    if mask.dtype != torch.bool:
        raise InvalidInputError(f"mask: expected booleans (True = visible), got {mask.dtype}; use `mask = bias == 0`")
    batch, heads, queries, keys = sizes
    full = {2: mask[None, None], 3: mask[:, None], 4: mask}.get(mask.ndim) if mask.ndim in (2, 3, 4) else None
    fits = full is not None and all(
        have in (1, want) for have, want in zip(full.shape[:3], (batch, heads, queries), strict=True)
    )
    if full is None or not fits or full.shape[3] != keys:
        raise ShapeError(
            f"mask: expected [queries, keys] = {[queries, keys]}, [batch, queries, keys] = {[batch, queries, keys]} or "
            f"[batch, heads, queries, keys] = {[batch, heads, queries, keys]} (1 broadcasts, except for keys), "
            f"got {list(mask.shape)}; padding of keys goes into key_mask=[batch, keys]"
        )
    return full
