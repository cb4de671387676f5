"""What rank-1 heads weighted by u represent: the sign of <x, y> up to a degree, as a sum and as an average of heads."""

from __future__ import annotations

import numpy as np

from rankwise.theory.harmonics import feature_weight, gegenbauer, harmonic_dim, sign_eigenvalue

_CHUNK = 100_000


def truncated_sign(dim: int, degree: int, t: np.ndarray) -> np.ndarray:
    """sum_{odd l <= degree} lambda_l N P_l(t), the best approximation of sgn(t) of that degree on the sphere."""
    total = np.zeros_like(t)
    for of in range(1, degree + 1, 2):
        total += sign_eigenvalue(dim, of) * harmonic_dim(dim, of) * gegenbauer(dim, of, t)
    return total


def average_of_heads(dim: int, degree: int, angles: np.ndarray, samples: int) -> list[float]:
    """The mean of u(<q, k>) sgn<q, y> sgn<k, x> over uniform q and k, for x at these angles from y."""
    random = np.random.default_rng(dim * 1000 + degree)
    radians = np.radians(angles)
    total = np.zeros(len(angles))
    for done in range(0, samples, _CHUNK):
        queries, keys = (random.standard_normal((min(_CHUNK, samples - done), dim)) for _ in range(2))
        for rows in (queries, keys):
            rows /= np.linalg.norm(rows, axis=1, keepdims=True)
        weight = feature_weight(dim, np.clip(np.sum(queries * keys, axis=1), -1, 1), degree)
        # y is the first axis, x turns from it towards the second
        seen = np.outer(keys[:, 0], np.cos(radians)) + np.outer(keys[:, 1], np.sin(radians))
        total += (weight * np.sign(queries[:, 0])) @ np.sign(seen)
    return (total / samples).tolist()
