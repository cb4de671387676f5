"""The rows of a layer's heads, and the subspaces that hold most of each head's form.

A basis is never stored per head: it is the rows of the head's matrix times a few coefficients.

Legend: n, m heads with rows of their own, H heads, R rank, A coordinates of the rows, D of the inputs behind a shared
map, E of the rows seen through it, k dimension of a subspace, K of several together,
p pairs of heads.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property
from itertools import groupby

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor

from rankwise.measure import column_gram
from rankwise.nn import one_thread_each

_CHUNK_BYTES = 16 * 2**20
_BLOCK = 8


class Rows:
    """The rows of a side's heads [n, R, A], seen through a shared map where there is one; a few heads at a time."""

    def __init__(self, block: Float[np.ndarray, "n R A"], shared: Float[np.ndarray, "A D"] | None) -> None:
        self.block, self.triangle = torch.from_numpy(block), _triangle(shared)
        self.step = max(1, _CHUNK_BYTES // (8 * block.shape[1] * block.shape[2]))

    def __len__(self) -> int:
        return len(self.block)

    @property
    def width(self) -> int:
        """Coordinates of a row."""
        return int(self.block.shape[2] if self.triangle is None else self.triangle.shape[0])

    @property
    def dtype(self) -> torch.dtype:
        """In which the rows are exact."""
        return self.block.dtype if self.triangle is None else self.triangle.dtype

    def of(self, start: int, stop: int, dtype: torch.dtype) -> Float[Tensor, "m R E"]:
        """Some heads' rows."""
        rows = self.block[start:stop]
        return rows.to(dtype) if self.triangle is None else rows.to(dtype) @ self.triangle.mT.to(dtype)

    def grams(self) -> Float[Tensor, "n R R"]:
        """``rows rows^T`` of every head, in float64."""

        size = int(self.block.shape[1])
        found = torch.empty(len(self), size, size, dtype=torch.float64)

        def fill(start: int) -> None:
            """Into ``found``: small results of their own between large buffers would keep those from being freed."""
            rows = self.of(start, start + self.step, torch.float64)
            torch.matmul(rows, rows.mT, out=found[start : start + self.step])

        one_thread_each(fill, range(0, len(self), self.step))
        return found


class Subspaces:
    """One orthonormal basis per head, ``U_h = rows_g^T c_h``, kept as its coefficients c_h [R, k].

    Heads that share rows (a key head) need no basis of their own: ``U_i^T U_j = c_i^T (rows_g rows_g'^T) c_j``.
    """

    def __init__(self, rows: Rows, coefficients: list[Tensor]) -> None:
        self.rows, self.coefficients = rows, coefficients
        self.group = len(coefficients) // len(rows)
        self.dims = np.array([one.shape[1] for one in coefficients])

    @property
    def size(self) -> int:
        """Coordinates of the space they lie in."""
        return self.rows.width

    def basis(self, head: int) -> Float[Tensor, "E k"]:
        """The basis of one head, in float32."""
        return self._transposed(head).mT

    def _transposed(self, head: int) -> Float[Tensor, "k E"]:
        (rows,) = self.rows.of(head // self.group, head // self.group + 1, torch.float32)
        return self.coefficients[head].float().mT @ rows

    def shared(self, i: Int[np.ndarray, " p"], j: Int[np.ndarray, " p"]) -> Float[np.ndarray, " p"]:
        """``||U_i^T U_j||_F^2`` of the given pairs of heads."""
        product = self._by_bases if self.group == 1 else self._by_rows
        order, rectangles = _rectangles(i, j)

        def shared_by(rectangle: tuple[range, range]) -> Float[np.ndarray, " m"]:
            heads, others = rectangle
            owners = np.repeat(np.arange(len(others)), self.dims[others])
            parts = product(heads, others).square_().split(self.dims[heads].tolist())
            # without any dimension, bincount would count in whole numbers
            sums = [np.bincount(owners, part.sum(0).numpy(), len(others)).astype(np.float64) for part in parts]
            return np.concatenate(sums)

        found = np.empty(len(i))
        found[order] = np.concatenate(one_thread_each(shared_by, rectangles))
        return found

    @cached_property
    def _by_bases(self) -> Callable[[range, range], Float[Tensor, "k K"]]:
        """The bases of some heads, transposed, times those of others, from all bases one below the other."""
        ends = np.concatenate(([0], np.cumsum(self.dims)))
        bases = torch.empty(int(ends[-1]), self.size)

        def fill(head: int) -> None:
            bases[ends[head] : ends[head + 1]] = self._transposed(head)

        one_thread_each(fill, range(len(self.dims)))

        def product(heads: range, others: range) -> Float[Tensor, "k K"]:
            return bases[ends[heads.start] : ends[heads.stop]] @ bases[ends[others.start] : ends[others.stop]].mT

        return product

    @cached_property
    def _by_rows(self) -> Callable[[range, range], Float[Tensor, "k K"]]:
        """The same from the products of all rows, where several heads share them."""
        every = self.rows.of(0, len(self.rows), self.rows.dtype)
        grams = column_gram(every.flatten(0, 1).mT)
        grams = grams.unflatten(0, every.shape[:2]).unflatten(2, every.shape[:2]).transpose(1, 2)

        def product(heads: range, others: range) -> Float[Tensor, "k K"]:
            groups = [(group, list(some)) for group, some in groupby(others, lambda head: head // self.group)]
            seen = slice(groups[0][0], groups[-1][0] + 1)
            across = torch.cat([self.coefficients[head].mT @ grams[head // self.group, seen] for head in heads], dim=1)
            theirs = (torch.cat([self.coefficients[head] for head in some], dim=1) for _, some in groups)
            return torch.cat([part @ some for part, some in zip(across, theirs, strict=True)], dim=1)

        return product


def _rectangles(
    i: Int[np.ndarray, " p"], j: Int[np.ndarray, " p"]
) -> tuple[Int[np.ndarray, " p"], list[tuple[range, range]]]:
    """Pairs as rectangles, each one product of large matrices: heads that follow each other, all with the same others.

    Of a triangle of pairs, those within a block of heads come as single rows and all others as rectangles. Also gives
    the order in which the rectangles have the pairs.
    """
    within = i // _BLOCK == j // _BLOCK
    order = np.lexsort((j, i, within))
    follows = (np.diff(i[order]) == 0) & (np.diff(j[order]) == 1) & (np.diff(within[order]) == 0)
    found: list[tuple[range, range]] = []
    for row in np.split(order, np.flatnonzero(~follows) + 1):
        head, others = int(i[row[0]]), range(int(j[row[0]]), int(j[row[-1]]) + 1)
        if found and found[-1][0].stop == head and found[-1][1] == others:
            found[-1] = range(found[-1][0].start, head + 1), others
        else:
            found.append((range(head, head + 1), others))
    return order, found


def _triangle(shared: Float[np.ndarray, "A D"] | None) -> Float[Tensor, "E A"] | None:
    if shared is None:
        return None
    return torch.linalg.qr(torch.from_numpy(shared).to(torch.float64).mT, mode="r").R
