"""What random weights have: without it, a measured rank of 31 out of 32 says nothing.

Independent Gaussian matrices of the same shapes, as models are initialised. The QR triangle of an n x r Gaussian matrix
is drawn itself (Bartlett: independent chi variables on the diagonal, normal ones above), so that a draw costs O(r^3)
whatever the model dimension is. Trained weights may lie below the interval (structure) or, rarely, above.
"""

from __future__ import annotations

import math
from functools import lru_cache
from statistics import NormalDist

import numpy as np
import torch
from jaxtyping import Float

from rankwise.audit.report import Baseline, ChanceInterval
from rankwise.audit.spectra import ranks_of, with_typical_latent
from rankwise.models.layouts import LayerRef
from rankwise.nn.factored import FactoredMatrix

_WORK = 2**23  # of r^3 units: 1024 draws up to rank 20, 256 at rank 32
_FEWEST, _MOST = 64, 1024
_MISTAKE = 0.01  # that any head of a random model lies outside
_INTEGERS = ("energy_90", "energy_99")


def qk_baseline(ref: LayerRef, heads: int) -> Baseline:
    """Ranks of QK with random weights of the layer's shapes; the interval holds for ``heads`` heads together."""
    if ref.latent is None:
        return _baseline(ref.rank, ref.dim, ref.context_dim, None, None, 0, heads)
    keyed = ref.latent.rope
    return _baseline(ref.rank, ref.dim, ref.context_dim, ref.latent.query_size, ref.latent.key_size, keyed, heads)


def ov_baseline(ref: LayerRef, heads: int) -> Baseline:
    """Ranks of OV with random weights of the layer's shapes."""
    latent = None if ref.latent is None else ref.latent.key_size
    return _baseline(ref.value_rank, ref.dim, ref.context_dim, None, latent, 0, heads)


@lru_cache(maxsize=64)
def _baseline(
    rank: int, left: int, right: int, left_latent: int | None, right_latent: int | None, rope: int, heads: int
) -> Baseline:
    """``rope`` of the right side's ``rank`` rows are shared coordinates that bypass the latent."""
    rng = np.random.default_rng([rank, left, right, left_latent or 0, right_latent or 0, rope])
    draws = min(max(_WORK // rank**3, _FEWEST), _MOST)
    ours = np.stack([_side(rng, rank, left, left_latent, 0) for _ in range(draws)])
    theirs = np.stack([_side(rng, rank, right, right_latent, rope) for _ in range(draws)])
    form = FactoredMatrix(torch.from_numpy(ours).mT, torch.from_numpy(theirs))
    ranks = ranks_of(form.singular_values(), max(left, right))
    most = min(rank, left, right)
    spread = NormalDist().inv_cdf(1 - _MISTAKE / (2 * heads))
    intervals = {
        name: _interval(np.array([getattr(one, name) for one in ranks], dtype=float), spread, name in _INTEGERS, most)
        for name in ("effective", "stable", "energy_90", "energy_99")
    }
    return Baseline(draws=draws, **intervals)


def _side(rng: np.random.Generator, rank: int, size: int, latent: int | None, rope: int) -> Float[np.ndarray, "R A"]:
    """One side's rows, in orthonormal coordinates."""
    if latent is None:
        return triangle(rng, size, rank).T
    down = triangle(rng, size, latent + rope).T
    if rope:
        down = with_typical_latent(down, rope)
        up = np.zeros((rank, latent + rope))
        up[: rank - rope, :latent] = rng.normal(size=(rank - rope, latent))
        # of equal initial sizes, a rotary row is one row of the map itself
        up[rank - rope :, latent:] = np.eye(rope)
        return up @ down
    return rng.normal(size=(rank, latent)) @ down


def triangle(rng: np.random.Generator, rows: int, columns: int) -> Float[np.ndarray, "K columns"]:
    """R of the QR of a ``rows`` x ``columns`` standard normal matrix, K = min(rows, columns), in distribution."""
    if rows < columns:
        return np.linalg.qr(rng.normal(size=(rows, columns))).R
    upper = np.triu(rng.normal(size=(columns, columns)), 1)
    np.fill_diagonal(upper, np.sqrt(rng.chisquare(rows - np.arange(columns))))
    return upper


def overlap_moments(size: int, one: int, other: int) -> tuple[float, float]:
    """Mean and standard deviation of ``||U^T W||_F^2`` for random subspaces of dimensions ``one`` and ``other``.

    For Haar-distributed subspaces of R^size: mean ``one * other / size`` and variance
    ``2 one other (size - one) (size - other) / (size^2 (size - 1) (size + 2))`` (our derivation, checked by
    simulation).
    """
    mean = one * other / max(size, 1)
    if size < 2:
        return mean, 0.0
    product = one * other * max(size - one, 0) * max(size - other, 0)
    return mean, math.sqrt(2 * product / (size * size * (size - 1) * (size + 2)))


def joint_spread(count: int) -> float:
    """How many standard deviations one of ``count`` normal variables may deviate upward before it is no chance."""
    return NormalDist().inv_cdf(1 - _MISTAKE / max(count, 1))


def _interval(values: Float[np.ndarray, " n"], spread: float, whole: bool, largest: int) -> ChanceInterval:
    """``spread`` deviations to each side, each side with its own: effective ranks of small heads are skewed.

    A deviation from n draws may come out too small, so it is raised to its 95 % confidence limit.
    """
    mean = float(values.mean())
    ends = []
    # whole numbers fall on few values: a side may hold almost none, so there both sides count
    for side in (values, values) if whole else (values[values < mean], values[values > mean]):
        deviation = math.sqrt(float(np.square(side - mean).mean())) if len(side) else 0.0
        ends.append(spread * deviation * (1 + 1.645 / math.sqrt(2 * max(len(side), 1))))
    low, high = mean - ends[0], min(mean + ends[1], largest)
    if whole:
        low, high = math.floor(low - 0.5), min(math.ceil(high + 0.5), largest)
    return ChanceInterval(mean, float(low), float(high))
