"""Scores of heads with random weights, of every kind that ``random_weights`` compares, and the ranks they have.

Legend: T heads (of all draws together), N tokens, D model dimension. Inputs have norm sqrt(D), projections entries
N(0, 1/D), and scores are divided by sqrt(head_dim), so that a logit has standard deviation 1: ordinary initialisation.
"""

from __future__ import annotations

import dataclasses
import math
from dataclasses import dataclass
from typing import Literal

import torch
from jaxtyping import Float
from torch import Tensor

from rankwise.errors import InvalidInputError, require_choice
from rankwise.measure import effective_rank, hardmax_rank, numerical_rank
from rankwise.nn import LatentAttention, Transformer
from rankwise.spec import LatentSpec, ModelSpec

INPUTS = ("orthonormal", "gaussian", "shared direction")


@dataclass(frozen=True, kw_only=True)
class ScoreRanks:
    """Means over heads, as shares of the number of tokens; ``above_*`` are numerical ranks of the softmax matrix."""

    hardmax: float
    hardmax_se: float
    effective: float
    above_1e2: float
    above_1e3: float


def ranks_of_scores(scores: Float[Tensor, "T N N"]) -> ScoreRanks:
    """ScoreRanks of the hardmax and the softmax of ``scores``."""
    return ranks_of_weights(scores.double().softmax(-1), hardmax_rank(scores))


def ranks_of_weights(weights: Float[Tensor, "T N N"], hardmax: Tensor | None = None) -> ScoreRanks:
    """ScoreRanks of softmax matrices; their hardmax has the same argmax."""
    if len(weights) < 2:
        raise InvalidInputError(f"weights: expected at least 2 heads, for a standard error, got {len(weights)}")
    weights = weights.double()
    tokens = weights.shape[-1]
    picked = (hardmax_rank(weights) if hardmax is None else hardmax).double() / tokens
    singular = torch.linalg.svdvals(weights)
    return ScoreRanks(
        hardmax=picked.mean().item(),
        hardmax_se=picked.std().item() / math.sqrt(len(picked)),
        effective=effective_rank(singular_values=singular).mean().item() / tokens,
        above_1e2=numerical_rank(singular_values=singular, rtol=1e-2).double().mean().item() / tokens,
        above_1e3=numerical_rank(singular_values=singular, rtol=1e-3).double().mean().item() / tokens,
    )


def random_inputs(law: str, tokens: int, dim: int, generator: torch.Generator) -> Float[Tensor, "N D"]:
    """Tokens of mean squared norm ``dim``: orthonormal directions, Gaussian, or Gaussian with pairwise cosine 1/2."""
    require_choice("law", law, INPUTS)
    drawn = torch.randn(tokens, dim, generator=generator)
    if law == "gaussian":
        return drawn
    if law == "shared direction":
        return (drawn + torch.randn(1, dim, generator=generator)) / math.sqrt(2)
    if tokens > dim:
        raise InvalidInputError(f"tokens: at most dim = {dim} tokens can be orthonormal, got {tokens}")
    return torch.linalg.qr(drawn.T).Q.T * math.sqrt(dim)


def plain_scores(
    inputs: Float[Tensor, "N D"], head_dim: int, heads: int, generator: torch.Generator
) -> Float[Tensor, "heads N N"]:
    """``x W_Q W_K^T x^T / sqrt(head_dim)`` of independent heads."""
    dim = inputs.shape[1]
    query, key = (inputs @ torch.randn(heads, dim, head_dim, generator=generator) / math.sqrt(dim) for _ in range(2))
    return query @ key.mT / math.sqrt(head_dim)


def plain_ranks(
    law: str,
    tokens: int,
    dim: int,
    head_dim: int,
    *,
    draws: int,
    heads: int,
    generator: torch.Generator,
    beta: float = 1.0,
    causal: bool = False,
) -> ScoreRanks:
    """ScoreRanks of ``heads`` ordinary heads on each of ``draws`` draws of the inputs; ``beta`` scales the logits."""
    drawn = []
    for _ in range(draws):
        inputs = random_inputs(law, tokens, dim, generator)
        drawn.append(plain_scores(inputs, head_dim, heads, generator))
    scores = beta * torch.cat(drawn)
    if causal:
        scores.masked_fill_(torch.ones(tokens, tokens, dtype=torch.bool).triu(1), -torch.inf)
    return ranks_of_scores(scores)


def layer_weights(
    tokens: int, dim: int, heads: int, layers: int, norm_place: Literal["pre", "post"], generator: torch.Generator
) -> list[Float[Tensor, "heads N N"]]:
    """Attention matrices of every layer of a transformer with random weights, on Gaussian tokens."""
    spec = ModelSpec(
        dim=dim, layers=layers, heads=heads, rank=dim // heads, feedforward=4 * dim, norm_place=norm_place, bias=False
    )
    model = Transformer(spec)
    _draw_parameters(model, generator)
    with torch.no_grad():
        _, weights = model(random_inputs("gaussian", tokens, dim, generator)[None], return_weights=True)
    return [layer[0] for layer in weights]


def latent_weights(tokens: int, heads: int, generator: torch.Generator) -> Float[Tensor, "heads N N"]:
    """Attention matrices of DeepSeek-V3's layer with random weights, causal, rotary positions and norms included.

    All sizes are V3's own but the number of heads that are computed: heads are alike given the shared latents.
    """
    layer = LatentAttention(dataclasses.replace(LatentSpec.deepseek_v3(), heads=heads))
    _draw_parameters(layer, generator)
    with torch.no_grad():
        _, weights = layer(random_inputs("gaussian", tokens, layer.spec.dim, generator)[None], return_weights=True)
    return weights[0]


def _draw_parameters(module: torch.nn.Module, generator: torch.Generator) -> None:
    """N(0, 1/fan-in), as everywhere here: PyTorch's initial weights leave logits of 0.5 or less."""
    with torch.no_grad():
        for parameter in module.parameters():
            if parameter.ndim > 1:  # the last axis is the fan-in, also of the way back: heads x rank = dim
                parameter.normal_(0, parameter.shape[-1] ** -0.5, generator=generator)
