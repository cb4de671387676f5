"""Which mask a layer has, and the rank its attention would have if every row picked a visible key at random.

Legend: N queries, M keys.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import Literal

import numpy as np
import torch
from jaxtyping import Bool
from torch import Tensor

from rankwise.theory import expected_hardmax_rank, hardmax_rank_mean


@dataclass(frozen=True, kw_only=True)
class SeenMask:
    """``kind`` of mask; ``window`` is how many of the latest keys a row sees. "other" has no name in the theory."""

    kind: Literal["full", "causal", "window", "other"]
    window: int | None = None

    def __str__(self) -> str:
        return f"window {self.window}" if self.kind == "window" else self.kind


def seen_mask(visible: Bool[Tensor, "N M"] | None) -> SeenMask:
    """The mask by name: row i sees keys 1..i (causal) or the latest of them (window), or everything (full)."""
    if visible is None or bool(visible.all()):
        return SeenMask(kind="full")
    if visible.shape[0] == visible.shape[1]:
        reach = int(visible[-1].sum())
        band = torch.ones_like(visible).tril().triu(1 - reach)
        if torch.equal(visible, band):
            whole = reach == visible.shape[0]
            return SeenMask(kind="causal") if whole else SeenMask(kind="window", window=reach)
    return SeenMask(kind="other")


def barrier(queries: int, keys: int, visible: Bool[Tensor, "N M"] | None) -> float:
    """Mean number of distinct keys that rows pick when each picks uniformly among those it sees.

    The closed forms of ``theory.occupancy`` where the mask has a name: 0.632 n (full), 0.5 n (causal). For all others
    ``sum_j [1 - prod_i (1 - 1/c_i)]`` over the rows i that see key j, with c_i keys visible to row i: the same argument
    (linearity over keys, independence of rows), our derivation.
    """
    mask = seen_mask(visible)
    if mask.kind == "full":
        return hardmax_rank_mean(keys, queries=queries)
    if mask.kind != "other":
        return hardmax_rank_mean(keys, mask.kind, mask.window)
    assert visible is not None
    return uniform_choice_mean(visible)


def uniform_choice_mean(visible: Bool[Tensor, "N M"]) -> float:
    """``sum_j [1 - prod_i (1 - 1/c_i)]``; a row that sees nothing picks nothing."""
    sees = visible.cpu().numpy()
    counts = sees.sum(1).astype(float)
    with np.errstate(divide="ignore"):
        miss = np.log1p(-1 / np.maximum(counts, 1))  # -inf: a row with one key picks it
    logs = np.where(sees, miss[:, None], 0.0).sum(0)
    return float((1 - np.exp(logs)).sum())


@cache
def random_head_rank(length: int, head_dim: int, mask: SeenMask) -> float | None:
    """Mean hardmax rank of independent Gaussian queries and keys of this head dimension under this mask.

    Below the barrier, which it reaches as the head dimension grows; None for masks without a name and for heads
    of one coordinate, where all queries of a sign pick the same key.
    """
    if mask.kind == "other" or head_dim == 1:
        return None
    return expected_hardmax_rank(length, head_dim, mask.kind, window=mask.window)
