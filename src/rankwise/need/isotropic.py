"""The worst case: what the best form of rank r retrieves when keys and queries are isotropic.

Keys and query uniform on S^(d-1), M a projection on any r dimensions. For two keys the direction of x_1 - x_2 is
uniform and independent of its length, the form errs with the angle theta between a direction and its projection, and
``cos^2 theta`` has the law Beta(r/2, (d-r)/2)::

    error = (2/pi) E theta,    density of theta proportional to cos^{r-1} sin^{d-r-1}

No choice that sees the keys through r dimensions does better (the part it does not see is symmetric), so among hard
choices of one head this is the best. Our derivation. For more keys it is simulated, in four numbers per key whatever d
is: its parts along the query inside and outside of the r dimensions; directions across are averaged exactly. Both
functions remember what they found, so that the blocks of a model share one curve.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cache

import numpy as np

from rankwise.errors import InvalidInputError, require_int
from rankwise.measure import smallest
from rankwise.theory import legendre

_QUESTIONS = 1 << 14


@dataclass(frozen=True)
class IsotropicError:
    """The normalised retrieval error (see ``retrieval``) and its standard error, 0 where it is exact."""

    value: float
    standard_error: float


@cache
def isotropic_error(dim: int, rank: int, candidates: int, *, seed: int = 0) -> IsotropicError:
    """The error of the best bilinear form of rank ``rank`` among ``candidates`` isotropic keys in R^dim."""
    require_int("dim", dim, minimum=2)
    require_int("candidates", candidates, minimum=2)
    if not 1 <= require_int("rank", rank, minimum=1) <= dim:
        raise InvalidInputError(f"rank: expected at most dim={dim}, got {rank}")
    if rank == dim:
        return IsotropicError(0.0, 0.0)
    if candidates == 2:
        return IsotropicError(_two_keys(dim, rank), 0.0)
    return _simulated(dim, rank, candidates, seed)


@cache
def isotropic_need(dim: int, candidates: int, target: float) -> int:
    """The smallest rank whose isotropic error is at most ``target``."""
    return smallest(lambda rank: isotropic_error(dim, rank, candidates).value <= target, dim)


def _two_keys(dim: int, rank: int) -> float:
    """Gauss-Legendre over twelve standard deviations around the mode of the angle."""
    inside, outside = rank - 1, dim - rank - 1
    mode = math.atan2(math.sqrt(outside), math.sqrt(inside)) if inside or outside else math.pi / 4
    reach = 12 / math.sqrt(max(dim - 2, 1))
    angle, weight = legendre(max(0.0, mode - reach), min(math.pi / 2, mode + reach), 256)
    with np.errstate(divide="ignore"):
        log_density = inside * np.log(np.cos(angle)) + outside * np.log(np.sin(angle))
    density = weight * np.exp(log_density - log_density.max())
    return float(2 / math.pi * (density @ angle) / density.sum())


def _simulated(dim: int, rank: int, candidates: int, seed: int) -> IsotropicError:
    random = np.random.default_rng((seed, dim, rank, candidates))
    questions = max(256, _QUESTIONS * 16 // max(16, candidates))
    inside = np.sqrt(random.beta(rank / 2, (dim - rank) / 2, questions))[:, None]
    outside = np.sqrt(1 - inside**2)
    along = random.standard_normal((2, questions, candidates))
    across = random.chisquare(dim - 2, (questions, candidates)) if dim > 2 else 0.0
    along /= np.sqrt((along**2).sum(0) + across)
    seen = inside * along[0]
    row = np.arange(questions)
    nearest, retrieved = (seen + outside * along[1]).argmax(1), seen.argmax(1)
    # two different unit keys with these parts along the query are 2 - 2 <parts> apart on average
    apart = 2 - 2 * (along * along[:, row, nearest][..., None]).sum(0)
    apart[row, nearest] = 0.0
    lost, at_random = apart[row, retrieved], apart.mean(1)
    value = lost.mean() / at_random.mean()
    spread = np.std(lost - value * at_random) / at_random.mean()
    return IsotropicError(float(value), float(spread / math.sqrt(questions)))
