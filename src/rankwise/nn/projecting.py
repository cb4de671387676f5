"""The linear maps before attention, all heads at once.

Legend: B batch, N tokens, c their dimension.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from jaxtyping import Float
from torch import Tensor
from torch.nn.functional import linear

# Stacking the projections of the same tokens saves launches, and costs a copy of their gradients: it pays while narrow.
_STACKED_UP_TO_COLUMNS = 512


def projected(
    tokens: Float[Tensor, "B N c"], parts: Sequence[tuple[Float[Tensor, "_ _ c"], Float[Tensor, "_ _"] | None]]
) -> list[Float[Tensor, "B N _ _"]]:
    """All heads of each part (weights [heads, rank, c], biases [heads, rank]) in one product; narrow parts together."""
    weights = [weight.flatten(0, 1) for weight, _ in parts]
    biases = [None if bias is None else bias.flatten() for _, bias in parts]
    stacked_bias = [bias for bias in biases if bias is not None]
    if len(parts) > 1 and sum(map(len, weights)) <= _STACKED_UP_TO_COLUMNS:
        stacked = linear(tokens, torch.cat(weights), torch.cat(stacked_bias) if stacked_bias else None)
        flat = list(stacked.split([len(weight) for weight in weights], dim=2))
    else:
        flat = [linear(tokens, weight, bias) for weight, bias in zip(weights, biases, strict=True)]
    return [piece.unflatten(2, weight.shape[:2]) for piece, (weight, _) in zip(flat, parts, strict=True)]
