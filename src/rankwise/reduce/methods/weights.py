"""Directions by weights alone: as if the inputs were isotropic. Needs no text, and costs most."""

from __future__ import annotations

from rankwise.reduce.bottleneck import Metric
from rankwise.reduce.methods.vectors import ModelVectors


def weights_metric(vectors: ModelVectors) -> Metric:
    """``C = W W^T``; keys and values count alike."""
    spread = vectors.weight.double() @ vectors.weight.double().mT
    return Metric(vectors.bias.double(), spread, vectors.balance(spread))
