"""What decoding keeps of the tokens so far.

Legend: B batch, I new tokens, J all tokens so far, h heads.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from jaxtyping import Float, Int
from torch import Tensor

from rankwise.errors import InvalidInputError, ShapeError, require_int
from rankwise.nn.masks import token_positions


class TokenCache:
    """Buffers for ``capacity`` tokens, allocated once; ``layer.new_cache(batch, capacity)`` makes one.

    - ``length``: the tokens that are kept, the first ``length`` of every buffer.
    - ``positions``: where they stand, [B, capacity]; None for 0, 1, 2, ...

    Every buffer is [B, heads, capacity, size], so that the tokens of a head lie together. A cache carries no gradient.
    """

    def __init__(
        self,
        batch: int,
        capacity: int,
        sizes: Sequence[tuple[int, int]],
        *,
        device: torch.device | None = None,
        dtype: torch.dtype | None = None,
    ) -> None:
        self.batch, self.capacity = require_int("batch", batch, minimum=1), require_int("capacity", capacity, minimum=1)
        self.length = 0
        self.positions: Tensor | None = None
        self.buffers = tuple(
            torch.zeros(batch, heads, capacity, size, device=device, dtype=dtype) for heads, size in sizes
        )

    @property
    def nbytes(self) -> int:
        """Bytes of all buffers, used or not."""
        return sum(buffer.nbytes for buffer in self.buffers)

    def clear(self) -> None:
        """Forget all tokens and keep the memory."""
        self.length, self.positions = 0, None

    def next_positions(self, tokens: int, given: Tensor | None) -> Int[Tensor, "b I"]:
        """Where ``tokens`` new tokens stand: as ``given``, or after the last one."""
        if given is not None:
            return token_positions(given, tokens, self.buffers[0].device)
        if self.positions is not None:
            raise InvalidInputError("positions: expected them with every call to a cache that was filled with some")
        return torch.arange(self.length, self.length + tokens, device=self.buffers[0].device)[None]

    def extend(
        self, new: Sequence[Float[Tensor, "B I _ _"]], positions: Int[Tensor, "_ I"] | None
    ) -> list[Float[Tensor, "B J _ _"]]:
        """Keep the ``new`` tokens, one tensor per buffer, and return all tokens so far.

        - ``positions``: where the new ones stand; None where they follow the others.
        """
        batch, tokens = new[0].shape[:2]
        have = [(buffer.shape[1], buffer.shape[3]) for buffer in self.buffers]
        if [tuple(each.shape[2:]) for each in new] != have:
            raise ShapeError(
                f"cache: expected one made by this layer's new_cache, of (heads, size) = "
                f"{[tuple(each.shape[2:]) for each in new]}, got {have}"
            )
        start, end = self.length, self.length + tokens
        if batch != self.batch:
            raise ShapeError(f"cache: expected batch {self.batch}, as it was made, got {batch}")
        if end > self.capacity:
            raise InvalidInputError(f"cache: expected at most {self.capacity} tokens, its capacity, got {end}")
        if torch.is_grad_enabled() and any(each.requires_grad for each in new):
            raise InvalidInputError("cache: expected torch.no_grad(): a cache is for decoding and keeps no gradient")
        if positions is not None:
            if self.positions is None:
                every = torch.arange(self.capacity, device=positions.device)
                self.positions = every.repeat(self.batch, 1)
            self.positions[:, start:end] = positions
        for buffer, each in zip(self.buffers, new, strict=True):
            buffer[:, :, start:end].copy_(each.transpose(1, 2))
        self.length = end
        return [buffer[:, :, :end].transpose(1, 2) for buffer in self.buffers]

    def __repr__(self) -> str:
        return f"TokenCache({self.length} of {self.capacity} tokens, batch={self.batch}, {self.nbytes:,} bytes)"
