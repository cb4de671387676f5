"""Random rank-1 heads with their best weights."""

from __future__ import annotations

import math
from collections.abc import Sequence
from statistics import fmean

import numpy as np
from scipy.linalg import solve

from rankwise.theory.kernels import head_accuracy, head_agreement, optimal_weights, random_features


def random_head_errors(dim: int, heads: Sequence[int], seed: int) -> list[float]:
    """The least error of the first H of one draw of heads, for each H of ``heads``: it falls with H.

    Queries are uniform, <q, k> is uniform on [-1, 1], keys are unit vectors.
    """
    queries, keys = random_features(dim, max(heads), seed)
    return [optimal_weights(queries[:count], keys[:count])[1] for count in heads]


def errors_as_published(dim: int, heads: Sequence[int], seed: int) -> list[float]:
    """1 - b^T C^-1 b evaluated, as in the authors' experiment, at keys that are shorter than 1.

    There k = cos q + sin e with e a unit vector projected off q and not normalised again, and C and b are computed as
    if k had length 1. C is then not the matrix of agreements (its diagonal is below 1), and the value is not the error
    of any weights: it lies below the least error of the same heads. It is here to explain the published numbers.
    """
    random = np.random.default_rng(seed)
    most = max(heads)
    queries, side = (_unit(random.standard_normal((most, dim))) for _ in range(2))
    side -= np.sum(side * queries, axis=1, keepdims=True) * queries
    cosine = random.uniform(-1, 1, (most, 1))
    keys = cosine * queries + np.sqrt(1 - cosine**2) * side
    agreement = head_agreement(queries @ queries.T, keys @ keys.T)
    accuracy = head_accuracy(dim, np.arccos(np.clip(np.sum(queries * keys, axis=1), -1, 1)))
    values = []
    for count in heads:
        weights = solve(agreement[:count, :count], accuracy[:count], assume_a="pos")
        values.append(1 - math.fsum(weights * accuracy[:count]))
    return values


def powers_of_2(most: int) -> list[int]:
    """1, 2, 4, ... up to ``most``."""
    return [2**step for step in range(most.bit_length())]


def mean_of_draws(errors: Sequence[Sequence[float]]) -> list[float]:
    """The mean of each column; ``errors`` has a row per draw."""
    return [fmean(column) for column in zip(*errors, strict=True)]


def _unit(rows: np.ndarray) -> np.ndarray:
    return np.asarray(rows / np.linalg.norm(rows, axis=1, keepdims=True))
