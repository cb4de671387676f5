"""The Gram matrix of many heads' signs, applied to vectors tile by tile.

``G_ij = (2/pi)^2 asin<q_i, q_j> asin<k_i, k_j>`` with unit diagonal. Its upper triangle is cut into square tiles that
fit into the processor's cache. From the second product on (in high dimension one is often enough, and first use of so
much memory costs as much as computing it) tiles are kept while they fit into the given memory.
Shapes: M heads, D dim.
"""

from __future__ import annotations

import math

import numpy as np
from jaxtyping import Float

_TILE = 1024
_SNAP = 1 + 4e-7
"""In float32 <q, q> misses 1 by up to 2e-7 and asin turns that into 6e-4: inner products this close to 1 are 1."""


class SignGram:
    """G as an operator; tiles and their products are float32 or, if ``double``, float64; they are added in float64."""

    def __init__(
        self, queries: Float[np.ndarray, "M D"], keys: Float[np.ndarray, "M D"], *, memory: float, double: bool
    ) -> None:
        self.heads, self.dim = queries.shape
        self._dtype = np.dtype(np.float64 if double else np.float32)
        snap = 1.0 if double else math.sqrt(_SNAP)
        self._queries = (queries * snap).astype(self._dtype)
        self._keys = (keys * snap).astype(self._dtype)
        self._memory_left = memory
        self._products = 0
        self._tiles: dict[tuple[int, int], Float[np.ndarray, "..."]] = {}
        self._scratch = np.empty((2, _TILE * _TILE), dtype=self._dtype)

    def product(self, x: Float[np.ndarray, " M"]) -> Float[np.ndarray, " M"]:
        """G x."""
        self._products += 1
        vector = x.astype(self._dtype)
        total = np.zeros(self.heads)
        for top in range(0, self.heads, _TILE):
            rows = slice(top, top + _TILE)
            for left in range(top, self.heads, _TILE):
                columns = slice(left, left + _TILE)
                tile = self._tile(top, left)
                total[rows] += tile @ vector[columns]
                if left != top:
                    total[columns] += tile.T @ vector[rows]
        return total * (2 / math.pi) ** 2

    def linear_product(self, x: Float[np.ndarray, " M"]) -> Float[np.ndarray, " M"]:
        """``sum_j <q_i, q_j> <k_i, k_j> x_j``, the linear part of G without its weight eta_1^4, in O(M D^2)."""
        moment = self._queries.T @ (self._keys * x.astype(self._dtype)[:, None])
        return np.einsum("md,md->m", self._queries @ moment, self._keys).astype(np.float64)

    def _tile(self, top: int, left: int) -> Float[np.ndarray, "..."]:
        if (kept := self._tiles.get((top, left))) is not None:
            return kept
        rows, columns = slice(top, top + _TILE), slice(left, left + _TILE)
        shape = (len(self._queries[rows]), len(self._queries[columns]))
        size = shape[0] * shape[1]
        keep = self._products > 1 and size * self._dtype.itemsize <= self._memory_left
        tile = np.empty(shape, dtype=self._dtype) if keep else self._scratch[0, :size].reshape(shape)
        other = self._scratch[1, :size].reshape(shape)
        for vectors, out in ((self._queries, tile), (self._keys, other)):
            np.matmul(vectors[rows], vectors[columns].T, out=out)
            np.clip(out, -1, 1, out=out)
            np.arcsin(out, out=out)
        tile *= other
        if top == left:
            np.fill_diagonal(tile, (math.pi / 2) ** 2)
        if keep:
            self._memory_left -= size * self._dtype.itemsize
            self._tiles[top, left] = tile
        return tile
