"""The feed-forward part of a block.

Legend: W width.
"""

from __future__ import annotations

import torch
from jaxtyping import Float
from torch import Tensor, nn

from rankwise.nn.cpu.blocked_relu import BlockedRelu
from rankwise.nn.cpu.gate import hand_gradients_apply
from rankwise.spec import ModelSpec


class FeedForward(nn.Sequential):
    """``W_2 act(W_1 x + b_1) + b_2``, a token at a time."""

    def __init__(
        self, spec: ModelSpec, *, device: torch.device | str | None = None, dtype: torch.dtype | None = None
    ) -> None:
        super().__init__(
            nn.Linear(spec.width, spec.feedforward, bias=spec.bias, device=device, dtype=dtype),
            nn.ReLU() if spec.activation == "relu" else nn.GELU(),
            nn.Linear(spec.feedforward, spec.width, bias=spec.bias, device=device, dtype=dtype),
        )
        self.blocked = spec.activation == "relu" and spec.bias

    def forward(self, x: Float[Tensor, "*B W"], *, twice_differentiable: bool = False) -> Float[Tensor, "*B W"]:
        """``twice_differentiable`` leaves out the blocked relu, which has a first derivative only."""
        first, _, second = self
        blocked = self.blocked and not twice_differentiable
        if blocked and hand_gradients_apply(x) and not torch.is_autocast_enabled("cpu"):
            flat = BlockedRelu.apply(x.flatten(0, -2), first.weight, first.bias, second.weight, second.bias)
            return flat.view(x.shape)
        return super().forward(x)

    @torch.no_grad()
    def silence(self) -> None:
        """Add nothing to the residual stream until trained."""
        for parameter in self[2].parameters():
            parameter.zero_()
