"""What training asks of a task, whatever it is about. B examples."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol, TypeVar

import torch
from jaxtyping import Float
from torch import Tensor

from rankwise.tasks.batch import Batch, TokenBatch

B = TypeVar("B", Batch, TokenBatch)


class Task(Protocol[B]):
    """Examples to train on and others to be judged by."""

    def training_batch(self, size: int, generator: torch.Generator, *, step: int, dtype: torch.dtype) -> B:
        """``size`` examples for step ``step`` (from 0), all randomness from ``generator``."""
        ...

    def held_out(self, batches: int, size: int, generator: torch.Generator, *, dtype: torch.dtype) -> Sequence[B]:
        """At most ``batches`` batches of ``size`` examples that training never sees (or sees with chance 0)."""
        ...

    def loss(self, prediction: Tensor, batch: B) -> Float[Tensor, " B"]:
        """What training minimises, one number per example."""
        ...

    def error(self, prediction: Tensor, batch: B) -> Float[Tensor, " B"]:
        """What the run is judged by, one number per example."""
        ...

    def details(self, prediction: Tensor, batch: B) -> dict[str, Float[Tensor, "B ..."]]:
        """Further numbers of each example by name, of which the result keeps means and standard errors."""
        ...

    def levels(self, examples: int) -> dict[str, float]:
        """The errors of predictors without attention by name, on about so many held-out examples; empty: none known."""
        ...
