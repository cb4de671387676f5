"""The two-layer construction with rank-1 heads: a majority vote, and how many voters it takes.

Two orthogonal points x_1, x_2 and a query y in R^d; tokens (x_1, 1, 0), (x_2, -1, 0), (y, 0, 0). In the first layer H
random rank-1 hardmax heads each vote for the point whose projection on a random direction agrees with y's, the second
layer copies the point with more votes. That two rank-1 layers approximate the nearest point is the paper's statement;
the accuracy in closed form is our derivation. With w = (x_1 - x_2)/sqrt 2 and t = <w, y> a vote is right with
probability 1/2 + asin|t| / pi, and votes are independent given the data.
"""

from __future__ import annotations

import math

import numpy as np
from scipy.special import betainc

from rankwise.errors import InvalidInputError, require_int
from rankwise.theory.cells import legendre, sphere_density
from rankwise.theory.temperature import softmax_error

__all__ = ["majority_accuracy", "majority_heads_required", "softmax_error"]

_NODES = 96


def majority_accuracy(dim: int, heads: int) -> float:
    """Probability that the majority of ``heads`` random rank-1 heads picks the nearer of two orthogonal points.

    ``acc(d, H) = int_0^(pi/2) 2 c_d cos(p)^(d-2) P[Bin(H, 1/2 + p/pi) > H/2] dp``, by quadrature. Ties of an even H
    count 1/2, which makes acc(d, 2m) = acc(d, 2m - 1). The squared error of the answer is ``2 (1 - acc)``; for H >> d
    it is about ``sqrt(d/H)``. heads = 0 is a coin, 1/2.
    """
    require_int("dim", dim, minimum=2)
    require_int("heads", heads, minimum=0)
    if heads == 0:
        return 0.5
    votes = (heads + 1) // 2  # of the odd number of heads that ties reduce to
    # the integrand falls like cos^d(p) and like a normal tail in p sqrt(H): beyond the nearer of both there is nothing
    end = min(math.pi / 2, 9 / math.sqrt(dim), 14 / math.sqrt(heads))
    angle, weight = legendre(0.0, end, _NODES)
    density = 2 * np.exp(sphere_density(dim, math.pi / 2 - angle))
    wrong = betainc(votes, votes, 0.5 - angle / math.pi)
    return 1 - float(weight @ (density * wrong))


def majority_heads_required(dim: int, accuracy: float) -> int:
    """The smallest odd number of heads whose majority is right with probability at least ``accuracy`` < 1."""
    require_int("dim", dim, minimum=2)
    if isinstance(accuracy, bool) or not isinstance(accuracy, int | float) or not 0 < accuracy < 1:
        raise InvalidInputError(f"accuracy: expected a number between 0 and 1, both excluded, got {accuracy!r}")
    enough = 1
    while majority_accuracy(dim, 2 * enough - 1) < accuracy:
        if enough > 1 << 60:
            raise InvalidInputError(f"accuracy: {accuracy!r} is too close to 1 to be resolved; more than 10^18 heads")
        enough *= 2
    too_few = enough // 2
    while enough - too_few > 1:
        middle = (enough + too_few) // 2
        if majority_accuracy(dim, 2 * middle - 1) < accuracy:
            too_few = middle
        else:
            enough = middle
    return 2 * enough - 1
