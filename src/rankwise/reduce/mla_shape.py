"""What a layer keeps in the form of DeepSeek-V2: rotary slots that all heads share, and a latent without positions.

A key's coordinates j and j + R/2 are one complex number z that a position t turns by ``exp(i f_j t)``. Complex
combinations of the key heads' z at one frequency turn alike, so they can be cut by a complex bottleneck and rotated
afterwards, exactly. Keys of the slowest frequencies go through the latent with the values, and their rotation is
dropped: an approximation that costs little while ``f_j t`` is small, and the reason why this form costs more than a
latent that is rebuilt before the rotation.

Legend: K key heads, R rank, F frequencies (R/2), L layers.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from jaxtyping import Complex128, Float
from torch import Tensor

from rankwise.errors import InvalidInputError
from rankwise.reduce.bottleneck import RIDGE, Bottleneck, Metric, bottleneck
from rankwise.reduce.sites import Site


@dataclass(frozen=True)
class MlaShape:
    """The same in every layer, since the stock class has one configuration for all."""

    slots: tuple[int, ...]
    """Complex slots of every frequency; 0 for those without rotation."""
    slow: int
    """Frequencies, counted from the slowest, whose rotation is dropped."""
    latent: int

    @property
    def rope(self) -> int:
        """Numbers of the shared rotary key."""
        return 2 * sum(self.slots)

    @property
    def cached(self) -> int:
        """Numbers per token and layer."""
        return self.latent + self.rope


@dataclass(frozen=True)
class Slots:
    """The complex directions of one frequency: slots ``down z``, keys ``up slots``, the best first."""

    down: Complex128[Tensor, "K K"]
    up: Complex128[Tensor, "K K"]
    spectrum: Float[Tensor, " K"]


@dataclass(frozen=True)
class MlaDirections:
    """All directions of one layer, for one number of slow frequencies."""

    site: Site
    slots: tuple[Slots, ...]
    """Of every frequency, the fastest first."""
    latent: Bottleneck
    """Of slow keys and values together."""


def slow_rows(site: Site, slow: int) -> list[int]:
    """Coordinates of a key head whose rotation is dropped."""
    half = site.k.index.shape[1] // 2
    return [*range(half - slow, half), *range(2 * half - slow, 2 * half)]


def mla_directions(site: Site, metric: Metric, slow: int) -> MlaDirections:
    """Slots and latent of one layer by the metric of its keys and values."""
    heads, rank = site.k.index.shape
    half = rank // 2
    slots = tuple(
        _slots(metric, [head * rank + at for head in range(heads)], half) for at in range(half - slow)
    )  # the slow ones have none
    keys = [head * rank + row for head in range(heads) for row in slow_rows(site, slow)]
    rows = torch.tensor([*keys, *range(heads * rank, len(metric.mean))])
    part = Metric(metric.mean[rows], metric.spread[rows][:, rows], metric.importance[rows][:, rows])
    return MlaDirections(site, slots, bottleneck(part))


def best_shape(layers: Sequence[MlaDirections], slow: int, total: int) -> MlaShape:
    """The shape with ``total`` numbers per token and layer that drops least of all spectra, greedily per number."""
    latent = torch.stack([layer.latent.spectrum for layer in layers]).sum(0)
    turned = [torch.stack([layer.slots[at].spectrum for layer in layers]).sum(0) for at in range(len(layers[0].slots))]
    offers = [(float(value), 1, -1) for value in latent]
    offers += [(float(value) / 2, 2, at) for at, values in enumerate(turned) for value in values]
    slots, kept = [0] * (len(turned) + slow), 0
    left = total
    for _, size, at in sorted(offers, key=lambda offer: -offer[0]):
        if size > left:
            continue
        left -= size
        if at < 0:
            kept += 1
        else:
            slots[at] += 1
    if not kept or not any(slots):
        raise InvalidInputError(
            f"--format mla: expected a share that leaves slots and a latent, got {total} numbers per layer"
        )
    return MlaShape(tuple(slots), slow, kept)


def _slots(metric: Metric, real: Sequence[int], half: int) -> Slots:
    """Directions in the mean over all turns of what an error costs, around zero: a constant would need a slot too."""
    a, b = torch.tensor(real), torch.tensor(real) + half
    moment = metric.spread + torch.outer(metric.mean, metric.mean)
    spread, importance = (
        torch.complex(m[a][:, a] + m[b][:, b], m[b][:, a] - m[a][:, b]) for m in (moment, metric.importance / 2)
    )
    values, vectors = torch.linalg.eigh(importance)
    values = values.clamp_min(RIDGE * float(values[-1].clamp_min(1e-30)))
    root = (vectors * values.sqrt()) @ vectors.mH
    inverse = (vectors / values.sqrt()) @ vectors.mH
    spectrum, directions = torch.linalg.eigh(root @ spread @ root)
    down, up = directions.flip(1).mH @ root, inverse @ directions.flip(1)
    size = down.norm(dim=1)
    return Slots(down / size[:, None], up * size, spectrum.flip(0).clamp_min(0))
