"""Normalisations of the residual stream."""

from __future__ import annotations

from typing import Literal

import torch
from jaxtyping import Float
from torch import Tensor, nn


class UnitNorm(nn.Module):
    """``x -> s x / ||x||`` with one learned scalar s, the norm of the paper's experiments (no epsilon)."""

    def __init__(self, *, device: torch.device | str | None = None, dtype: torch.dtype | None = None) -> None:
        super().__init__()
        self.scale = nn.Parameter(torch.ones((), device=device, dtype=dtype))

    def forward(self, x: Float[Tensor, "*B D"]) -> Float[Tensor, "*B D"]:
        return x * (self.scale / torch.linalg.vector_norm(x, dim=-1, keepdim=True))


def build_norm(
    kind: Literal["rms", "unit", "none"],
    dim: int,
    *,
    device: torch.device | str | None = None,
    dtype: torch.dtype | None = None,
) -> nn.Module:
    """The module that ``ModelSpec.norm`` names."""
    if kind == "rms":
        return nn.RMSNorm(dim, eps=1e-6, device=device, dtype=dtype)
    return UnitNorm(device=device, dtype=dtype) if kind == "unit" else nn.Identity()
