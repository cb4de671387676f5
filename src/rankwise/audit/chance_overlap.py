"""How much of their main subspaces two random heads share behind the gains of their layer.

A gain that favours few coordinates draws every head's main directions towards them, so that random heads meet there.
Mean and deviation of ``||U_i^T U_j||_F^2`` come from drawn heads, for every two dimensions of the subspaces: the first
directions of a head lean on the large gains more than the later ones.

Legend: G key heads drawn, H heads drawn, R rank, E coordinates that heads have in common, F of a head alone,
S directions of a head, p pairs.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import torch
from jaxtyping import Float, Int
from scipy.special import betaincinv
from torch import Tensor

from rankwise.audit.baseline import Side, divided_gain, triangle
from rankwise.nn import one_thread

_WORK = 2**22  # of r^3 units
_FEWEST, _MOST = 8, 32


@dataclass(frozen=True)
class ChanceOverlap:
    """Moments of what the first directions of two random heads share, by how many of each are looked at."""

    mean: Float[np.ndarray, "T T"]
    deviation: Float[np.ndarray, "T T"]

    def of(
        self, one: Int[np.ndarray, " p"], other: Int[np.ndarray, " p"]
    ) -> tuple[Float[np.ndarray, " p"], Float[np.ndarray, " p"]]:
        """Mean and deviation for pairs of subspaces of these dimensions."""
        i, j = (np.minimum(dims, len(self.mean) - 1) for dims in (one, other))
        return self.mean[i, j], self.deviation[i, j]

    def limit(
        self, one: Int[np.ndarray, " p"], other: Int[np.ndarray, " p"], confidence: float
    ) -> Float[np.ndarray, " p"]:
        """What chance exceeds with probability ``1 - confidence``, if shares have a beta distribution (heuristic)."""
        mean, deviation = self.of(one, other)
        whole = np.maximum(np.minimum(one, other), 1)
        share, variance = mean / whole, np.square(deviation / whole)
        spread_out = (variance > 1e-12) & (share * (1 - share) > variance)
        weight = np.where(spread_out, share * (1 - share) / np.where(spread_out, variance, 1) - 1, 1.0)
        quantile = betaincinv(np.maximum(share * weight, 1e-9), np.maximum((1 - share) * weight, 1e-9), confidence)
        # a variance as large as can be is of shares that are 0 or 1
        return whole * np.where(spread_out, quantile, np.where(variance > 1e-12, 1.0, share))


@dataclass(frozen=True)
class SideChance:
    """One side of a form: pairs of heads with a key head in common, and others."""

    same_group: ChanceOverlap
    others: ChanceOverlap


@one_thread()
def chance_behind_gains(sides: tuple[Side, Side], group: int) -> tuple[SideChance, SideChance] | None:
    """The left and the right side of a form with random weights; None where there are no gains.

    - ``group``: query heads per key head.
    """
    left, right = sides
    if not any(side.has_gains for side in sides):
        return None
    rng = np.random.default_rng([left.rank, left.size, right.size, left.latent or 0, right.latent or 0, right.rope])
    groups = min(max(_WORK // left.rank**3, _FEWEST), _MOST)
    each = min(group, 2)
    queries, keys = _draw(left, rng, groups * each), _draw(right, rng, groups).repeated(each)
    (left_basis, left_root), (right_basis, right_root) = (torch.linalg.qr(side.rows().mT) for side in (queries, keys))
    u, _, vh = torch.linalg.svd(left_root @ right_root.mT, full_matrices=False)
    generator = torch.Generator().manual_seed(int(rng.integers(2**31)))
    return (
        _chance(left_basis @ u, queries, each, generator, shared=False),
        _chance(right_basis @ vh.mT, keys, each, generator, shared=True),
    )


@dataclass(frozen=True)
class _Drawn:
    """Rows of random heads: those coordinates one by one that gains prefer, the others in a basis of each head's own.

    The others are so many equal ones, ``freedom``, that two heads' bases meet there as random ones do.
    """

    common: Float[Tensor, "H R E"]
    own: Float[Tensor, "H R F"]
    freedom: float

    def rows(self) -> Float[Tensor, "H R C"]:
        return torch.cat((self.common, self.own), dim=-1)

    def repeated(self, each: int) -> _Drawn:
        return _Drawn(self.common.repeat_interleave(each, 0), self.own.repeat_interleave(each, 0), self.freedom)


def _draw(side: Side, rng: np.random.Generator, heads: int) -> _Drawn:
    own, freedom = np.zeros((heads, side.rank, 0)), 0.0
    if side.latent is not None:
        shared = side.draw_map(rng)
        common = np.stack([side.draw_up(rng) @ shared for _ in range(heads)])
    else:
        gain = np.ones(side.size) if side.gain is None else side.gain
        large, rest, freedom = divided_gain(gain, side.rank)
        common = rng.normal(size=(heads, side.rank, len(large))) * large
        if rest:
            own = np.stack([rest * triangle(rng, freedom, side.rank).T for _ in range(heads)])
    if side.rows is not None:
        weights = side.rows[np.arange(heads) % len(side.rows)][..., None]
        common, own = common * weights, own * weights
    return _Drawn(torch.from_numpy(common), torch.from_numpy(own), freedom)


def _chance(
    directions: Float[Tensor, "H C S"], drawn: _Drawn, each: int, generator: torch.Generator, *, shared: bool
) -> SideChance:
    """Moments over pairs of heads of two key heads, and of one.

    - ``shared``: whether heads of one key head have the same rows.
    """
    common, own = directions.split([drawn.common.shape[-1], drawn.own.shape[-1]], dim=1)

    def products(one: int, others: slice, *, same_basis: bool = False) -> Float[Tensor, "n S S"]:
        found = common[one].mT @ common[others]
        if not own.shape[1]:
            return found
        if same_basis:
            return found + own[one].mT @ own[others]
        size = (len(own[others]), own.shape[1], own.shape[1])
        meeting = torch.randn(size, generator=generator, dtype=own.dtype) / math.sqrt(drawn.freedom)
        return found + own[one].mT @ meeting @ own[others]

    heads = range(0, len(directions), each)
    others = _moments([products(head, slice(head + each, None, each)) for head in heads[:-1]], len(heads))
    if each == 1:
        return SideChance(others, others)
    pairs = [products(head, slice(head + 1, head + 2), same_basis=shared) for head in heads]
    return SideChance(_moments(pairs, len(heads)), others)


def _moments(products: list[Tensor], independent: int) -> ChanceOverlap:
    """Of parts [n, S, S]; a deviation from few draws may come out too small: it is raised to its 95 % limit."""
    size, count = products[0].shape[-1] + 1, sum(map(len, products))
    first, second = torch.zeros(size, size, dtype=torch.float64), torch.zeros(size, size, dtype=torch.float64)
    for part in products:
        shared = part.square().cumsum(1).cumsum(2)
        first[1:, 1:] += shared.sum(0)
        second[1:, 1:] += shared.square().sum(0)
    mean = first / count
    deviation = (second / count - mean.square()).clamp_min(0).sqrt() * (1 + 1.645 / math.sqrt(2 * independent))
    return ChanceOverlap(mean.numpy(), deviation.numpy())
