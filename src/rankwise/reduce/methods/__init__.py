"""The ways of telling which directions of a vector matter: one file each, all with the same face.

A method turns what is known of a vector into a ``Metric``. The next method is one file and one entry here.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

from rankwise.reduce.bottleneck import Metric
from rankwise.reduce.methods.activations import activations_metric
from rankwise.reduce.methods.fisher import fisher_metric
from rankwise.reduce.methods.vectors import ModelVectors
from rankwise.reduce.methods.weights import weights_metric

MethodName = Literal["fisher", "activations", "weights"]


@dataclass(frozen=True)
class Method:
    """How a metric is made, and what it takes."""

    metric: Callable[[ModelVectors], Metric]
    needs: Literal["gradients", "activations", "nothing"]
    balanced: bool = False
    """Whether keys and values of heads are in units of their own: then all keys count as much as all values."""


METHODS: dict[MethodName, Method] = {
    "fisher": Method(fisher_metric, "gradients"),
    "activations": Method(activations_metric, "activations", balanced=True),
    "weights": Method(weights_metric, "nothing"),
}
