"""Which keys a query may see, and what is added to its scores.

Legend: B batch, H heads, I queries, J keys.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from rankwise.errors import InvalidInputError, ShapeError

Sizes = tuple[int, int, int, int]
"""(B, H, I, J) of a call."""

Positions = Tensor | Sequence[int] | Sequence[Sequence[int]]
"""Where tokens stand, whole numbers [N] or [B, N]: a tensor, a list, a range."""


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


def checked_positions(
    name: str, given: Positions | None, batch: int, tokens: int, device: torch.device
) -> Int[Tensor, "..."] | None:
    """``given`` as a tensor of whole numbers [tokens] or [batch, tokens]; None stays None."""
    if given is None:
        return None
    try:
        positions = given if isinstance(given, Tensor) else torch.as_tensor(given, device=device)
    except (TypeError, ValueError) as error:
        raise InvalidInputError(f"{name}: expected whole numbers, one per token, got {given!r:.80}") from error
    if positions.dtype not in (torch.int32, torch.int64) or positions.shape not in ((tokens,), (batch, tokens)):
        raise ShapeError(
            f"{name}: expected whole numbers [tokens] = [{tokens}] or [batch, tokens] = [{batch}, {tokens}], "
            f"got {positions.dtype} {list(positions.shape)}"
        )
    return positions


def token_positions(positions: Tensor | None, tokens: int, device: torch.device) -> Int[Tensor, "b N"]:
    """``positions`` [N] or [B, N] as [1, N] or [B, N]; 0, 1, 2, ... where none are given."""
    if positions is None:
        return torch.arange(tokens, device=device)[None]
    return positions if positions.ndim == 2 else positions[None]


def combined_mask(
    structure: Bool[Tensor, "own I J"] | None, mask: Tensor | None, key_padding_mask: Tensor | None, sizes: Sizes
) -> tuple[Bool[Tensor, "b h i J"] | None, Float[Tensor, "_ _ _ J"] | None]:
    """All masks at once: what is visible and what is added to scores, both broadcastable to ``sizes`` = (B, H, I, J).

    - ``mask``: [I, J], [B, I, J] or [B, H, I, J], where B, H and I may be 1; booleans, True = visible, or numbers to
      add to the scores, as in ``scaled_dot_product_attention``.
    - ``key_padding_mask``: [B, J]; booleans, True = padding that nobody sees, or numbers to add, as in
      ``nn.MultiheadAttention``.

    None for all visible, and for nothing added. A key at which minus infinity is added is not visible.
    """
    seen = [] if structure is None else [structure[:, None]]
    added: list[Tensor] = []
    if mask is not None:
        full = _checked_mask(mask, sizes)
        (seen if full.dtype == torch.bool else added).append(full)
    if key_padding_mask is not None:
        padding = _checked_padding(key_padding_mask, sizes)
        if padding.dtype == torch.bool:
            seen.append(~padding)
        else:
            added.append(padding)
    seen += [bias != float("-inf") for bias in added]
    visible = seen[0] if seen else None
    for part in seen[1:]:
        visible = part if visible is None else visible & part
    return visible, sum(added[1:], start=added[0]) if added else None


def _checked_mask(mask: Tensor, sizes: Sizes) -> Tensor:
    if mask.dtype != torch.bool and not mask.is_floating_point():
        raise InvalidInputError(f"mask: expected booleans (True = visible) or numbers to add, got {mask.dtype}")
    batch, heads, queries, keys = sizes
    full = {2: mask[None, None], 3: mask[:, None], 4: mask}.get(mask.ndim) if mask.ndim in (2, 3, 4) else None
    fits = full is not None and all(
        have in (1, want) for have, want in zip(full.shape[:3], (batch, heads, queries), strict=True)
    )
    if full is None or not fits or full.shape[3] != keys:
        raise ShapeError(
            f"mask: expected [queries, keys] = {[queries, keys]}, [batch, queries, keys] = {[batch, queries, keys]} or "
            f"[batch, heads, queries, keys] = {[batch, heads, queries, keys]} (1 broadcasts, except for keys), "
            f"got {list(mask.shape)}; padding of keys goes into key_padding_mask=[batch, keys]"
        )
    return full


def _checked_padding(padding: Tensor, sizes: Sizes) -> Tensor:
    batch, _, _, keys = sizes
    kind = padding.dtype == torch.bool or padding.is_floating_point()
    if not kind or padding.shape != (batch, keys):
        raise ShapeError(
            f"key_padding_mask: expected [batch, keys] = {[batch, keys]}, booleans (True = padding) or numbers to add, "
            f"got {padding.dtype} {list(padding.shape)}"
        )
    return padding[:, None, None, :]
