"""What a method may know of a vector x that a linear map makes: the map, samples of x, and gradients at them.

Legend: T tokens, K losses, S texts times losses, n coordinates of x, D of its input.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor

from rankwise.errors import InvalidInputError
from rankwise.measure import equal_parts

_CHUNK = 4096


@dataclass(frozen=True)
class TextSums:
    """Of a head's keys or values, gradients summed over whole texts; in units of ``ModelVectors.gradient_size``."""

    products: Float[Tensor, "S n n"]
    """``sum_t g_t (x_t - m)^T`` with m the mean of the text; in half precision."""
    slopes: Float[Tensor, "S n"]
    """``sum_t g_t``."""
    means: Float[Tensor, "S n"]
    """m."""
    tokens: tuple[Float[Tensor, "n n"], Float[Tensor, "n n"]]
    """Second moments of x and, times the tokens of a text, of g: all that single tokens tell."""
    scores: tuple[Float[Tensor, "n n"], Float[Tensor, "n n"]] | None = None
    """Of keys: second moments of keys, and of the queries that ask them, in the unit of scores; None of values."""
    score_cost: float = 0.0
    """What a score that is off by 1 costs, see ``text_fisher``."""

    def around(self, centre: Float[Tensor, " n"]) -> Float[Tensor, "S n n"]:
        """``sum_t g_t (x_t - centre)^T`` of every text."""
        return self.products.float() + self.slopes[:, :, None] * (self.means - centre)[:, None]


@dataclass(frozen=True)
class ModelVectors:
    """One vector of a model, such as the keys and values of a layer."""

    weight: Float[Tensor, "n D"]
    bias: Float[Tensor, " n"]
    parts: tuple[int, ...]
    """Sizes of the parts of x that a method without gradients gives equal weight: keys and values."""
    samples: Float[Tensor, "T n"] | None = None
    """Half precision, each coordinate's scale kept; None without texts."""
    gradients: Float[Tensor, "K T n"] | None = None
    """Of K losses by x, in half precision and in units of ``gradient_size``; None where nobody asked for them."""
    gradient_size: float = 1.0
    texts: TextSums | None = None
    """Of heads, instead of ``gradients``."""
    partner: Float[Tensor, "n n"] | None = None
    """Of heads: second moment of what x is multiplied with, queries (in the unit of scores) or output weights."""

    def chunks(self, centre: Float[Tensor, " n"]) -> Iterator[tuple[Float[Tensor, "t n"], Float[Tensor, "K t n"]]]:
        """Samples around ``centre`` and gradients in units of ``gradient_size``, together, in float32."""
        if self.samples is None or self.gradients is None:
            raise InvalidInputError("--method fisher: expected texts to take gradients on (--text FILE), got none")
        for x, g in zip(self.samples.split(_CHUNK), self.gradients.split(_CHUNK, 1), strict=True):
            yield x.float() - centre, g.float()

    def balance(self, spread: Float[Tensor, "n n"]) -> Float[Tensor, "n n"]:
        """The metric in which every part of x has energy 1."""
        return torch.diag(equal_parts(spread.diagonal(), self.parts))
