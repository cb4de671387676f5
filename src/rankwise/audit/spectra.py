"""The bilinear forms of a layer's heads, from thin factors: no dim x dim matrix is ever formed.

With ``left`` [H, R, A] and ``right`` [G, R, B] the form of head h is ``left_h^T right_g``, g = h // (H / G): QK with
queries left and keys right, OV with outputs left and values right. The triangles of one QR of each factor,
``left_h^T = Q_h L_h``, give everything else as small cores (as ``rankwise.nn.factored`` does for one spectrum): the
spectrum at any rotation, with biases, and of a whole group.

Legend: H heads, G kv_heads, R rank, A, B input coordinates of the two sides, K = min(R, A), L = min(R, B), S singular
values.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from rankwise.audit.report import Ranks
from rankwise.measure import effective_rank, energy_rank, numerical_rank, stable_rank
from rankwise.models.layouts import LayerWeights, Rope
from rankwise.nn.rotary import rotate

_CHUNK_BYTES = 16 * 2**20
_SUBSPACE_ENERGY = 0.9


@dataclass(frozen=True, eq=False)
class Forms:
    """All heads of one layer in one form; spectra in float64, subspaces in float32."""

    left_cores: Float[Tensor, "H K R"]
    right_cores: Float[Tensor, "G L R"]
    singular_values: Float[Tensor, "H S"]
    left_spaces: list[Tensor]
    """For each head an orthonormal basis [A, k] of what holds 90 % of the energy."""
    right_spaces: list[Tensor]
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
        return torch.linalg.svdvals(stacked @ self.right_cores.mT)

    def _values(self, left: Float[Tensor, "H k R"], right: Float[Tensor, "G l R"]) -> Float[Tensor, "H S"]:
        return torch.linalg.svdvals(left @ right.mT.repeat_interleave(self.group, dim=0))


def forms(
    left: Float[np.ndarray, "H R A"],
    right: Float[np.ndarray, "G R B"],
    left_map: Float[np.ndarray, "A D"] | None = None,
    right_map: Float[np.ndarray, "B C"] | None = None,
) -> Forms:
    """The forms ``left_h^T right_g`` of all heads, or ``left_map^T left_h^T right_g right_map`` behind shared maps.

    A map enters by the triangle of its QR: coordinates in the orthonormal basis of its rows, same spectra and angles.
    """
    left_triangle, right_triangle = _triangle(left_map), _triangle(right_map)
    group = len(left) // len(right)
    step = max(1, _CHUNK_BYTES // (8 * left.shape[1] * (group * left.shape[2] + right.shape[2])))
    left_cores, right_cores, values = [], [], []
    left_spaces: list[Tensor] = []
    right_spaces: list[Tensor] = []
    for start in range(0, len(right), step):
        stop = min(start + step, len(right))
        left_rows = _rows(left[start * group : stop * group], left_triangle)
        right_rows = _rows(right[start:stop], right_triangle)
        left_core = torch.linalg.qr(left_rows.mT, mode="r").R
        right_core = torch.linalg.qr(right_rows.mT, mode="r").R
        shared = right_core.repeat_interleave(group, dim=0)
        u, s, vh = torch.linalg.svd(left_core @ shared.mT, full_matrices=False)
        # singular vectors of the form from its product with each other, which needs no orthonormal basis
        scaled = torch.where(s > 0, 1 / s, 0.0).unsqueeze(-2)
        left_full = (left_rows.mT @ (shared.mT @ vh.mT * scaled)).float()
        onto = (left_core.mT @ u * scaled).unflatten(0, (-1, group))
        right_full = (right_rows.mT.unsqueeze(1) @ onto).flatten(0, 1).float()
        for head, size in enumerate(energy_rank(singular_values=s, fraction=_SUBSPACE_ENERGY).tolist()):
            left_spaces.append(left_full[head, :, :size])
            right_spaces.append(right_full[head, :, :size])
        left_cores.append(left_core)
        right_cores.append(right_core)
        values.append(s)
    sizes = (_width(left, left_map), _width(right, right_map))
    return Forms(torch.cat(left_cores), torch.cat(right_cores), torch.cat(values), left_spaces, right_spaces, sizes)


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


def _rows(block: Float[np.ndarray, "n R A"], triangle: Float[Tensor, "E A"] | None) -> Float[Tensor, "n R E"]:
    rows = torch.from_numpy(block).to(torch.float64)
    return rows if triangle is None else rows @ triangle.mT


def _width(block: Float[np.ndarray, "n R A"], shared: Float[np.ndarray, "A D"] | None) -> int:
    return int(block.shape[-1] if shared is None else shared.shape[-1])
