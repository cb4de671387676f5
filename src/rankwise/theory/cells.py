"""The share of a key: the probability that a random query prefers it, given all keys; its mean and covariances.

Queries are Gaussian, so only their direction u matters, uniform on the sphere S^(d-1). Key 1 has norm rho (1 for unit
keys) and makes the angle a with u, so it scores rho cos a and wins among c keys if the other c - 1, independent of it,
score less. With B the law of their score, and for two queries u, u' at the angle g from each other B2 the joint law::

    E[share | rho]                = E_a [ B(rho cos a)^(c-1) ]
    E[share(c) share(c') | rho]   = E_{a, a', g} [ B2(rho cos a, rho cos a'; g)^s B(rho cos a)^(c-1-s) B(.)^(c'-1-s) ]

where s other keys are seen by both rows. For Gaussian keys B = Phi and B2 is the bivariate normal law; for unit keys B
is the measure of the sphere outside a cap, B2 outside two caps. Both B2 follow from Plackett's identity
dB2/dg = -(1/2 pi) K(q(g)), q the squared distance from the origin of the point in the plane of u, u' with these two
scores, K(q) = exp(-q/2) for Gaussian keys and (1-q)^((d-2)/2) for unit ones. Nothing is approximated here but the
integrals, by Gauss quadrature. Our derivation.

Legend: R norms of the key, C key counts, A angles a, Z azimuths of u' about the key.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from jaxtyping import Float
from scipy.special import betainc, betaincinv, gammainccinv, gammaincinv, gammaln, log_ndtr, ndtr, ndtri_exp

from rankwise.theory.arrays import Array

_EXACT, _CLOSE = 36.0, 14.0  # integrands are cut where they fall below exp(-36) = 2e-16 or exp(-14) = 8e-7
_NORM_RANGE = 6.5  # standard deviations


@dataclass(frozen=True)
class KeyLaw(ABC):
    """How keys of dimension ``head_dim`` >= 2 are drawn."""

    head_dim: int

    @abstractmethod
    def norms(
        self, nodes: int, low: float = -_NORM_RANGE
    ) -> tuple[Float[Array, " R"], Float[Array, " R"], Float[Array, " R"]]:
        """Quadrature of the norm's law above the normal score ``low``: scores, norms, weights that sum to 1."""

    @abstractmethod
    def log_below(self, norm: Float[Array, ...], angle: Float[Array, ...]) -> Float[Array, ...]:
        """log B(norm cos(angle)): another key scores less."""

    @abstractmethod
    def log_dependence(
        self,
        norm: Float[Array, ...],
        first: Float[Array, ...],
        second: Float[Array, ...],
        between: Float[Array, ...],
        nodes: int,
    ) -> Float[Array, ...]:
        """log of B2 / (B B') for the scores norm cos(first) and norm cos(second) of queries at the angle between."""

    @abstractmethod
    def winning_angles(
        self, norm: Float[Array, " R"], count: Float[Array, " C"], cut: float
    ) -> tuple[Float[Array, "R C"], Float[Array, "R C"]]:
        """The range of angles outside of which a key wins against ``count`` - 1 others with probability exp(-cut)."""


class GaussianKeys(KeyLaw):
    """Keys N(0, I), as independent Gaussian W_K makes them of orthonormal inputs."""

    def norms(
        self, nodes: int, low: float = -_NORM_RANGE
    ) -> tuple[Float[Array, " R"], Float[Array, " R"], Float[Array, " R"]]:
        score, weight = legendre(low, _NORM_RANGE, nodes)
        weight = weight * np.exp(-(score**2) / 2)
        half = self.head_dim / 2
        squared = 2 * np.where(score < 0, gammaincinv(half, ndtr(score)), gammainccinv(half, ndtr(-score)))
        return score, np.sqrt(squared), weight / weight.sum()

    def log_below(self, norm: Float[Array, ...], angle: Float[Array, ...]) -> Float[Array, ...]:
        return log_ndtr(norm * np.cos(angle))

    def log_dependence(
        self,
        norm: Float[Array, ...],
        first: Float[Array, ...],
        second: Float[Array, ...],
        between: Float[Array, ...],
        nodes: int,
    ) -> Float[Array, ...]:
        score, other = norm * np.cos(first), norm * np.cos(second)
        step = between - math.pi / 2
        integral = np.zeros(step.shape)
        for at, weight in zip(*legendre(0.0, 1.0, nodes), strict=True):
            cosine = np.cos(math.pi / 2 + at * step)
            square = ((score - other) ** 2 + 2 * score * other * (1 - cosine)) / (1 - cosine**2)
            integral += weight * np.exp(-square / 2)
        product = np.maximum(ndtr(score) * ndtr(other), 1e-300)
        return np.log1p(np.maximum(-integral * step / (2 * math.pi * product), -1 + 1e-16))

    def winning_angles(
        self, norm: Float[Array, " R"], count: Float[Array, " C"], cut: float
    ) -> tuple[Float[Array, "R C"], Float[Array, "R C"]]:
        others = np.maximum(count - 1, 1e-6)
        least, typical = (ndtri_exp(-odds / others) / norm[:, None] for odds in (cut, math.log(2)))
        spread = 2 * cut / self.head_dim
        low = np.arccos(np.minimum(np.sqrt(np.maximum(typical, 0) ** 2 + spread), 1))
        high = np.arccos(np.clip(np.maximum(least, -math.sqrt(spread)), -1, 1))
        return low, np.maximum(high, low + 1e-6)


class UnitKeys(KeyLaw):
    """Keys uniform on the unit sphere: Gaussian keys after a norm of their own (k-norm with gain 1)."""

    def norms(
        self, nodes: int, low: float = -_NORM_RANGE
    ) -> tuple[Float[Array, " R"], Float[Array, " R"], Float[Array, " R"]]:
        return np.zeros(1), np.ones(1), np.ones(1)

    def log_below(self, norm: Float[Array, ...], angle: Float[Array, ...]) -> Float[Array, ...]:
        return np.log1p(-np.minimum(self._cap(angle), 1 - 1e-16))

    def log_dependence(
        self,
        norm: Float[Array, ...],
        first: Float[Array, ...],
        second: Float[Array, ...],
        between: Float[Array, ...],
        nodes: int,
    ) -> Float[Array, ...]:
        cap, other = self._cap(first), self._cap(second)
        # two caps touch where the angle between their centres is the sum of their radii (the rest, if they cover all)
        reach = math.pi - np.abs(math.pi - first - second) - between
        integral = np.zeros(reach.shape)
        for at, weight in zip(*legendre(0.0, 1.0, nodes), strict=True):
            # t -> 3t^2 - 2t^3 is flat where the integrand has its root singularities
            turn = between + reach * at**2 * (3 - 2 * at)
            integral += weight * 6 * at * (1 - at) * _depth(first, second, turn) ** (self.head_dim / 2 - 1)
        overlap = np.maximum(cap + other - 1, 0) + integral * reach / (2 * math.pi)
        independent = np.maximum((1 - cap) * (1 - other), 1e-300)
        return np.log1p(np.maximum((overlap - cap * other) / independent, -1 + 1e-16))

    def winning_angles(
        self, norm: Float[Array, " R"], count: Float[Array, " C"], cut: float
    ) -> tuple[Float[Array, "R C"], Float[Array, "R C"]]:
        largest = -np.expm1(-cut / np.maximum(count - 1, 1e-6))
        return self._cap_angle(math.exp(-cut) / count)[None], self._cap_angle(largest)[None]

    def _cap(self, angle: Float[Array, ...]) -> Float[Array, ...]:
        """The measure of a cap of this angular radius."""
        half = 0.5 * betainc((self.head_dim - 1) / 2, 0.5, np.sin(angle) ** 2)
        return np.where(angle < math.pi / 2, half, 1 - half)

    def _cap_angle(self, measure: Float[Array, ...]) -> Float[Array, ...]:
        smaller = np.minimum(measure, 1 - measure)
        angle = np.arcsin(np.sqrt(betaincinv((self.head_dim - 1) / 2, 0.5, 2 * smaller)))
        return np.where(measure < 0.5, angle, math.pi - angle)


def mean_share(law: KeyLaw, norm: Float[Array, " R"], count: Float[Array, " C"]) -> Float[Array, "R C"]:
    """E[share | norm] among ``count`` keys; its mean over norms is 1/count."""
    if isinstance(law, UnitKeys):
        return 1 / count[None]
    share: Array = _wins(law, norm, count, 48, _EXACT)[2].sum(-1)
    return share


def growing_covariance(
    law: KeyLaw, norm: Float[Array, " R"], count: Float[Array, " C"], nodes: int = 12
) -> Float[Array, "R C C"]:
    """cov(share(c), share(c')) / (E share(c) E share(c')) given the norm, where the smaller set is part of the larger.

    ``count`` ascends. Causal masks are of this kind; the diagonal is the relative variance of one set's share.
    """
    nodes = _pair_nodes(law, nodes)
    angle, log_below, wins = _wins(law, norm, count, nodes, _CLOSE)
    covariance = np.empty((len(norm), len(count), len(count)))
    for smaller, size in enumerate(count):
        at, alone, won = angle[:, smaller], log_below[:, smaller], wins[:, smaller]
        excess = _mean_excess(law, norm, at, (size - 1,), nodes)[0]
        extra = (count[smaller:] - size)[None, :, None]
        later = _normalised(won[:, None] * np.exp(extra * alone[:, None]))
        row = (_normalised(won)[:, None] @ excess @ later.mT)[:, 0]
        covariance[:, smaller, smaller:] = row
        covariance[:, smaller:, smaller] = row
    return covariance


def sliding_covariance(
    law: KeyLaw, norm: Float[Array, " R"], count: int, lags: Float[Array, " L"], nodes: int = 12
) -> Float[Array, "R L"]:
    """The same for two sets of ``count`` keys that differ in ``lag`` keys each, as two rows of a window mask do."""
    nodes = _pair_nodes(law, nodes)
    angle, _, wins = (array[:, 0] for array in _wins(law, norm, np.array([float(count)]), nodes, _CLOSE))
    weight = _normalised(wins)
    excess = _mean_excess(law, norm, angle, tuple(count - 1 - lags), nodes)
    return np.concatenate([weight[:, None] @ each @ weight[:, :, None] for each in excess], axis=1)[..., 0]


def sphere_density(dim: int, angle: Float[Array, ...]) -> Float[Array, ...]:
    """log density of the angle between a fixed and a uniform direction of R^dim: c_d sin(angle)^(dim-2)."""
    constant = gammaln(dim / 2) - gammaln((dim - 1) / 2) - 0.5 * math.log(math.pi)
    with np.errstate(divide="ignore"):
        return constant + (dim - 2) * np.log(np.sin(angle)) if dim > 2 else np.full(np.shape(angle), constant)


def legendre(
    low: float | Float[Array, ...], high: float | Float[Array, ...], nodes: int
) -> tuple[Float[Array, "... nodes"], Float[Array, "... nodes"]]:
    """Gauss-Legendre nodes and weights on [low, high], along a new last axis."""
    at, weight = _legendre(nodes)
    middle, half = np.asarray(low + high)[..., None] / 2, np.asarray(high - low)[..., None] / 2
    return middle + half * at, half * weight


@lru_cache
def _legendre(nodes: int) -> tuple[Float[Array, " nodes"], Float[Array, " nodes"]]:
    at, weight = np.polynomial.legendre.leggauss(nodes)
    return at, weight


def _wins(
    law: KeyLaw, norm: Float[Array, " R"], count: Float[Array, " C"], nodes: int, cut: float
) -> tuple[Float[Array, "R C A"], Float[Array, "R C A"], Float[Array, "R C A"]]:
    """Angles, log B there, and quadrature weights times the probability to win: they sum to the mean share."""
    angle, weight = legendre(*law.winning_angles(norm, count, cut), nodes)
    log_below = law.log_below(norm[:, None, None], angle)
    wins = weight * np.exp(sphere_density(law.head_dim, angle) + (count[:, None] - 1) * log_below)
    return angle, log_below, wins


def _mean_excess(
    law: KeyLaw,
    norm: Float[Array, " R"],
    angle: Float[Array, "R A"],
    shared: tuple[float, ...],
    nodes: int,
) -> list[Float[Array, "R A A"]]:
    """E over the azimuth of (B2 / (B B'))^s - 1 for each number s of shared keys and all pairs of angles."""
    upper, lower = np.triu_indices(angle.shape[1])
    first, second = angle[:, upper, None], angle[:, lower, None]
    azimuth, weight = _azimuths(law.head_dim, nodes)
    half_chord = np.sin((first - second) / 2) ** 2 + np.sin(first) * np.sin(second) * np.sin(azimuth / 2) ** 2
    between = 2 * np.arcsin(np.sqrt(np.minimum(half_chord, 1)))
    dependence = law.log_dependence(norm[:, None, None], first, second, between, nodes)
    square = np.empty((len(norm), angle.shape[1], angle.shape[1]))
    answers: list[Array] = []
    for others in shared:
        # a key of hopelessly small norm has an astronomical relative variance and no part in the result
        square[:, upper, lower] = square[:, lower, upper] = np.expm1(np.minimum(others * dependence, 300)) @ weight
        answers.append(square.copy())
    return answers


def _pair_nodes(law: KeyLaw, nodes: int) -> int:
    """In the plane there is no azimuth to smooth the kink where two queries meet, nor to pay for."""
    return nodes if law.head_dim > 2 else 4 * nodes


@lru_cache
def _azimuths(dim: int, nodes: int) -> tuple[Float[Array, " Z"], Float[Array, " Z"]]:
    """Gauss quadrature of the angle between the parts of u and u' that are orthogonal to the key (on S^(dim-2)).

    Its cosine has the weight (1 - x^2)^((dim-4)/2) of the Gegenbauer polynomials; Golub and Welsch's eigenvalues.
    """
    if dim == 2:
        return np.array([0.0, math.pi]), np.array([0.5, 0.5])
    order = np.arange(1, nodes)
    index = (dim - 3) / 2
    with np.errstate(invalid="ignore"):
        squared = order * (order + 2 * index - 1) / (4 * (order + index) * (order + index - 1))
    if dim == 3:
        squared[0] = 0.5  # the limit of 0/0
    cosine, vectors = np.linalg.eigh(np.diag(np.sqrt(squared), 1), UPLO="U")
    return np.arccos(cosine), vectors[0] ** 2


def _depth(first: Float[Array, ...], second: Float[Array, ...], between: Float[Array, ...]) -> Float[Array, ...]:
    """1 - q for a unit key: its squared distance from the plane of u and u', free of cancellation."""
    half = (first + second + between) / 2
    gram = 4 * np.sin(half) * np.sin(half - first) * np.sin(half - second) * np.sin(half - between)
    depth: Array = np.maximum(gram, 0) / np.maximum(np.sin(between) ** 2, 1e-300)
    return depth


def _normalised(weight: Float[Array, "... A"]) -> Float[Array, "... A"]:
    total: Array = weight.sum(-1, keepdims=True)
    return weight / np.maximum(total, 1e-300)
