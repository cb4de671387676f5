"""What a calibration keeps of heads: sums over whole texts.

An error E x of a head's vector changes what is differentiated by ``sum_t g_t^T E x_t = <E, M>``, with ``M = sum_t g_t
x_t^T`` over the tokens of a text. Summed, errors of tokens that cancel do cancel: token by token they would all count.
Texts are centred at their own means, so that half precision can hold M; ``TextSums.around`` moves the centre.

Legend: B texts of a pass, N tokens, K losses, S texts times losses, G key heads, R rank, V of values, n coordinates of
keys and values together, H query heads.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from rankwise.reduce.sites import Site


@dataclass(frozen=True)
class HeadSamples:
    """Sums over the texts of all passes; gradients in the unit of ``Samples.g_size``."""

    key_products: Float[Tensor, "S G R R"]
    """M of every text, for each key head's keys."""
    value_products: Float[Tensor, "S G V V"]
    """The same for values."""
    slopes: Float[Tensor, "S n"]
    """Gradients, summed over each text."""
    means: Float[Tensor, "S n"]
    """Of x over each text."""
    keys: Float[Tensor, "G R R"]
    """Second moment of keys around the means of their texts."""
    values: Float[Tensor, "G V V"]
    """The same of values."""
    key_slopes: Float[Tensor, "G R R"]
    """Second moment of the gradients by single keys."""
    value_slopes: Float[Tensor, "G V V"]
    """The same of values."""
    length: float
    """Tokens of a text, in the mean."""


def query_sum(site: Site, queries: Float[Tensor, "B N HR"], real: Bool[Tensor, "B N"]) -> Float[Tensor, "G R R"]:
    """Products of the queries that ask each key head, summed over tokens, in the unit of scores."""
    asking = queries * real[..., None] * site.scale
    asked = asking.unflatten(-1, (len(site.k.index), -1, site.k.index.shape[1]))
    return torch.einsum("bnxya,bnxyc->xac", asked, asked)


def head_sums(
    site: Site, x: Float[Tensor, "B N n"], slopes: Float[Tensor, "K B N n"], real: Bool[Tensor, "B N"]
) -> dict[str, Tensor]:
    """The sums of one pass, by name."""
    groups, rank = site.k.index.shape
    counted = real[..., None]
    tokens = counted.sum(1)
    mean = (x * counted).sum(1) / tokens
    centred = (x - mean[:, None]) * counted
    apart = (groups * rank, site.v.index.size)
    keys, values = (part.unflatten(-1, (groups, -1)) for part in centred.split(apart, -1))
    key_slopes, value_slopes = (part.unflatten(-1, (groups, -1)) for part in slopes.split(apart, -1))
    return {
        "key_products": torch.einsum("kbnga,bngc->kbgac", key_slopes, keys).flatten(0, 1).half(),
        "value_products": torch.einsum("kbnga,bngc->kbgac", value_slopes, values).flatten(0, 1).half(),
        "slopes": slopes.sum(2).flatten(0, 1),
        "means": mean.repeat(len(slopes), 1),
        "keys": torch.einsum("bnga,bngc->gac", keys, keys),
        "values": torch.einsum("bnga,bngc->gac", values, values),
        "key_slopes": torch.einsum("kbnga,kbngc->gac", key_slopes, key_slopes) / len(slopes),
        "value_slopes": torch.einsum("kbnga,kbngc->gac", value_slopes, value_slopes) / len(slopes),
        "tokens": tokens.sum(),
        "texts": torch.tensor(len(x)),
    }


def joined_sums(parts: Sequence[Any], at: int, sizes: Sequence[float]) -> HeadSamples:
    """The sums of site ``at``, read from all passes; gradients of each pass times its size."""

    def slopes_of(name: str) -> Tensor:
        return torch.cat([part.get_tensor(f"{name}{at}") * size for part, size in zip(parts, sizes, strict=True)])

    def moment(name: str, sizes: Sequence[float]) -> Tensor:
        kept = [part.get_tensor(f"{name}{at}") * size**2 for part, size in zip(parts, sizes, strict=True)]
        return torch.stack(kept).sum(0) / tokens

    tokens, texts = (sum(int(part.get_tensor(f"{name}{at}")) for part in parts) for name in ("tokens", "texts"))
    ones = [1.0] * len(parts)
    return HeadSamples(
        key_products=slopes_of("key_products"),
        value_products=slopes_of("value_products"),
        slopes=slopes_of("slopes"),
        means=torch.cat([part.get_tensor(f"means{at}") for part in parts]),
        keys=moment("keys", ones),
        values=moment("values", ones),
        key_slopes=moment("key_slopes", sizes),
        value_slopes=moment("value_slopes", sizes),
        length=tokens / texts,
    )
