"""How many directions each bottleneck keeps: the same share everywhere, or where they are worth most."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from jaxtyping import Float
from torch import Tensor

from rankwise.errors import InvalidInputError


def allocated_ranks(spectra: Sequence[Float[Tensor, " _"]], total: int) -> tuple[int, ...]:
    """``total`` directions in all, those with the largest eigenvalues; every bottleneck keeps at least one.

    Optimal for the sum of the dropped eigenvalues, because each spectrum falls.
    """
    _require_total(spectra, total)
    values = torch.cat([spectrum[1:] for spectrum in spectra])
    owners = torch.cat([torch.full((len(spectrum) - 1,), at) for at, spectrum in enumerate(spectra)])
    chosen = values.argsort(descending=True, stable=True)[: total - len(spectra)]
    counts = torch.bincount(owners[chosen], minlength=len(spectra))
    return tuple(1 + int(count) for count in counts)


def uniform_ranks(spectra: Sequence[Float[Tensor, " _"]], total: int) -> tuple[int, ...]:
    """The same share of every bottleneck; what rounding leaves over goes to the first ones."""
    _require_total(spectra, total)
    sizes = [len(spectrum) for spectrum in spectra]
    ranks = [max(1, total * size // sum(sizes)) for size in sizes]
    for at in range(total - sum(ranks)):
        ranks[at % len(ranks)] += 1
    return tuple(ranks)


def _require_total(spectra: Sequence[Float[Tensor, " _"]], total: int) -> None:
    most = sum(map(len, spectra))
    if not len(spectra) <= total <= most:
        raise InvalidInputError(
            f"--keep: expected a share that leaves {len(spectra)} to {most} directions in all, got {total}"
        )
