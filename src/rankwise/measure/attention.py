"""The ranks of the attention matrices of a layer, head by head.

Legend: B examples, H heads, I queries, J keys.
"""

from __future__ import annotations

import torch
from jaxtyping import Float, Shaped
from torch import Tensor

from rankwise.errors import InvalidInputError, ShapeError
from rankwise.measure.rank import effective_rank, hardmax_rank, numerical_rank, stable_rank

_THRESHOLDS = (0.1, 0.01, 0.001)


def attention_ranks(weights: Shaped[Tensor, "..."]) -> dict[str, Float[Tensor, " H"]]:
    """Mean over examples of each rank of ``weights`` [B, H, I, J] (rows sum to 1), every head apart.

    ``hardmax``, ``effective``, ``stable``, ``above_0.1``, ``above_0.01``, ``above_0.001`` (numerical rank at that
    fraction of the largest singular value), and two that are not ranks: ``entropy`` of a row in nats and ``largest``
    weight of a row. A row of zeros (a query that sees nothing) picks no column and is left out of these two.
    Definitions: ``measure.rank``. Compare hardmax with the mean of random heads under the same mask
    (``theory.saturation``): 0.632 n without one, (n + 1) / 2 under a causal one.
    """
    if weights.ndim != 4:
        raise ShapeError(f"weights: expected [examples, heads, queries, keys], got {list(weights.shape)}")
    if not weights.is_floating_point() or weights.numel() == 0:
        raise InvalidInputError(f"weights: expected attention weights, got {weights.dtype} {list(weights.shape)}")
    weights = weights.detach().double()
    if not bool(weights.isfinite().all()):
        raise InvalidInputError(
            "weights: expected finite numbers, got infinite or NaN entries; check the mask and the softmax before them"
        )
    spectrum = torch.linalg.svdvals(weights)
    sees = weights.sum(-1, keepdim=True) > 0
    seeing = sees.sum((-2, -1)).clamp(min=1)
    ranks = {
        "hardmax": hardmax_rank(weights.masked_fill(~sees, -torch.inf)),
        "effective": effective_rank(singular_values=spectrum),
        "stable": stable_rank(singular_values=spectrum),
        **{f"above_{tau:g}": numerical_rank(rtol=tau, singular_values=spectrum) for tau in _THRESHOLDS},
        "entropy": torch.special.entr(weights).sum((-2, -1)) / seeing,
        "largest": weights.amax(-1).sum(-1) / seeing,
    }
    return {name: values.double().mean(dim=0) for name, values in ranks.items()}
