"""The bilinear forms of a layer's heads, from thin factors: no dim x dim matrix is ever formed.

With ``left`` [H, R, A] and ``right`` [G, R, B] the form of head h is ``left_h^T right_g``, g = h // (H / G): QK with
queries left and keys right, OV with outputs left and values right. A square root of each factor's Gram matrix,
``left_h left_h^T = L_h^T L_h``, gives everything else as small cores (as ``rankwise.nn.factored`` does for one
spectrum): the spectrum at any rotation, with biases, and of a whole group. Gram matrices are taken in float64, so that
a singular value is right to about 1e-8 of the largest; what counts as zero lies above 1e-6.

Legend: H heads, G kv_heads, R rank, A, B input coordinates of the two sides, S = min(R, A, B) singular values.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from rankwise.audit.report import Ranks
from rankwise.measure import effective_rank, energy_rank, numerical_rank, stable_rank
from rankwise.models import LayerWeights, Rope
from rankwise.nn import rotate

_CHUNK_BYTES = 64 * 2**20
_HEADS_AT_ONCE = 8
_SUBSPACE_ENERGY = 0.9


@dataclass(frozen=True, eq=False)
class Forms:
    """All heads of one layer in one form; spectra in float64, subspaces in float32."""

    left_cores: Float[Tensor, "H R R"]
    right_cores: Float[Tensor, "G R R"]
    singular_values: Float[Tensor, "H S"]
    left_spaces: Subspaces
    """What holds 90 % of each head's energy."""
    right_spaces: Subspaces
    sizes: tuple[int, int]
    """(A, B): rows and columns of the form."""

    @property
    def group(self) -> int:
        return len(self.left_cores) // len(self.right_cores)

    def rotated(self, rope: Rope, distance: int) -> Float[Tensor, "H S"]:
        """Singular values of ``q^T R(-distance) k``, what a query sees of a key that many tokens back.

        A rotation only: the amplitude of ``rope`` is in the keys already, see ``with_amplitude``.
        """
        angles = -distance * torch.from_numpy(rope.frequencies)
        turning = slice(rope.start, rope.start + rope.dims)
        keys = self.right_cores.clone()
        keys[..., turning] = rotate(keys[..., turning], angles.cos(), angles.sin(), rope.interleaved)
        return self._values(self.left_cores, keys)

    def with_bias(self, left: Float[Tensor, "H R"] | None, right: Float[Tensor, "G R"] | None) -> Float[Tensor, "H S"]:
        """Singular values with biases as one more input coordinate, always 1."""
        queries, keys = self.left_cores, self.right_cores
        if left is not None:
            queries = torch.cat((queries, left[:, None]), dim=1)
        if right is not None:
            keys = torch.cat((keys, right[:, None]), dim=1)
        return self._values(queries, keys)

    def of_groups(self) -> Float[Tensor, "G S"]:
        """Singular values of each right head against all left heads of its group, stacked."""
        stacked = self.left_cores.reshape(len(self.right_cores), -1, self.left_cores.shape[-1])
        core = gram_root(stacked.mT @ stacked)
        most = min(core.shape[-1], self.group * self.sizes[0], self.sizes[1])
        return without_noise(torch.linalg.svdvals(core @ self.right_cores.mT)[:, :most], core, self.right_cores)

    def _values(self, left: Float[Tensor, "H k R"], right: Float[Tensor, "G l R"]) -> Float[Tensor, "H S"]:
        shared = right.repeat_interleave(self.group, dim=0)
        values = torch.linalg.svdvals(left @ shared.mT)
        return without_noise(values[:, : min(left.shape[-1], *(size + 1 for size in self.sizes))], left, shared)


def forms(
    left: Float[np.ndarray, "H R A"],
    right: Float[np.ndarray, "G R B"],
    left_map: Float[np.ndarray, "A D"] | None = None,
    right_map: Float[np.ndarray, "B C"] | None = None,
) -> Forms:
    """The forms ``left_h^T right_g`` of all heads, or ``left_map^T left_h^T right_g right_map`` behind shared maps.

    A map enters by the triangle of its QR: coordinates in the orthonormal basis of its rows, same spectra and angles.
    """
    left_rows, right_rows = _Rows(left, left_map), _Rows(right, right_map)
    group = len(left) // len(right)
    sizes = (_width(left, left_map), _width(right, right_map))
    most = min(left.shape[1], *sizes)
    left_cores, right_cores = gram_root(left_rows.grams()), gram_root(right_rows.grams())
    shared = right_cores.repeat_interleave(group, dim=0)
    u, s, vh = torch.linalg.svd(left_cores @ shared.mT)
    u, s, vh = u[..., :most], without_noise(s[..., :most], left_cores, shared), vh[..., :most, :]
    # singular vectors of the form from its product with each other, which needs no orthonormal basis
    scaled = torch.where(s > 0, 1 / s, 0.0).unsqueeze(-2)
    onto_left, onto_right = shared.mT @ vh.mT * scaled, left_cores.mT @ u * scaled
    kept = energy_rank(singular_values=s, fraction=_SUBSPACE_ENERGY).tolist()
    left_spaces, right_spaces = (
        Subspaces(rows, [onto[head, :, :size] for head, size in enumerate(kept)])
        for rows, onto in ((left_rows, onto_left), (right_rows, onto_right))
    )
    return Forms(left_cores, right_cores, s, left_spaces, right_spaces, sizes)


def gram_root(gram: Float[Tensor, "n R R"]) -> Float[Tensor, "n R R"]:
    """``C`` with ``C^T C = gram``; directions below the noise of float64 become zero."""
    values, vectors = torch.linalg.eigh(gram)
    noise = values[:, -1:].clamp_min(0) * gram.shape[-1] * 2.0**-52
    return torch.where(values > noise, values, 0.0).sqrt().unsqueeze(-1) * vectors.mT


def without_noise(
    values: Float[Tensor, "n S"], left: Float[Tensor, "n k R"], right: Float[Tensor, "n l R"]
) -> Float[Tensor, "n S"]:
    """Singular values of ``left right^T``, zero where they are within the rounding of the product."""
    sizes = torch.linalg.matrix_norm(left) * torch.linalg.matrix_norm(right)
    return torch.where(values > (2.0**-48 * sizes)[:, None], values, 0.0)


class _Rows:
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

    def of(self, start: int, stop: int, dtype: torch.dtype) -> Float[Tensor, "m R E"]:
        """Some heads' rows."""
        rows = self.block[start:stop]
        return rows.to(dtype) if self.triangle is None else rows.to(dtype) @ self.triangle.mT.to(dtype)

    def grams(self) -> Float[Tensor, "n R R"]:
        """``rows rows^T`` of every head, in float64."""
        found = []
        for start in range(0, len(self), self.step):
            rows = self.of(start, start + self.step, torch.float64)
            found.append(rows @ rows.mT)
        return torch.cat(found)


class Subspaces:
    """One orthonormal basis per head, ``U_h = rows_g^T c_h``, kept as its coefficients c_h [R, k].

    Heads that share rows (a key head) need no basis of their own: ``U_i^T U_j = c_i^T (rows_g rows_g'^T) c_j``.
    """

    def __init__(self, rows: _Rows, coefficients: list[Tensor]) -> None:
        self.rows, self.coefficients = rows, coefficients
        self.group = len(coefficients) // len(rows)
        self.dims = np.array([one.shape[1] for one in coefficients])

    @property
    def size(self) -> int:
        """Coordinates of the space they lie in."""
        return self.rows.width

    def basis(self, head: int) -> Float[Tensor, "E k"]:
        """The basis of one head, in float32."""
        (rows,) = self.rows.of(head // self.group, head // self.group + 1, torch.float32)
        return rows.mT @ self.coefficients[head].float()

    def shared(self) -> Float[np.ndarray, "H H"]:
        """``||U_i^T U_j||_F^2`` of all pairs."""
        ends = np.concatenate(([0], np.cumsum(self.dims)))
        if not ends[-1]:
            return np.zeros((len(self.dims), len(self.dims)))
        products = self._by_rows() if self.group > 1 else self._by_bases()
        total = np.zeros((len(self.dims), len(self.dims)))
        for start, stop, block in products:
            down = np.add.reduceat(block, (ends[start:stop] - ends[start]).clip(max=len(block) - 1), axis=0)
            both = np.add.reduceat(down, ends[:-1].clip(max=int(ends[-1]) - 1), axis=1)
            total[start:stop] = both
        nothing = self.dims == 0
        total[nothing], total[:, nothing] = 0, 0
        return total

    def _by_bases(self) -> Iterator[tuple[int, int, Float[np.ndarray, "m n"]]]:
        """Squared products of some heads' bases with all, in float32: the sums of products of one large matrix."""
        joined = torch.cat([self.basis(head).mT for head in range(len(self.dims))])
        ends = np.concatenate(([0], np.cumsum(self.dims)))
        for start in range(0, len(self.dims), _HEADS_AT_ONCE):
            stop = min(start + _HEADS_AT_ONCE, len(self.dims))
            block = joined[ends[start] : ends[stop]] @ joined.mT
            yield start, stop, block.square_().numpy()

    def _by_rows(self) -> Iterator[tuple[int, int, Float[np.ndarray, "m n"]]]:
        """The same through the products of the shared rows."""
        every = self.rows.of(0, len(self.rows), torch.float64)
        count, rank, _ = every.shape
        grams = (every.flatten(0, 1) @ every.flatten(0, 1).mT).unflatten(0, (count, rank)).unflatten(2, (count, rank))
        stacks = [torch.cat(self.coefficients[g * self.group : (g + 1) * self.group], dim=1) for g in range(count)]
        for g in range(count):
            row = torch.cat([stacks[g].mT @ grams[g, :, other] @ stacks[other] for other in range(count)], dim=1)
            if len(row):
                yield g * self.group, (g + 1) * self.group, row.square_().numpy()


def qk_forms(weights: LayerWeights) -> Forms:
    """``q_h^T k_g`` of a folded layer at distance 0; latents in front of a norm are divided by their typical size."""
    query_map, key_map, latent = weights.query_down, weights.key_down, weights.ref.latent
    if query_map is not None:
        query_map = with_typical_latent(query_map, 0)
    if key_map is not None and latent is not None:
        key_map = with_typical_latent(key_map, latent.rope)
    return forms(weights.q, with_amplitude(weights.k, weights.ref.rope), query_map, key_map)


def ov_forms(weights: LayerWeights) -> Forms | None:
    """``o_h^T v_g`` of a folded layer, None where the layer has no such matrices."""
    if weights.o is None or weights.v is None:
        return None
    key_map, latent = weights.key_down, weights.ref.latent
    if key_map is not None and latent is not None:
        key_map = with_typical_latent(key_map, latent.rope)
    return forms(weights.o, weights.v, None, key_map)


def with_amplitude(keys: Float[np.ndarray, "G R *B"], rope: Rope | None) -> Float[np.ndarray, "G R *B"]:
    """Keys, or their biases, with the factor that rotary positions put on the scores of the coordinates they turn."""
    if rope is None or rope.amplitude == 1:
        return keys
    amplified = keys.copy()
    amplified[:, rope.start : rope.start + rope.dims] *= rope.amplitude**2
    return amplified


def with_typical_latent(key_map: Float[np.ndarray, "B C"], rope: int) -> Float[np.ndarray, "B C"]:
    """The map to (latent, ``rope`` rotary coordinates), the latent divided by its root mean square for unit inputs.

    The latent's norm divides each token's latent by its own size and leaves the shared rotary key alone; without a
    typical size the two parts of one head could not be weighed against each other. A convention, exact for isotropic
    inputs in the mean.
    """
    latent = key_map[: len(key_map) - rope]
    size = np.sqrt(np.square(latent, dtype=np.float64).sum() / len(latent))
    return np.concatenate((latent / (size if size > 0 else 1.0), key_map[len(key_map) - rope :])).astype(key_map.dtype)


def ranks_of(singular_values: Float[Tensor, "N S"], size: int) -> list[Ranks]:
    """All ranks of each row of singular values; ``size`` is the larger side of the form."""
    columns = (
        numerical_rank(singular_values=singular_values, rtol=min(size * 2.0**-23, 0.1)).tolist(),
        effective_rank(singular_values=singular_values).tolist(),
        stable_rank(singular_values=singular_values).tolist(),
        energy_rank(singular_values=singular_values, fraction=0.9).tolist(),
        energy_rank(singular_values=singular_values, fraction=0.99).tolist(),
    )
    return [Ranks(*row) for row in zip(*columns, strict=True)]


def _triangle(shared: Float[np.ndarray, "A D"] | None) -> Float[Tensor, "E A"] | None:
    if shared is None:
        return None
    return torch.linalg.qr(torch.from_numpy(shared).to(torch.float64).mT, mode="r").R


def _width(block: Float[np.ndarray, "n R A"], shared: Float[np.ndarray, "A D"] | None) -> int:
    return int(block.shape[-1] if shared is None else shared.shape[-1])
