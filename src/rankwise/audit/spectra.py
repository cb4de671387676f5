"""The bilinear forms of a layer's heads, from thin factors: no dim x dim matrix is ever formed.

With ``left`` [H, R, A] and ``right`` [G, R, B] the form of head h is ``left_h^T right_g``, g = h // (H / G): QK with
queries left and keys right, OV with outputs left and values right. A square root of each factor's Gram matrix,
``left_h left_h^T = L_h^T L_h``, gives everything else as small cores (as ``rankwise.nn.factored`` does for one
spectrum): the spectrum at any rotation, with biases, and of a whole group. Gram matrices are taken in float64, so that
a singular value is right to about 1e-8 of the largest; what counts as zero lies above 1e-6.

Legend: H heads, G kv_heads, R rank, A, B input coordinates of the two sides, S = min(R, A, B) singular values.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from rankwise.audit.report import Ranks
from rankwise.audit.subspaces import Rows, Subspaces
from rankwise.measure import effective_rank, energy_rank, numerical_rank, stable_rank
from rankwise.models import LayerWeights, Rope
from rankwise.nn import one_thread_each, rotate

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
        return without_noise(_svdvals(core @ self.right_cores.mT)[:, :most], core, self.right_cores)

    def _values(self, left: Float[Tensor, "H k R"], right: Float[Tensor, "G l R"]) -> Float[Tensor, "H S"]:
        shared = right.repeat_interleave(self.group, dim=0)
        values = _svdvals(left @ shared.mT)
        return without_noise(values[:, : min(left.shape[-1], *(size + 1 for size in self.sizes))], left, shared)


class Factors(NamedTuple):
    """The forms ``left_h^T right_g`` of all heads, or ``left_map^T left_h^T right_g right_map`` behind shared maps."""

    left: Float[np.ndarray, "H R A"]
    right: Float[np.ndarray, "G R B"]
    left_map: Float[np.ndarray, "A D"] | None = None
    right_map: Float[np.ndarray, "B C"] | None = None

    @property
    def group(self) -> int:
        """Left heads per right head."""
        return len(self.left) // len(self.right)

    @property
    def sizes(self) -> tuple[int, int]:
        """Rows and columns of a form."""
        return _width(self.left, self.left_map), _width(self.right, self.right_map)

    def minus(self, other: Factors) -> Factors:
        """Factors of the difference of two layers' forms: heads of twice the rank."""
        left, left_map = _beside(self.left, self.left_map, other.left, other.left_map)
        right, right_map = _beside(self.right, self.right_map, -other.right, other.right_map)
        return Factors(left, right, left_map, right_map)

    def singular_values(self) -> Float[Tensor, "H S"]:
        """Those of every head, the largest first; right to 1e-7 of the factors' sizes."""
        left, right = (
            gram_root(Rows(*side).grams()) for side in ((self.left, self.left_map), (self.right, self.right_map))
        )
        shared = right.repeat_interleave(self.group, dim=0)
        return without_noise(_svdvals(left @ shared.mT)[:, : min(left.shape[-1], *self.sizes)], left, shared)


def _beside(
    one: Float[np.ndarray, "n R A"],
    one_map: Float[np.ndarray, "A D"] | None,
    other: Float[np.ndarray, "n P B"],
    other_map: Float[np.ndarray, "B D"] | None,
) -> tuple[Float[np.ndarray, "n Q E"], Float[np.ndarray, "E D"] | None]:
    """Rows of both, each on its own inputs where there are maps, on the same ones where not."""
    if one_map is None or other_map is None:
        return np.concatenate((one, other), axis=1), None
    rows = np.zeros((len(one), one.shape[1] + other.shape[1], one.shape[2] + other.shape[2]), dtype=one.dtype)
    rows[:, : one.shape[1], : one.shape[2]] = one
    rows[:, one.shape[1] :, one.shape[2] :] = other
    return rows, np.concatenate((one_map, other_map))


def forms(
    left: Float[np.ndarray, "H R A"],
    right: Float[np.ndarray, "G R B"],
    left_map: Float[np.ndarray, "A D"] | None = None,
    right_map: Float[np.ndarray, "B C"] | None = None,
) -> Forms:
    """Spectra and main subspaces of all heads, given as the fields of ``Factors``.

    A map enters by the triangle of its QR: coordinates in the orthonormal basis of its rows, same spectra and angles.
    """
    factors = Factors(left, right, left_map, right_map)
    left_rows, right_rows = Rows(left, left_map), Rows(right, right_map)
    most = min(left.shape[1], *factors.sizes)
    left_cores, right_cores = gram_root(left_rows.grams()), gram_root(right_rows.grams())
    shared = right_cores.repeat_interleave(factors.group, dim=0)
    svds = one_thread_each(torch.linalg.svd, (left_cores @ shared.mT).split(_HEADS_AT_ONCE))
    u, s, vh = (torch.cat(parts) for parts in zip(*svds, strict=True))
    u, s, vh = u[..., :most], without_noise(s[..., :most], left_cores, shared), vh[..., :most, :]
    # singular vectors of the form from its product with each other, which needs no orthonormal basis
    scaled = torch.where(s > 0, 1 / s, 0.0).unsqueeze(-2)
    onto_left, onto_right = shared.mT @ vh.mT * scaled, left_cores.mT @ u * scaled
    kept = energy_rank(singular_values=s, fraction=_SUBSPACE_ENERGY).tolist()
    left_spaces, right_spaces = (
        Subspaces(rows, [onto[head, :, :size] for head, size in enumerate(kept)])
        for rows, onto in ((left_rows, onto_left), (right_rows, onto_right))
    )
    return Forms(left_cores, right_cores, s, left_spaces, right_spaces, factors.sizes)


def gram_root(gram: Float[Tensor, "n R R"]) -> Float[Tensor, "n R R"]:
    """``C`` with ``C^T C = gram``; directions below the noise of float64 become zero."""
    found = one_thread_each(torch.linalg.eigh, gram.split(_HEADS_AT_ONCE))
    values, vectors = (torch.cat(parts) for parts in zip(*found, strict=True))
    noise = values[:, -1:].clamp_min(0) * gram.shape[-1] * 2.0**-52
    return torch.where(values > noise, values, 0.0).sqrt().unsqueeze(-1) * vectors.mT


def _svdvals(matrices: Float[Tensor, "n k l"]) -> Float[Tensor, "n S"]:
    return torch.cat(one_thread_each(torch.linalg.svdvals, matrices.split(_HEADS_AT_ONCE)))


def without_noise(
    values: Float[Tensor, "n S"], left: Float[Tensor, "n k R"], right: Float[Tensor, "n l R"]
) -> Float[Tensor, "n S"]:
    """Singular values of ``left right^T``, zero where they are within the rounding of the product."""
    sizes = torch.linalg.matrix_norm(left) * torch.linalg.matrix_norm(right)
    return torch.where(values > (2.0**-48 * sizes)[:, None], values, 0.0)


def qk_factors(weights: LayerWeights) -> Factors:
    """``q_h^T k_g`` of a folded layer at distance 0; latents in front of a norm are divided by their typical size."""
    query_map, key_map, latent = weights.query_down, weights.key_down, weights.ref.latent
    if query_map is not None:
        query_map = with_typical_latent(query_map, 0)
    if key_map is not None and latent is not None:
        key_map = with_typical_latent(key_map, latent.rope)
    return Factors(weights.q, with_amplitude(weights.k, weights.ref.rope), query_map, key_map)


def ov_factors(weights: LayerWeights) -> Factors | None:
    """``o_h^T v_g`` of a folded layer, None where the layer has no such matrices."""
    if weights.o is None or weights.v is None:
        return None
    key_map, latent = weights.key_down, weights.ref.latent
    if key_map is not None and latent is not None:
        key_map = with_typical_latent(key_map, latent.rope)
    return Factors(weights.o, weights.v, None, key_map)


def qk_forms(weights: LayerWeights) -> Forms:
    """Spectra and subspaces of ``qk_factors``."""
    return forms(*qk_factors(weights))


def ov_forms(weights: LayerWeights) -> Forms | None:
    """Spectra and subspaces of ``ov_factors``."""
    factors = ov_factors(weights)
    return None if factors is None else forms(*factors)


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


def _width(block: Float[np.ndarray, "n R A"], shared: Float[np.ndarray, "A D"] | None) -> int:
    return int(block.shape[-1] if shared is None else shared.shape[-1])
