"""What random weights have: without it, a measured rank of 31 out of 32 says nothing.

Independent Gaussian matrices of the same shapes, as models are initialised, behind the layer's own gains: norms in
front multiply the inputs' coordinates, QK-norm and rotary amplitudes those of the heads. A gain that favours few
coordinates lowers the rank of any weights, trained or not.

The QR triangle of an n x r Gaussian matrix is drawn itself (Bartlett: independent chi variables on the diagonal, normal
ones above), so that a draw costs O(r^3) whatever the model dimension is. With unequal gains g, the coordinates of the
largest ones are drawn as they are; the others together act as ``sum(g^2)^2 / sum(g^4)`` equal ones (Satterthwaite, our
heuristic, checked by simulation). Trained weights may lie below the interval (structure) or, rarely, above.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache
from statistics import NormalDist

import numpy as np
import torch
from jaxtyping import Float

from rankwise.audit.report import Baseline, ChanceInterval
from rankwise.audit.spectra import ranks_of, with_amplitude, with_typical_latent
from rankwise.models import LayerWeights, Norm
from rankwise.nn import FactoredMatrix, one_thread

_WORK = 2**23  # of r^3 units: 1024 draws up to rank 20, 256 at rank 32
_FEWEST, _MOST = 64, 1024
_MISTAKE = 0.01  # that any head of a random model lies outside
_INTEGERS = ("energy_90", "energy_99")
_DRAWN_GAINS = 4
"""Times the rank: so many coordinates of the largest gains are drawn as they are."""


@dataclass(frozen=True)
class Side:
    """One side of a form with random weights: ``rank`` rows on ``size`` inputs, or on a latent of them."""

    rank: int
    size: int
    gain: Float[np.ndarray, " size"] | None = None
    """Of the inputs' coordinates; None: all equal."""
    rows: Float[np.ndarray, "n rank"] | None = None
    """Of the head's coordinates, for one or more heads; None: all equal."""
    latent: int | None = None
    latent_gain: Float[np.ndarray, " latent"] | None = None
    rope: int = 0
    """So many of the rows are shared coordinates that bypass the latent."""

    def plain(self) -> Side:
        """The same sizes without gains."""
        return Side(self.rank, self.size, latent=self.latent, rope=self.rope)

    @property
    def has_gains(self) -> bool:
        return any(gain is not None for gain in (self.gain, self.rows, self.latent_gain))

    def key(self) -> tuple[object, ...]:
        """Equal for sides of equal distribution; gains by their digits."""
        gains = (self.gain, self.rows, self.latent_gain)
        return (self.rank, self.size, self.latent, self.rope, *(_digits(gain) for gain in gains))

    def draw(self, rng: np.random.Generator, number: int) -> Float[np.ndarray, "R A"]:
        """The side's rows in orthonormal coordinates; ``number`` chooses among the heads' gains."""
        drawn = self._rows(rng)
        return drawn if self.rows is None else drawn * self.rows[number % len(self.rows)][:, None]

    def _rows(self, rng: np.random.Generator) -> Float[np.ndarray, "R A"]:
        if self.latent is None:
            return weighted_triangle(rng, self.size, self.rank, self.gain).T
        down = self.draw_map(rng)
        return self.draw_up(rng) @ down

    def draw_map(self, rng: np.random.Generator) -> Float[np.ndarray, "B A"]:
        """The map to the latent and the shared rotary coordinates, in orthonormal coordinates."""
        assert self.latent is not None
        down = weighted_triangle(rng, self.size, self.latent + self.rope, self.gain).T
        return with_typical_latent(down, self.rope) if self.rope else down

    def draw_up(self, rng: np.random.Generator) -> Float[np.ndarray, "R B"]:
        """A head's rows on what the map gives."""
        assert self.latent is not None
        gain = np.ones(self.latent) if self.latent_gain is None else self.latent_gain
        up = np.zeros((self.rank, self.latent + self.rope))
        up[: self.rank - self.rope, : self.latent] = rng.normal(size=(self.rank - self.rope, self.latent)) * gain
        # of equal initial sizes, a rotary row is one row of the map itself
        up[self.rank - self.rope :, self.latent :] = np.eye(self.rope)
        return up


def qk_sides(weights: LayerWeights) -> tuple[Side, Side]:
    """Queries and keys of an unfolded layer."""
    ref, latent = weights.ref, weights.ref.latent
    queries = Side(
        ref.rank, ref.dim, _gain(weights.query_norm), _head_gain(weights.q_head_norm, ref.rank),
        None if latent is None else latent.query_size, _gain(weights.query_latent_norm),
    )  # fmt: skip
    rows = _head_gain(weights.k_head_norm, ref.rank)
    if ref.rope is not None and ref.rope.amplitude != 1:
        rows = with_amplitude(np.ones((1, ref.rank)) if rows is None else rows, ref.rope)
    keys = Side(
        ref.rank, ref.context_dim, _gain(weights.key_norm), rows, None if latent is None else latent.key_size,
        _gain(weights.key_latent_norm), 0 if latent is None else latent.rope,
    )  # fmt: skip
    return queries, keys


def ov_sides(weights: LayerWeights) -> tuple[Side, Side]:
    """Outputs and values of an unfolded layer."""
    ref, latent = weights.ref, weights.ref.latent
    values = Side(
        ref.value_rank, ref.context_dim, _gain(weights.key_norm), None, None if latent is None else latent.key_size,
        _gain(weights.key_latent_norm),
    )  # fmt: skip
    return Side(ref.value_rank, ref.dim), values


def baseline(sides: tuple[Side, Side], heads: int) -> Baseline:
    """Ranks of the form of two random sides; the interval holds for ``heads`` heads together."""
    left, right = sides
    return _baseline(_Keyed(left), _Keyed(right), heads)


class _Keyed:
    """A side that can be looked up."""

    def __init__(self, side: Side) -> None:
        self.side, self._key = side, side.key()

    def __hash__(self) -> int:
        return hash(self._key)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Keyed) and self._key == other._key


@lru_cache(maxsize=64)
@one_thread()
def _baseline(one: _Keyed, other: _Keyed, heads: int) -> Baseline:
    left, right = one.side, other.side
    rng = np.random.default_rng([left.rank, left.size, right.size, left.latent or 0, right.latent or 0, right.rope])
    draws = min(max(_WORK // left.rank**3, _FEWEST), _MOST)
    ours = np.stack([left.draw(rng, number) for number in range(draws)])
    theirs = np.stack([right.draw(rng, number) for number in range(draws)])
    form = FactoredMatrix(torch.from_numpy(ours).mT, torch.from_numpy(theirs))
    most = min(left.rank, left.size, right.size)
    ranks = ranks_of(form.singular_values()[:, :most], max(left.size, right.size))
    spread = NormalDist().inv_cdf(1 - _MISTAKE / (2 * heads))
    intervals = {
        name: _interval(np.array([getattr(one, name) for one in ranks], dtype=float), spread, name in _INTEGERS, most)
        for name in ("effective", "stable", "energy_90", "energy_99")
    }
    return Baseline(draws=draws, **intervals)


def _gain(norm: Norm | None) -> Float[np.ndarray, " E"] | None:
    return None if norm is None else norm.gain


def _head_gain(norm: Norm | None, rank: int) -> Float[np.ndarray, "H R"] | None:
    return None if norm is None else norm.head_gain(rank)


def _digits(gain: Float[np.ndarray, "..."] | None) -> bytes | None:
    return None if gain is None else np.asarray(gain, dtype=np.float32).tobytes()


def weighted_triangle(
    rng: np.random.Generator, rows: int, columns: int, gain: Float[np.ndarray, " rows"] | None
) -> Float[np.ndarray, "K columns"]:
    """``T`` with ``T^T T`` distributed as ``Z^T diag(gain^2) Z``, Z a ``rows`` x ``columns`` standard normal matrix."""
    if gain is None:
        return triangle(rng, rows, columns)
    large, rest, freedom = divided_gain(gain, columns)
    parts = large[:, None] * rng.normal(size=(len(large), columns))
    if rest:
        parts = np.concatenate((parts, triangle(rng, freedom, columns) * rest))
    return _triangle_of(parts)


def divided_gain(gain: Float[np.ndarray, " E"], columns: int) -> tuple[Float[np.ndarray, " L"], float, float]:
    """The largest gains; the gain of the others, taken together, and how many equal coordinates they are like.

    The last two are 0 where the others are too few to be taken together.
    """
    squares = np.sort(np.square(gain, dtype=np.float64))[::-1]
    drawn = min(_DRAWN_GAINS * columns, len(squares))
    rest = squares[drawn:]
    freedom = float(rest.sum()) ** 2 / float(np.square(rest).sum()) if rest.any() else 0.0
    if freedom < 8 * columns:
        return np.sqrt(squares), 0.0, 0.0
    return np.sqrt(squares[:drawn]), math.sqrt(rest.sum() / freedom), freedom


def triangle(rng: np.random.Generator, rows: float, columns: int) -> Float[np.ndarray, "K columns"]:
    """R of the QR of a ``rows`` x ``columns`` standard normal matrix, K = min(rows, columns), in distribution.

    Above the number of columns, ``rows`` may be any number: degrees of freedom.
    """
    if rows < columns:
        return _triangle_of(rng.normal(size=(int(rows), columns)))
    upper = np.triu(rng.normal(size=(columns, columns)), 1)
    np.fill_diagonal(upper, np.sqrt(rng.chisquare(rows - np.arange(columns))))
    return upper


def _triangle_of(matrix: Float[np.ndarray, "n columns"]) -> Float[np.ndarray, "K columns"]:
    return torch.linalg.qr(torch.from_numpy(matrix), mode="r").R.numpy()


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
