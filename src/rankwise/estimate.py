"""A mean and how well it is known: the one form of an average over seeds, draws or examples."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class Estimate:
    """A mean over independent values and the standard error of that mean."""

    mean: float
    standard_error: float

    @classmethod
    def over(cls, values: Sequence[float], *, alone: float = 0.0) -> Estimate:
        """Of independent ``values``; the standard error of a single one is ``alone``, which must be known otherwise."""
        mean = math.fsum(values) / len(values)
        if len(values) == 1:
            return cls(mean, alone)
        square = math.fsum((value - mean) ** 2 for value in values)
        return cls(mean, math.sqrt(square / (len(values) - 1) / len(values)))
