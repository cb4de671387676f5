"""Select or search: the rank at which a head finds the code that a query is a noisy copy of.

N codes in R^d and a query ``y = c_i + s g`` with ``g ~ N(0, I/d)``; s is the length of the noise relative to a code. A
head of rank r sees codes and query through r coordinates, ``argmax_j <P c_j, P y>``; P may be any projection, because
the codes are isotropic.

- Gaussian codes ``c_j ~ N(0, I/d)``. **Derivation**, exact in every d >= r: given P y, ``sqrt(d) <P c_i, u>`` along
  ``u = P y / |P y|`` is N(chi_r / sqrt(1 + s^2), s^2 / (1 + s^2)), and that of any other code is N(0, 1). So one other
  code wins with the probability of a tail of Student's t with r degrees of freedom::

      p(r, s) = P(t_r > sqrt(r / (1 + 2 s^2))) = 1/2 I_x(r/2, 1/2) <= 1/2 x^(r/2),   x = (1 + 2 s^2) / (2 + 2 s^2)

  and by the union bound ``P(wrong) <= (N - 1) p(r, s)``. So a rank of ``2 log((N - 1) / (2 e)) / log(1/x)`` is enough
  for an error e: without noise ``2 log2((N - 1) / (2 e))``, and about ``4 s^2 log(N / (2 e))`` with much.
- Codes of unit length. **Derivation**, exact: the N - 1 other codes are independent given c_i and y, so
  ``P(right) = E (1 - T(w))^(N-1)`` with ``w = <P c_i, u>`` and T the tail of one coordinate on the sphere. w has three
  independent parts, ``|P c_i|^2 ~ Beta(r/2, (d-r)/2)``, the noise along P c_i and the noise across; three quadratures.
- The boundary. That rank reaches d at ``s^2 = (2x - 1) / (2 - 2x)`` with ``x = (2e / (N - 1))^(2/d)``, about
  ``d / (4 log(N / (2 e)))``. **Heuristic** for unit codes: below it finding the nearest code is selection, at a rank
  that grows like log N. Above the exact boundary not even rank d can tell which code was copied; the nearest code has
  little to do with the query then, and finding it is search, which needs nearly all d coordinates.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import lru_cache

import numpy as np
from jaxtyping import Float
from scipy.special import betainc, betaincinv, gammaincinv, ndtr

from rankwise.errors import InvalidInputError, require_int, require_number
from rankwise.theory.arrays import Array

_NODES = 32


def pairwise_error(rank: int, noise: float) -> float:
    """p(r, s): how often one other Gaussian code has a larger score than the copied one. Our derivation, exact."""
    require_int("rank", rank, minimum=1)
    require_number("noise", noise, minimum=0)
    return float(betainc(rank / 2, 0.5, _decay(noise))) / 2


def union_bound(rank: int, codes: int, noise: float) -> float:
    """``min(1, (N - 1) p(r, s))``: no more wrong choices among N Gaussian codes. Our derivation."""
    require_int("codes", codes, minimum=2)
    return min(1.0, (codes - 1) * pairwise_error(rank, noise))


def sufficient_rank(codes: int, noise: float, error: float = 0.01) -> int:
    """The smallest rank whose ``union_bound`` is at most e: enough for N Gaussian codes. Our derivation."""
    require_int("codes", codes, minimum=2)
    require_number("noise", noise, minimum=0)
    _require_error(error)
    explicit = math.ceil(2 * math.log(max(1.0, (codes - 1) / (2 * error))) / -math.log(_decay(noise)))
    return _first(lambda rank: union_bound(rank, codes, noise) <= error, max(1, explicit))


def selectable_noise(dim: int, codes: int, error: float = 0.01) -> float:
    """The noise up to which ``2 log((N - 1) / (2 e)) / log(1/x) <= d``; 0 where that needs more without noise.

    Our derivation for Gaussian codes: up to there some rank of at most d selects among N of them but for an error e.
    """
    require_int("dim", dim, minimum=2)
    require_int("codes", codes, minimum=2)
    _require_error(error)
    decay = min(1.0, 2 * error / (codes - 1)) ** (2 / dim)
    return math.inf if decay == 1 else math.sqrt(max(0.0, (2 * decay - 1) / (2 - 2 * decay)))


def selection_accuracy(dim: int, rank: int, codes: int, noise: float) -> float:
    """How often a head of rank r chooses the copied one of N unit codes. Our derivation, exact up to quadrature."""
    require_int("codes", codes, minimum=2)
    _require_rank(dim, rank)
    require_number("noise", noise, minimum=0)
    tails, weights = _tails(dim, rank, float(noise))
    return float(weights @ np.exp((codes - 1) * np.log1p(-tails)))


def selection_rank(dim: int, codes: int, noise: float, error: float = 0.01) -> int | None:
    """The smallest rank that chooses the copied one of N unit codes but for an error e; None: not even rank d does."""
    _require_error(error)

    def reaches(rank: int) -> bool:
        return selection_accuracy(dim, rank, codes, noise) >= 1 - error

    return _first(reaches, dim) if reaches(dim) else None


def search_noise(dim: int, codes: int, error: float = 0.01) -> float:
    """The noise above which not even rank d tells the copied one of N unit codes but for an error e: by bisection."""
    _require_error(error)
    low, high = 0.0, 1.0
    while selection_accuracy(dim, dim, codes, high) >= 1 - error:
        low, high = high, 2 * high
    for _ in range(30):
        middle = (low + high) / 2
        enough = selection_accuracy(dim, dim, codes, middle) >= 1 - error
        low, high = (middle, high) if enough else (low, middle)
    return low


@lru_cache(maxsize=256)
def _tails(dim: int, rank: int, noise: float) -> tuple[Float[Array, " n"], Float[Array, " n"]]:
    """The chance T(w) that one other code wins, at nodes of the law of w, and the weights of the nodes."""
    node, weight = np.polynomial.hermite_e.hermegauss(_NODES)
    weight = weight / weight.sum()
    level = np.minimum(ndtr(node), np.nextafter(1, 0))
    # a node that has no say in a degenerate case (r = d, r = 1, no noise) is integrated as a constant
    length = np.sqrt(betaincinv(rank / 2, (dim - rank) / 2, level)) if rank < dim else np.ones(_NODES)
    along = noise / math.sqrt(dim) * node
    across = noise**2 / dim * 2 * gammaincinv((rank - 1) / 2, level) if rank > 1 else np.zeros(_NODES)
    seen = length[:, None, None] + along[:, None]
    w = length[:, None, None] * seen / np.sqrt(seen**2 + across)
    smaller = betainc((dim - 1) / 2, 0.5, np.clip(1 - w**2, 0, 1)) / 2
    weights = weight[:, None, None] * weight[:, None] * weight
    tails = np.where(w >= 0, smaller, 1 - smaller)
    return np.minimum(tails, np.nextafter(1, 0)).ravel(), weights.ravel()


def _first(reaches: Callable[[int], bool], last: int) -> int:
    """The smallest of 1..last that ``reaches``, which stays true once true and is true at ``last``."""
    low, high = 0, last
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if reaches(middle) else (middle, high)
    return high


def _decay(noise: float) -> float:
    return (1 + 2 * noise**2) / (2 + 2 * noise**2)


def _require_rank(dim: int, rank: int) -> None:
    require_int("dim", dim, minimum=2)
    if require_int("rank", rank, minimum=1) > dim:
        raise InvalidInputError(f"rank: expected at most dim={dim}, got {rank}")


def _require_error(error: float) -> None:
    if isinstance(error, bool) or not isinstance(error, int | float) or not 0 < error < 1:
        raise InvalidInputError(f"error: expected a number between 0 and 1, both excluded, got {error!r}")
