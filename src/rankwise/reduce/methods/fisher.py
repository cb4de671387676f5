"""Directions by what they do to the loss: a Kronecker-factored Fisher metric, fitted by alternation ("flip-flop").

With g the gradient of the loss by x, the loss changes by ``1/2 E[(g^T e)^2]`` to second order when x is off by e, if
g is taken at labels drawn from the model. The pair (C, G) approximates ``E[x x^T (x) g g^T]`` by one product ``C (x)
G``:

    C <- E[w x x^T],  w = g^T G^-1 g / n        G <- E[u g g^T],  u = x^T C^-1 x / n

are the two half steps of maximum likelihood for a matrix normal law (Dutilleul, 1999). Their effect: tokens at which
the loss is sensitive, above all the first, weigh more. x is taken around its weighted mean, which costs nothing to
rebuild. That the result is the best metric for a latent is a heuristic; that it is the cheapest known one is
measured.
"""

from __future__ import annotations

import torch
from jaxtyping import Float
from torch import Tensor

from rankwise.reduce.bottleneck import RIDGE, Metric, ridged
from rankwise.reduce.methods.text_fisher import text_fisher_metric
from rankwise.reduce.methods.vectors import ModelVectors

FLIPS = 3
"""The number of the first trial; others were not compared."""


def fisher_metric(vectors: ModelVectors, flips: int = FLIPS) -> Metric:
    """C and G after ``flips`` alternations; none: plain second moments of x and g. Of heads, see ``text_fisher``."""
    samples = vectors.samples
    if vectors.texts is not None and samples is not None:
        return text_fisher_metric(vectors.texts, samples.float().mean(0), vectors.gradient_size)
    centre = torch.zeros(len(vectors.weight)) if samples is None else samples.float().mean(0)  # for small numbers
    mean, spread = _moments(vectors, None, centre)
    importance = _importance(vectors, None, mean, centre)
    for _ in range(flips):
        weighted_mean, weighted_spread = _moments(vectors, importance, centre)
        importance = _importance(vectors, spread, mean, centre)
        mean, spread = weighted_mean, weighted_spread
    return Metric(mean + centre, spread, importance * vectors.gradient_size**2)


def _moments(
    vectors: ModelVectors, importance: Float[Tensor, "n n"] | None, centre: Float[Tensor, " n"]
) -> tuple[Float[Tensor, " n"], Float[Tensor, "n n"]]:
    """Mean of ``x - centre`` and second moment around it, each token weighted by ``g^T G^-1 g / n``."""
    n = len(vectors.weight)
    factor = None if importance is None else _whitening(importance)
    total, first, second = 0.0, torch.zeros(n, dtype=torch.float64), torch.zeros(n, n, dtype=torch.float64)
    tokens = 0
    for x, g in vectors.chunks(centre):
        weight = torch.full((len(x),), float(len(g))) if factor is None else (g @ factor).square().sum((0, 2)) / n
        total += float(weight.double().sum())
        tokens += len(g) * len(x)
        first += (weight[:, None] * x).sum(0).double()
        second += ((weight[:, None] * x).mT @ x).double()
    mean = first / max(total, 1e-30)
    return mean, (second - total * torch.outer(mean, mean)) / tokens


def _importance(
    vectors: ModelVectors, spread: Float[Tensor, "n n"] | None, mean: Float[Tensor, " n"], centre: Float[Tensor, " n"]
) -> Float[Tensor, "n n"]:
    """Second moment of g, each token weighted by ``x^T C^-1 x / n``."""
    n = len(vectors.weight)
    factor = None if spread is None else _whitening(spread)
    moment, tokens = torch.zeros(n, n, dtype=torch.float64), 0
    for x, g in vectors.chunks(centre):
        weight = torch.ones(len(x)) if factor is None else ((x - mean.float()) @ factor).square().sum(1) / n
        moment += sum(((weight[:, None] * one).mT @ one).double() for one in g)
        tokens += len(g) * len(x)
    return moment / tokens


def _whitening(moment: Float[Tensor, "n n"]) -> Float[Tensor, "n n"]:
    """A factor F with ``F F^T`` the inverse of ``moment``, ridge included."""
    values, vectors = torch.linalg.eigh(ridged(moment))
    return (vectors / values.clamp_min(RIDGE * values[-1]).sqrt()).float()
