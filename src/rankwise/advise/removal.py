"""What advice takes from a reduction: how much of this trained model went, and what that cost on held-out text."""

from __future__ import annotations

from dataclasses import dataclass

from rankwise.reduce import Reduction


@dataclass(frozen=True, kw_only=True)
class TakenAway:
    """A measured cut of a trained model."""

    model: str
    """Name of the model that was cut."""
    kept: str
    """What remains of the heads, in words."""
    rank: int
    """The same share of a head's coordinates: the rank of a head that is as much smaller."""
    original_rank: int
    """The rank of a head before the cut."""
    cost: float | None
    """In percent of ``unit``; None where no texts were given, so that nothing was measured."""
    unit: str
    """What users notice: perplexity or nearest neighbours."""
    tolerance: float
    """The largest cost that counts as small."""
    texts: str
    """What it was measured on, in words."""
    weights: tuple[int, int]
    """Attention weights before and after."""
    cache: tuple[int, int]
    """Cached numbers per token before and after; zero in an encoder."""

    @property
    def affordable(self) -> bool:
        """Whether the cost was measured and is within the tolerance."""
        return self.cost is not None and self.cost <= self.tolerance


DEFAULT_TOLERANCE = 5.0
"""Percent of perplexity, or of nearest neighbours: the limit of the verdict of ``rankwise reduce``."""


def taken_away(report: Reduction) -> TakenAway:
    """From the report of a reduction."""
    share = report.kept_coordinates.after / report.kept_coordinates.before
    what = "cache of keys and values, as one latent per layer" if report.cache_numbers.before else "heads' coordinates"
    texts, cost = report.texts, report.cost
    weights, cache = report.attention_parameters, report.cache_numbers
    return TakenAway(
        model=report.model,
        kept=f"{share:.0%} of the {what}",
        rank=round(share * report.head_rank),
        original_rank=report.head_rank,
        cost=None if cost is None else cost.noticed_percent,
        unit=report.noticed_unit,
        tolerance=DEFAULT_TOLERANCE if report.tolerance is None else report.tolerance,
        texts="" if texts is None else f"{texts.evaluation} held-out pieces of {texts.tokens} tokens",
        weights=(int(weights.before), int(weights.after)),
        cache=(int(cache.before), int(cache.after)),
    )
