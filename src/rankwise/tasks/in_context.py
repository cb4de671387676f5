"""Functions to be learned in context: the classes of Garg et al. (2022), and the value of the nearest anchor.

B prompts, P points (examples) of a prompt, D dim, N = 2P - 1 tokens.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from jaxtyping import Float, Int
from torch import Tensor

from rankwise.errors import ShapeError, require_int
from rankwise.spec import InContextSpec
from rankwise.tasks.batch import TokenBatch


@dataclass(frozen=True)
class InContext:
    """Prompts of the function class that ``spec`` names; errors are over ``spec.variance``: predicting 0 costs 1.

    The value after x_k may use x_1, f(x_1), ..., x_k; a prompt's loss is the mean over all its P positions.
    """

    spec: InContextSpec

    def sample(
        self, batch: int, generator: torch.Generator, *, step: int | None = None, dtype: torch.dtype = torch.float32
    ) -> TokenBatch:
        """``batch`` fresh prompts as they are at ``step`` of the curriculum (None: after it)."""
        return interleaved(*self.prompts(batch, generator, step=step, dtype=dtype))

    def prompts(
        self, batch: int, generator: torch.Generator, *, step: int | None = None, dtype: torch.dtype = torch.float32
    ) -> tuple[Float[Tensor, "B P D"], Float[Tensor, "B P"]]:
        """Examples and their values; coordinates that the curriculum has not reached are 0."""
        require_int("batch", batch, minimum=1)
        dims, points = self.spec.stage(step)
        x = torch.randn(batch, points, self.spec.dim, generator=generator, dtype=dtype)
        x[..., dims:] = 0
        return x, self._values(x, dims, generator)

    def training_batch(self, size: int, generator: torch.Generator, *, step: int, dtype: torch.dtype) -> TokenBatch:
        """Fresh prompts of the curriculum."""
        return self.sample(size, generator, step=step, dtype=dtype)

    def held_out(self, batches: int, size: int, generator: torch.Generator, *, dtype: torch.dtype) -> list[TokenBatch]:
        """Fresh prompts of the whole problem."""
        return [self.sample(size, generator, dtype=dtype) for _ in range(batches)]

    def loss(self, prediction: Float[Tensor, "*shape"], batch: TokenBatch) -> Float[Tensor, " B"]:
        """The error itself."""
        return self.error(prediction, batch)

    def error(self, prediction: Float[Tensor, "*shape"], batch: TokenBatch) -> Float[Tensor, " B"]:
        """Mean over the prompt of (prediction - f(x_k))^2, over the variance of f."""
        return self._squared(prediction, batch).mean(dim=1)

    def details(self, prediction: Float[Tensor, "*shape"], batch: TokenBatch) -> dict[str, Float[Tensor, "B P"]]:
        """The error after 0, 1, ..., P - 1 examples."""
        return {"by_examples": self._squared(prediction, batch)}

    def levels(self, examples: int) -> dict[str, float]:
        """None."""
        return {}

    def _squared(self, prediction: Tensor, batch: TokenBatch) -> Float[Tensor, "B P"]:
        if prediction.ndim != 3 or prediction.shape[:2] != batch.tokens.shape[:2] or prediction.shape[2] != 1:
            wanted = [*batch.tokens.shape[:2], 1]
            raise ShapeError(f"prediction: expected [batch, tokens, 1] = {wanted}, got {list(prediction.shape)}")
        return (prediction[:, ::2, 0] - batch.targets).square() / self.spec.variance

    def _values(self, x: Float[Tensor, "B P D"], dims: int, generator: torch.Generator) -> Float[Tensor, "B P"]:
        spec, batch = self.spec, len(x)

        def normal(*shape: int) -> Tensor:
            return torch.randn(*shape, generator=generator, dtype=x.dtype)

        if spec.function == "nearest":
            return nearest_anchor_values(x, normal(batch, spec.anchors or 0))
        if spec.function == "tree":
            nodes = 2 ** (spec.depth or 0)
            coordinates = torch.randint(spec.dim, (batch, nodes - 1), generator=generator)
            return tree_values(x, coordinates, normal(batch, nodes))
        if spec.function == "relu":
            hidden = spec.hidden or 0
            active = torch.relu(x @ normal(batch, spec.dim, hidden))
            return math.sqrt(2 / hidden) * (active @ normal(batch, hidden, 1))[..., 0]
        weights = normal(batch, spec.dim)
        if spec.function == "sparse_linear":
            order = torch.rand(batch, dims, generator=generator).argsort(dim=1)
            kept = torch.zeros_like(weights).scatter_(1, order[:, : spec.sparsity], 1.0)
            weights = weights * kept
        return (x @ weights[..., None])[..., 0]


def tree_values(
    x: Float[Tensor, "B P D"], coordinates: Int[Tensor, "B inner"], leaves: Float[Tensor, "B L"]
) -> Float[Tensor, "B P"]:
    """Full binary trees with L leaves: node i asks whether x[coordinates[i]] > 0 and goes to 2i + 1 (no) or 2i + 2."""
    positive = x > 0
    node = torch.zeros(x.shape[:2], dtype=torch.int64)
    for _ in range(leaves.shape[1].bit_length() - 1):
        asked = coordinates.gather(1, node)
        node = 2 * node + 1 + positive.gather(2, asked[..., None])[..., 0].long()
    return leaves.gather(1, node - (leaves.shape[1] - 1))


def nearest_anchor_values(x: Float[Tensor, "B P D"], values: Float[Tensor, "B A"]) -> Float[Tensor, "B P"]:
    """The value of the nearest of the first A points; of an anchor its own."""
    anchors = x[:, : values.shape[1]]
    return values.gather(1, torch.cdist(x, anchors, compute_mode="donot_use_mm_for_euclid_dist").argmin(dim=2))


def interleaved(x: Float[Tensor, "B P D"], y: Float[Tensor, "B P"]) -> TokenBatch:
    """Tokens x_1, (y_1, 0, ..., 0), x_2, ..., x_P; targets y."""
    values = torch.zeros_like(x)
    values[..., 0] = y
    return TokenBatch(torch.stack((x, values), dim=2).flatten(1, 2)[:, :-1], y)
