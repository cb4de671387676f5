"""Select the code that a query is a noisy copy of. B examples, N codes, Q queries, D dim."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property

import torch
from jaxtyping import Bool, Float
from torch import Tensor
from torch.nn.functional import normalize

from rankwise.errors import ShapeError, require_int
from rankwise.spec import SelectSpec
from rankwise.tasks.batch import Batch, squared_error


@dataclass(frozen=True)
class Select:
    """Codes uniform on the sphere; the loss is the squared error, the error how many answers are nearest to another
    code than the copied one."""

    spec: SelectSpec

    @cached_property
    def codes(self) -> Float[Tensor, "N D"] | None:
        """The codes of all examples, where they are fixed."""
        if self.spec.codebook is None:
            return None
        generator = torch.Generator().manual_seed(self.spec.codebook)
        return _unit(self.spec.points, self.spec.dim, generator=generator, dtype=torch.float64)

    def sample(self, batch: int, generator: torch.Generator, *, dtype: torch.dtype = torch.float32) -> Batch:
        """``batch`` fresh examples; which codes are copied is uniform."""
        require_int("batch", batch, minimum=1)
        spec = self.spec
        if self.codes is None:
            points = _unit(batch, spec.points, spec.dim, generator=generator, dtype=dtype)
        else:
            points = self.codes.to(dtype).expand(batch, -1, -1)
        copied = torch.randint(spec.points, (batch, spec.queries), generator=generator)
        targets = points.gather(1, copied[..., None].expand(-1, -1, spec.dim))
        noise = torch.randn(targets.shape, generator=generator, dtype=dtype) * (spec.noise / math.sqrt(spec.dim))
        return Batch(points, (targets + noise) / math.sqrt(1 + spec.noise**2), targets)

    def training_batch(self, size: int, generator: torch.Generator, *, step: int, dtype: torch.dtype) -> Batch:
        """Fresh examples, the same law at every step."""
        return self.sample(size, generator, dtype=dtype)

    def held_out(self, batches: int, size: int, generator: torch.Generator, *, dtype: torch.dtype) -> list[Batch]:
        """Fresh examples from their own generator (of the same codes, where these are fixed)."""
        return [self.sample(size, generator, dtype=dtype) for _ in range(batches)]

    def loss(self, prediction: Float[Tensor, "*shape"], batch: Batch) -> Float[Tensor, " B"]:
        """Squared distance to the copied code."""
        return squared_error(prediction, batch.targets)

    def error(self, prediction: Float[Tensor, "*shape"], batch: Batch) -> Float[Tensor, " B"]:
        """The share of queries whose answer is nearest to another code."""
        return 1 - self._right(prediction, batch).to(batch.targets.dtype).mean(dim=1)

    def details(self, prediction: Float[Tensor, "*shape"], batch: Batch) -> dict[str, Float[Tensor, " B"]]:
        """The squared error."""
        return {"squared_error": self.loss(prediction, batch)}

    def levels(self, examples: int) -> dict[str, float]:
        """A random code."""
        return {"random code": 1 - 1 / self.spec.points}

    def _right(self, prediction: Tensor, batch: Batch) -> Bool[Tensor, "B Q"]:
        if prediction.shape != batch.targets.shape:
            raise ShapeError(
                f"prediction: expected [batch, queries, dim] = {list(batch.targets.shape)}, "
                f"got {list(prediction.shape)}"
            )
        nearest = (prediction @ batch.points.mT).argmax(dim=2)
        chosen = batch.points.gather(1, nearest[..., None].expand(-1, -1, self.spec.dim))
        return (chosen == batch.targets).all(dim=2)


def _unit(*shape: int, generator: torch.Generator, dtype: torch.dtype) -> Tensor:
    return normalize(torch.randn(*shape, generator=generator, dtype=dtype), dim=-1)
