"""What a task hands to a model. B examples, N points or tokens, Q queries, D dim, F features."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from jaxtyping import Float, Shaped
from torch import Tensor

from rankwise.errors import ShapeError


@dataclass(frozen=True, eq=False)
class Batch:
    """Examples drawn together: ``model(queries, points)`` should answer ``targets``.

    ``queries`` is None for self-attention: every point is a query, so Q = N and the model is ``model(points)``.
    """

    points: Float[Tensor, "B N D"]
    queries: Float[Tensor, "B Q D"] | None
    targets: Float[Tensor, "B Q D"]

    def __len__(self) -> int:
        return len(self.points)

    def to(self, device: torch.device | str | None = None, dtype: torch.dtype | None = None) -> Batch:
        """The same examples on another device or in another precision."""
        return Batch(
            points=self.points.to(device=device, dtype=dtype),
            queries=None if self.queries is None else self.queries.to(device=device, dtype=dtype),
            targets=self.targets.to(device=device, dtype=dtype),
        )

    @property
    def inputs(self) -> tuple[Tensor, ...]:
        """What the model is called with."""
        return (self.points,) if self.queries is None else (self.queries, self.points)

    def part(self, rows: slice) -> Batch:
        """Some of the examples."""
        queries = None if self.queries is None else self.queries[rows]
        return Batch(self.points[rows], queries, self.targets[rows])


@dataclass(frozen=True, eq=False)
class TokenBatch:
    """Token sequences drawn together: ``model(tokens)`` should answer ``targets``.

    Tokens are ids [B, N] or numbers [B, N, F]; targets are what the task says: numbers, ids or classes.
    """

    tokens: Shaped[Tensor, "B N *F"]
    targets: Shaped[Tensor, "B *T"]

    def __len__(self) -> int:
        return len(self.tokens)

    def to(self, device: torch.device | str | None = None, dtype: torch.dtype | None = None) -> TokenBatch:
        """The same examples on another device; numbers, but not ids, in another precision."""
        moved = [
            tensor.to(device=device, dtype=dtype if tensor.is_floating_point() else None)
            for tensor in (self.tokens, self.targets)
        ]
        return TokenBatch(*moved)

    @property
    def inputs(self) -> tuple[Tensor, ...]:
        """What the model is called with."""
        return (self.tokens,)

    def part(self, rows: slice) -> TokenBatch:
        """Some of the examples."""
        return TokenBatch(self.tokens[rows], self.targets[rows])


def squared_error(prediction: Float[Tensor, "*shape"], targets: Float[Tensor, "B Q D"]) -> Float[Tensor, " B"]:
    """``1/Q sum_q |prediction_q - target_q|^2`` of each example.

    Summed over coordinates, so it does not shrink with D: predicting 0 for unit vectors costs 1 in any dimension.
    One number per example, because examples are independent and queries of one example are not: the standard
    error of the mean is ``errors.std() / sqrt(B)``.
    """
    if prediction.shape != targets.shape:
        raise ShapeError(
            f"prediction: expected the shape of the targets [B, Q, D] = {list(targets.shape)}, "
            f"got {list(prediction.shape)}"
        )
    return (prediction - targets).square().sum(dim=-1).mean(dim=-1)
