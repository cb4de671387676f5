"""How a run is optimised, validated and stopped."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

from rankwise.errors import InvalidInputError, require_int, require_number
from rankwise.spec.fields import settle


@dataclass(frozen=True, kw_only=True)
class LrMultipliers:
    """Factors on the learning rate, one for each group of parameters (biases belong to their matrix's group)."""

    query_key: float = 1.0
    output_value: float = 1.0
    temperature: float = 1.0
    feedforward: float = 1.0
    norm: float = 1.0
    positions: float = 1.0
    interface: float = 1.0

    def __post_init__(self) -> None:
        settle(self)
        for name in self.__dataclass_fields__:
            require_number(name, getattr(self, name), minimum=0)


@dataclass(frozen=True, kw_only=True)
class OptimSpec:
    """``steps`` steps of ``batch`` examples each, with AdamW or Muon."""

    optimizer: Literal["adamw", "muon"] = "adamw"
    """``muon`` updates matrices by orthogonalised momentum, and everything else as AdamW does."""
    lr: float
    """The peak learning rate, which ``schedule`` multiplies."""
    betas: tuple[float, float] = (0.9, 0.95)
    """Of AdamW."""
    eps: float = 1e-8
    """Of AdamW."""
    momentum: float = 0.95
    """Of Muon."""
    weight_decay: float = 0.0
    """Decoupled: each step also multiplies all parameters by ``1 - lr * weight_decay``."""
    lr_multipliers: LrMultipliers = field(default_factory=LrMultipliers)
    """Factors on ``lr`` by group of parameters."""
    clip: float | None = None
    """A gradient with a larger norm is scaled down to this one (default: never)."""
    steps: int
    """Updates of the weights."""
    batch: int
    """Sequences per update."""
    micro_batch: int | None = None
    """Cuts a batch into pieces of this size whose gradients are summed, to save memory (default: one piece)."""
    examples: int | None = None
    """How many different examples there are; they repeat in the same order (default: every example is fresh)."""
    schedule: Literal["cosine", "scales", "paper"] = "cosine"
    """See ``train.schedule``: a cosine to 0; constant, then exponentially to a thousandth; the authors' cosine."""
    warmup: int = 0
    """Steps of linear warm-up."""
    epoch_steps: int = 100
    """Steps between validations."""
    patience: int | None = None
    """Stop after this many epochs that did not lower the validation error (default: never)."""
    validation_batches: int = 16
    """Batches of held-out examples per validation."""
    validation_batch: int = 256
    """Held-out examples per batch."""

    def __post_init__(self) -> None:
        settle(self)
        for name in ("steps", "batch", "epoch_steps", "validation_batches", "validation_batch"):
            require_int(name, getattr(self, name), minimum=1)
        for name in ("micro_batch", "examples", "patience"):
            if getattr(self, name) is not None:
                require_int(name, getattr(self, name), minimum=1)
        for name in ("lr", "weight_decay"):
            require_number(name, getattr(self, name), minimum=0)
        require_number("eps", self.eps, above=0)
        if self.clip is not None:
            require_number("clip", self.clip, above=0)
        for name, value in (("betas[0]", self.betas[0]), ("betas[1]", self.betas[1]), ("momentum", self.momentum)):
            _require_decay(name, value)
        if not 0 <= self.warmup <= self.steps:
            raise InvalidInputError(f"warmup: expected 0 to steps = {self.steps} steps, got {self.warmup}")
        if self.micro_batch is not None and self.batch % self.micro_batch:
            raise InvalidInputError(f"micro_batch: expected a divisor of batch = {self.batch}, got {self.micro_batch}")
        if self.examples is not None and self.examples % self.batch:
            raise InvalidInputError(f"examples: expected a multiple of batch = {self.batch}, got {self.examples}")
        if self.schedule == "paper":
            for name in ("steps", "warmup"):
                if getattr(self, name) % self.epoch_steps:
                    raise InvalidInputError(
                        f"{name}: expected whole epochs of {self.epoch_steps} steps with schedule = 'paper', "
                        f"got {getattr(self, name)}"
                    )


def _require_decay(name: str, value: float) -> None:
    if not 0 <= value < 1:
        raise InvalidInputError(f"{name}: expected a number from 0 to below 1, got {value:g}")
