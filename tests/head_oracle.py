"""Rank-1 hardmax heads simulated and written out head by head, to compare with."""

import numpy as np

from rankwise.theory.kernels import head_accuracy, head_agreement


def unit(rows):
    return rows / np.linalg.norm(rows, axis=1, keepdims=True)


def orthonormal_pairs(random, samples, dim):
    """[samples, 2, dim] Haar-random orthonormal pairs and [samples, dim] uniform queries."""
    x = random.standard_normal((samples, 2, dim))
    x[:, 0] = unit(x[:, 0])
    x[:, 1] = unit(x[:, 1] - np.sum(x[:, 0] * x[:, 1], axis=1, keepdims=True) * x[:, 0])
    return x, unit(random.standard_normal((samples, dim)))


def picks_first(x, y, queries, keys):
    """[samples, heads]: whether each head picks the first point."""
    return (y @ queries.T) * ((x[:, 0] - x[:, 1]) @ keys.T) > 0


def agreement_and_accuracy(queries, keys):
    """C [H, H] and b [H] from their definitions."""
    C = head_agreement(np.clip(queries @ queries.T, -1, 1), np.clip(keys @ keys.T, -1, 1))
    b = head_accuracy(queries.shape[1], np.arccos(np.clip(np.sum(queries * keys, axis=1), -1, 1)))
    return C, b


def error_of(weights, queries, keys):
    C, b = agreement_and_accuracy(unit(queries), unit(keys))
    return 1 - 2 * weights @ b + weights @ C @ weights


def least_error(queries, keys):
    """By the pseudo-inverse, whatever is dependent."""
    C, b = agreement_and_accuracy(unit(queries), unit(keys))
    return 1 - b @ np.linalg.pinv(C, rcond=1e-7, hermitian=True) @ b
