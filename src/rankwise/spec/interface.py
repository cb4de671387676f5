"""What stands between a task whose examples are token sequences and the stack of width ``dim``."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True)
class TokenInterface:
    """Tokens are ``features`` numbers each, or ids below ``vocabulary`` (exactly one of them is set).

    ``outputs`` numbers are read out of every token, or of the mean over tokens if ``pooled``. ``causal`` says that a
    token must not see later ones, because they hold the answers.
    """

    features: int | None = None
    vocabulary: int | None = None
    outputs: int
    pooled: bool = False
    causal: bool = False

    def parameters(self, dim: int) -> int:
        """Trainable scalars of read-in (a table, or a linear map with bias) and read-out (linear with bias)."""
        read_in = dim * (self.features + 1) if self.features is not None else dim * (self.vocabulary or 0)
        return read_in + (dim + 1) * self.outputs

    def forward_flops(self, dim: int, tokens: int) -> float:
        """Operations for one example; looking an id up costs none."""
        read_in = 2 * tokens * dim * (self.features or 0)
        return float(read_in + 2 * (1 if self.pooled else tokens) * dim * self.outputs)
