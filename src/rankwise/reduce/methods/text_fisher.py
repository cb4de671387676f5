"""The Fisher metric of heads: errors summed over whole texts, and scores kept where the softmax hides them.

A text's loss or embedding changes by ``<E, M>`` when a head's vectors are off by ``E x``, with ``M = sum_t g_t x_t^T``.
One product ``C (x) G`` is fitted to ``E[vec M vec M^T]`` by flip-flop on whole matrices:

    C <- E[M^T G^-1 M] / n        G <- E[M C^-1 M^T] / n

A text's M has few directions, so that few texts would leave others unseen. Single tokens, taken as independent, join
the fit: second moments of x and g, with the weight of ``TOKEN_SAMPLES`` samples.

Keys get another term. A softmax that looks at one token has hardly a gradient, and yet a large error of its scores
makes it look elsewhere. So a squared error of a score costs ``score_cost``, however little it does to first order:
each pair of a query q and a key k adds ``score_cost (q^T E k)^2``, which joins the fit as the matrices ``q k^T``.

That this metric predicts costs is a measurement on one encoder; both constants were chosen there on validation text.

Legend: S texts times losses, n coordinates of x.
"""

from __future__ import annotations

import torch
from jaxtyping import Float
from torch import Tensor

from rankwise.reduce.bottleneck import Metric, ridged
from rankwise.reduce.methods.vectors import TextSums

SCORE_COST = 0.05
"""Of what all values of a head are worth in the mean. On validation texts of MiniLM, half of all coordinates cost .0270
with .16, .0249 with .05, and .0350 with 0."""
TOKEN_SAMPLES = 8
"""Samples that single tokens count for. On the same texts, half of all coordinates, learned on 24 texts, cost .105
without and .056 with about as many; learned on 64 texts, .028 and .030."""
_FLIPS = 4


def text_fisher_metric(texts: TextSums, mean: Float[Tensor, " n"], size: float) -> Metric:
    """C and G of one head's keys or values around ``mean``; gradients are in units of ``size``."""
    products, n = texts.around(mean), len(mean)
    added = [(TOKEN_SAMPLES / len(products), *texts.tokens)]
    if texts.scores is not None:
        added.append((texts.score_cost / size**2, *texts.scores))

    def fitted(inverse: Tensor | None, *, spread: bool) -> Tensor:
        """One half step: C from the inverse of G, or G from that of C; None stands for the identity."""
        turned = products.mT if spread else products
        weighted = turned if inverse is None else turned @ inverse
        moment = torch.einsum("sab,scb->ac", weighted, turned) / len(products)
        for weight, left, right in added:
            of, by = (left, right) if spread else (right, left)
            moment = moment + weight * float(by.trace() if inverse is None else (inverse * by).sum()) * of
        return moment / n

    importance = fitted(None, spread=False)
    spread = fitted(_inverse(importance), spread=True)
    for _ in range(_FLIPS):
        importance = fitted(_inverse(spread), spread=False)
        spread = fitted(_inverse(importance), spread=True)
    return Metric(mean.double(), spread.double(), importance.double() * size**2)


def _inverse(moment: Float[Tensor, "n n"]) -> Float[Tensor, "n n"]:
    return torch.linalg.inv(ridged(moment.double())).float()
