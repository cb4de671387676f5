"""Which rank-1 hardmax heads are the same function, or each other's complement.

A head is the sign of ``<q, y> <k, x_1 - x_2>``: (q, k) and (-q, -k) are the same head, (q, -k) and (-q, k) its
complement. Both make the kernel of ``kernels`` singular, so they are merged before it is solved.
Shapes: H heads, M classes, D dim.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from jaxtyping import Bool, Float, Int

_SAME = 1e-7
"""Rows closer than this are one vector: the kernel could not tell them apart (asin is flat to rounding near 1)."""


@dataclass(frozen=True)
class HeadClasses:
    """One head per class, and the class of every head; heads that are equal or complementary share a class."""

    queries: Float[np.ndarray, "M D"]
    keys: Float[np.ndarray, "M D"]
    member: Int[np.ndarray, " H"]
    flipped: Bool[np.ndarray, " H"]

    @property
    def has_complements(self) -> bool:
        """Whether some class holds a head and its complement, so that the heads span the constant answer too."""
        return bool(np.any(self._mixed))

    @property
    def _mixed(self) -> Bool[np.ndarray, " M"]:
        return np.bincount(self.member, weights=self.flipped, minlength=len(self.queries)) > 0

    def share(self, weights: Float[np.ndarray, " M"]) -> Float[np.ndarray, " H"]:
        """The heads' weights from their classes'.

        Without complements equal heads share evenly. With them ``weights`` are those of the classes' signs, whose
        sum is free: a mixed class turns its weight w into (s + w)/2 for the heads and (s - w)/2 for their
        complements, with one s for all mixed classes such that all weights add up to 1.
        """
        mixed = self._mixed
        side_total = weights.copy()
        flipped_total = np.zeros_like(weights)
        if mixed.any():
            free = (1 - np.sum(weights[~mixed])) / np.sum(mixed)
            side_total[mixed] = (free + weights[mixed]) / 2
            flipped_total[mixed] = (free - weights[mixed]) / 2
        flipped_count = np.bincount(self.member, weights=self.flipped, minlength=len(weights))
        side_count = np.bincount(self.member, weights=~self.flipped, minlength=len(weights))
        shared: Float[np.ndarray, " H"] = np.where(
            self.flipped,
            (flipped_total / np.maximum(flipped_count, 1))[self.member],
            (side_total / side_count)[self.member],
        )
        return shared


def merge_heads(queries: Float[np.ndarray, "H D"], keys: Float[np.ndarray, "H D"]) -> HeadClasses:
    """Group heads given by unit rows."""
    heads, dim = queries.shape
    # A random direction orients every vector the same way and sorts equal heads next to each other.
    probe = np.random.default_rng(0).standard_normal((2, dim))
    along_query, along_key = queries @ probe[0], keys @ probe[1]
    orientation = np.where((along_query < 0) == (along_key < 0), 1.0, -1.0)
    signature = np.abs(along_query) + np.abs(along_key)
    order = np.argsort(signature, kind="stable")
    before, after = order[:-1], order[1:]
    same = np.diff(signature[order]) < dim * _SAME
    same[same] = _are_same(queries, keys, before[same], after[same])

    # Number the classes by their first head, and let that head be the representative.
    sorted_member = np.concatenate([[0], np.cumsum(~same)])
    first = np.full(sorted_member[-1] + 1, heads)
    np.minimum.at(first, sorted_member, order)
    number = np.empty_like(first)
    number[np.argsort(first)] = np.arange(len(first))
    member = np.empty(heads, dtype=np.int64)
    member[order] = number[sorted_member]
    representative = np.sort(first)
    return HeadClasses(
        queries=queries[representative],
        keys=keys[representative],
        member=member,
        flipped=orientation != orientation[representative][member],
    )


def _are_same(
    queries: Float[np.ndarray, "H D"],
    keys: Float[np.ndarray, "H D"],
    left: Int[np.ndarray, " pairs"],
    right: Int[np.ndarray, " pairs"],
) -> Bool[np.ndarray, " pairs"]:
    """Whether two heads are equal up to complement: both vectors equal up to their signs."""

    def distance(rows: Float[np.ndarray, "H D"]) -> Float[np.ndarray, " pairs"]:
        side = np.sign(np.sum(rows[left] * rows[right], axis=1))[:, None]
        return np.asarray(np.linalg.norm(rows[left] - side * rows[right], axis=1))

    return (distance(queries) < _SAME) & (distance(keys) < _SAME)
