"""A product of two thin matrices that is never multiplied out.

Legend: M rows, N columns, K inner dimension, P = min(M, K, N); leading dimensions ``*B`` are a batch.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from jaxtyping import Float, Int
from torch import Tensor

from rankwise.errors import ShapeError, require_int


@dataclass(frozen=True)
class FactoredMatrix:
    """``left @ right`` with left ``[*B, M, K]`` and right ``[*B, K, N]``, kept as its two factors.

    Spectral quantities come from a QR of both factors and an SVD of the small core,
    ``left = Q_l R_l``, ``right^T = Q_r R_r``, ``left right = Q_l (R_l R_r^T) Q_r^T``: O((M + N) K^2), and no
    M x N matrix unless ``dense()`` asks for one. Gram matrices are avoided: they halve the digits of small
    singular values. Of factors narrower than float32 they come in float32: no QR exists for narrower types.
    """

    left: Float[Tensor, "..."]
    right: Float[Tensor, "..."]

    def __post_init__(self) -> None:
        if self.left.ndim < 2 or self.right.ndim < 2 or self.left.shape[-1] != self.right.shape[-2]:
            raise ShapeError(
                f"FactoredMatrix: expected left [..., M, K] and right [..., K, N] with one K, "
                f"got {list(self.left.shape)} and {list(self.right.shape)}"
            )

    @property
    def shape(self) -> torch.Size:
        """Shape of the product."""
        batch = torch.broadcast_shapes(self.left.shape[:-2], self.right.shape[:-2])
        return torch.Size((*batch, self.left.shape[-2], self.right.shape[-1]))

    @property
    def mT(self) -> FactoredMatrix:  # noqa: N802 - torch's own name for the transpose of the last two dimensions
        """The transpose, still factored."""
        return FactoredMatrix(self.right.mT, self.left.mT)

    def dense(self) -> Float[Tensor, "*B M N"]:
        """The product itself, on request."""
        return self.left @ self.right

    def svd(self) -> tuple[Float[Tensor, "*B M P"], Float[Tensor, "*B P"], Float[Tensor, "*B P N"]]:
        """Thin SVD ``U diag(s) Vh`` with P = min(M, K, N) singular values, largest first."""
        left_basis, left_core = torch.linalg.qr(_at_least_float32(self.left))
        right_basis, right_core = torch.linalg.qr(_at_least_float32(self.right.mT))
        u, s, vh = torch.linalg.svd(left_core @ right_core.mT, full_matrices=False)
        return left_basis @ u, s, vh @ right_basis.mT

    def singular_values(self) -> Float[Tensor, "*B P"]:
        """The P largest singular values of the product, largest first; all others are zero."""
        return torch.linalg.svdvals(self._core())

    def frobenius_norm(self) -> Float[Tensor, "*B"]:
        """``||left right||_F``."""
        return torch.linalg.matrix_norm(self._core())

    def rank(self, rtol: float | None = None) -> Int[Tensor, "*B"]:
        """Number of singular values above ``rtol`` times the largest (default: max(M, N) x machine epsilon)."""
        s = self.singular_values()
        if rtol is None:
            rtol = max(self.left.shape[-2], self.right.shape[-1]) * torch.finfo(s.dtype).eps
        return (s > rtol * s[..., :1]).sum(-1)

    def truncate(self, k: int) -> FactoredMatrix:
        """The best approximation of rank ``k`` (Eckart-Young), the singular values shared by both factors."""
        require_int("k", k, minimum=1)
        u, s, vh = self.svd()
        root = s[..., :k].sqrt()
        left, right = u[..., :k] * root.unsqueeze(-2), vh[..., :k, :] * root.unsqueeze(-1)
        return FactoredMatrix(left.to(self.left.dtype), right.to(self.right.dtype))

    def _core(self) -> Float[Tensor, "*B a b"]:
        left, right = _at_least_float32(self.left), _at_least_float32(self.right.mT)
        return torch.linalg.qr(left, mode="r").R @ torch.linalg.qr(right, mode="r").R.mT


def _at_least_float32(factor: Float[Tensor, "*B a b"]) -> Float[Tensor, "*B a b"]:
    return factor.to(torch.promote_types(factor.dtype, torch.float32))
