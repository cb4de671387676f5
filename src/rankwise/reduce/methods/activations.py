"""Directions by activations: principal components of what the texts make, keys and values with equal weight.

The joint latent of MHA2MLA with balanced scales. Of heads: what keys do to scores and values to outputs (the objective
of A3 and KQ-SVD).
"""

from __future__ import annotations

from rankwise.errors import InvalidInputError
from rankwise.reduce.bottleneck import Metric
from rankwise.reduce.methods.vectors import ModelVectors


def activations_metric(vectors: ModelVectors) -> Metric:
    """``C = E[(x - mean)(x - mean)^T]``; keys and values count alike. Of heads, G is the moment of their partners."""
    if vectors.samples is None:
        raise InvalidInputError("--method activations: expected texts to run the model on (--text FILE), got none")
    x = vectors.samples.double()
    mean = x.mean(0)
    spread = (x - mean).mT @ (x - mean) / len(x)
    return Metric(mean, spread, vectors.balance(spread) if vectors.partner is None else vectors.partner.double())
