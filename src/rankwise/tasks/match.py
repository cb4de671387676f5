"""Match2 and Match3 (Sanford, Hsu and Telgarsky 2023): pairs are what attention compares, triples are not.

B examples, N numbers, M modulus.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor
from torch.nn.functional import binary_cross_entropy_with_logits

from rankwise.errors import InvalidInputError, ShapeError, require_int
from rankwise.spec import MatchSpec
from rankwise.tasks.batch import TokenBatch


@dataclass(frozen=True)
class Match:
    """Numbers uniform below M; the loss is the binary cross-entropy of every position in bits, the error how many of
    the positions are answered wrongly."""

    spec: MatchSpec

    def sample(self, batch: int, generator: torch.Generator, *, dtype: torch.dtype = torch.float32) -> TokenBatch:
        """``batch`` fresh examples; targets are 1.0 (yes) and 0.0."""
        require_int("batch", batch, minimum=1)
        numbers = torch.randint(self.spec.modulo, (batch, self.spec.points), generator=generator)
        return TokenBatch(numbers, self.target(numbers).to(dtype))

    def target(self, numbers: Int[Tensor, "..."]) -> Bool[Tensor, "B N"]:
        """For each of ``numbers`` [B, N]: match2, some x_j = -x_i; match3, some x_j + x_k = -x_i (mod M)."""
        if numbers.ndim != 2 or numbers.is_floating_point():
            raise ShapeError(f"numbers: expected whole numbers [batch, points], got {numbers.dtype} {numbers.shape}")
        M = self.spec.modulo
        if bool(((numbers < 0) | (numbers >= M)).any()):
            raise InvalidInputError(f"numbers: expected 0 to {M - 1}, got others")
        sums = numbers if self.spec.name == "match2" else ((numbers[:, :, None] + numbers[:, None]) % M).flatten(1)
        reached = torch.zeros(len(numbers), M, dtype=torch.bool).scatter_(1, sums, True)
        return reached.gather(1, (-numbers) % M)

    def training_batch(self, size: int, generator: torch.Generator, *, step: int, dtype: torch.dtype) -> TokenBatch:
        """Fresh examples."""
        return self.sample(size, generator, dtype=dtype)

    def held_out(self, batches: int, size: int, generator: torch.Generator, *, dtype: torch.dtype) -> list[TokenBatch]:
        """Fresh examples from their own generator."""
        return [self.sample(size, generator, dtype=dtype) for _ in range(batches)]

    def loss(self, prediction: Float[Tensor, "*shape"], batch: TokenBatch) -> Float[Tensor, " B"]:
        """Bits a position."""
        logits = self._logits(prediction, batch)
        nats = binary_cross_entropy_with_logits(logits, batch.targets, reduction="none")
        return nats.mean(dim=1) / math.log(2)

    def error(self, prediction: Float[Tensor, "*shape"], batch: TokenBatch) -> Float[Tensor, " B"]:
        """The share of positions answered wrongly."""
        return ((self._logits(prediction, batch) > 0) != (batch.targets > 0.5)).float().mean(dim=1)

    def details(self, prediction: Float[Tensor, "*shape"], batch: TokenBatch) -> dict[str, Float[Tensor, " B"]]:
        """Bits a position, and the share of yes: always answering the commoner is wrong min(yes, 1 - yes) often."""
        return {"bits": self.loss(prediction, batch), "yes": batch.targets.mean(dim=1)}

    def levels(self, examples: int) -> dict[str, float]:
        """None."""
        return {}

    def _logits(self, prediction: Tensor, batch: TokenBatch) -> Float[Tensor, "B N"]:
        if prediction.shape != (*batch.targets.shape, 1):
            raise ShapeError(
                f"prediction: expected [batch, points, 1] = {[*batch.targets.shape, 1]}, got {list(prediction.shape)}"
            )
        return prediction[..., 0]
