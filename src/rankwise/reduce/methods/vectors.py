"""What a method may know of a vector x that a linear map makes: the map, samples of x, and gradients at them.

Legend: T tokens, K losses, n coordinates of x, D of its input.
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

    def chunks(self, centre: Float[Tensor, " n"]) -> Iterator[tuple[Float[Tensor, "t n"], Float[Tensor, "t n"]]]:
        """Samples around ``centre`` and gradients in units of ``gradient_size``, together, in float32."""
        if self.samples is None or self.gradients is None:
            raise InvalidInputError("--method fisher: expected texts to take gradients on (--text FILE), got none")
        for gradients in self.gradients:
            for x, g in zip(self.samples.split(_CHUNK), gradients.split(_CHUNK), strict=True):
                yield x.float() - centre, g.float()

    def balance(self, spread: Float[Tensor, "n n"]) -> Float[Tensor, "n n"]:
        """The metric in which every part of x has energy 1."""
        return torch.diag(equal_parts(spread.diagonal(), self.parts))
