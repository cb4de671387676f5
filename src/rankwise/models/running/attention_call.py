"""What one attention block did in one pass of a running model.

Legend: T texts, N tokens, M keys (= N in self-attention), H heads, G key heads, R head dimension, V value dimension,
D dim of the block's input, C of what keys are read from.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from jaxtyping import Bool, Float
from torch import Tensor, nn

from rankwise.errors import InvalidInputError


@dataclass(frozen=True, kw_only=True)
class AttentionCall:
    """What one attention block did with T sequences."""

    index: int
    """Counts blocks in the order in which they run."""
    name: str
    """The module's path."""
    module: nn.Module
    """The attention module that was called."""
    inputs: Float[Tensor, "T N D"]
    """The hidden states that enter the block, after the norm that feeds it."""
    context: Float[Tensor, "T M C"]
    """The hidden states that keys and values are read from; the same tensor in self-attention."""
    queries: Float[Tensor, "T H N R"] | None
    """As the model multiplies them; None, as are keys, values and scale, where it does not show them."""
    keys: Float[Tensor, "T G M R"] | None
    """Keys of every head."""
    values: Float[Tensor, "T G M V"] | None
    """Values of every head."""
    scale: float | None
    """What the model multiplies the products by."""
    softcap: float | None
    """Scores s become ``softcap * tanh(s / softcap)``; None: they stay."""
    probabilities: Float[Tensor, "T H N M"]
    """Attention of every head."""
    visible: Bool[Tensor, "..."] | None
    """True where a query may look; None where nothing is hidden."""

    @property
    def crosses(self) -> bool:
        """Whether keys come from another sequence."""
        return self.context is not self.inputs

    def logits(self) -> Float[Tensor, "T H N M"]:
        """``scale q k^T`` of every head, before soft-capping, position bias and mask."""
        if self.queries is None or self.keys is None or self.scale is None:
            raise InvalidInputError(f"{self.name}: {type(self.module).__name__} does not show its queries and keys")
        keys = self.keys.repeat_interleave(self.queries.shape[1] // self.keys.shape[1], dim=1)
        return self.queries @ keys.mT * self.scale


Visitor = Callable[[AttentionCall], None]
