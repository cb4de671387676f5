"""Hardmax rank of random queries and keys by simulation: the witness of every law in this package.

Legend: T trials, B block of rows, K keys a block may see, D head dimension.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from jaxtyping import Bool, Float32, Integer
from numpy import ndarray

from rankwise.errors import InvalidInputError, require_choice, require_int
from rankwise.estimate import Estimate
from rankwise.theory.expected_rank import KEYS
from rankwise.theory.occupancy import visible_reach

_SCORES_AT_ONCE = 1 << 22  # 16 MB of float32


@dataclass(frozen=True)
class RankEstimate(Estimate):
    """A mean over independent trials, its standard error (nan for one trial) and the number of trials."""

    trials: int


def simulate_hardmax_rank(
    length: int,
    head_dim: int,
    mask: str = "full",
    *,
    keys: str = "gaussian",
    window: int | None = None,
    queries: int | None = None,
    trials: int = 16,
    seed: int = 0,
) -> RankEstimate:
    """Mean number of distinct argmax columns of ``Q K^T`` with Q [queries, D] and K [length, D] independent Gaussian.

    ``keys="unit"`` divides each key by its norm. Scores are formed in blocks of rows that fit in a few megabytes,
    and of a causal or window mask only the keys that a block can see, so length 16,384 needs no 16,384^2 matrix.
    Arithmetic is float32; of equal scores the first counts (unit keys with head_dim 1 are all 1 or -1).
    """
    reach = visible_reach(length, mask, window)
    require_int("head_dim", head_dim, minimum=1)
    require_choice("keys", keys, KEYS)
    require_int("trials", trials, minimum=1)
    require_int("seed", seed, minimum=0)
    rows = length if queries is None else require_int("queries", queries, minimum=1)
    if reach is not None and rows != length:
        raise InvalidInputError(f"queries: rows and keys are the same tokens under mask {mask!r}; use mask 'full'")

    random = np.random.default_rng(seed)
    together = max(1, min(trials, _SCORES_AT_ONCE // (max(rows, length) * max(length, head_dim))))
    ranks: list[Integer[ndarray, " T"]] = []
    for done in range(0, trials, together):
        batch = min(together, trials - done)
        drawn = random.standard_normal((batch, rows + length, head_dim), dtype=np.float32)
        key = drawn[:, rows:]
        if keys == "unit":
            key = key / np.linalg.norm(key, axis=-1, keepdims=True)
        ranks.append(_picked(drawn[:, :rows], key, reach).sum(axis=1))
    rank = np.concatenate(ranks).astype(np.float64)
    error = float(rank.std(ddof=1)) / math.sqrt(trials) if trials > 1 else math.nan
    return RankEstimate(float(rank.mean()), error, trials)


def _picked(
    query: Float32[ndarray, "T M D"], key: Float32[ndarray, "T N D"], reach: int | None
) -> Bool[ndarray, "T N"]:
    """Which keys are some row's best."""
    trials, rows, _ = query.shape
    length = key.shape[1]
    picked = np.zeros((trials, length), dtype=bool)
    trial = np.arange(trials)[:, None]
    seen = length if reach is None else min(length, 2 * reach)
    block = max(1, min(rows, _SCORES_AT_ONCE // (trials * seen)))
    if reach is not None and reach < length:
        block = min(block, max(reach, 64))  # a block of B rows of a window forms B (B + w) scores and uses B w of them
    for start in range(0, rows, block):
        stop = min(start + block, rows)
        first, last = (0, length) if reach is None else (max(0, start - reach + 1), stop)
        scores = query[:, start:stop] @ key[:, first:last].swapaxes(1, 2)
        if reach is not None:
            row, column = np.arange(start, stop)[:, None], np.arange(first, last)
            scores[:, (column > row) | (column <= row - reach)] = -np.inf
        picked[trial, first + scores.argmax(axis=2)] = True
    return picked
