"""What advice takes from a reduction: how much of this trained model went, and what that cost on held-out text."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, kw_only=True)
class TakenAway:
    """A measured cut of a trained model."""

    model: str
    kept: str
    """What remains of the heads, in words."""
    rank: int
    """Of a head's query-key form, after the cut."""
    original_rank: int
    cost: float | None
    """None where no texts were given, so that nothing was measured."""
    unit: str
    """Of the cost."""
    tolerance: float
    """The largest cost that counts as small."""
    texts: str
    """What it was measured on, in words."""
    weights: tuple[int, int]
    """Attention weights before and after."""
    cache: tuple[int, int]
    """Bytes of keys and values per token before and after; equal to no cache at all in an encoder."""
    most_sensitive: str | None
    """The layer whose cut alone costs most; None where that was not measured."""

    @property
    def affordable(self) -> bool:
        """Whether the cost was measured and is within the tolerance."""
        return self.cost is not None and self.cost <= self.tolerance


DEFAULT_TOLERANCE = 0.01


def taken_away(document: Mapping[str, Any]) -> TakenAway:
    """Read from the document of a reduction, whose reader has checked it."""
    rank, original, values = int(document["rank"]), int(document["original_rank"]), document.get("value_rank")
    alone = document["sensitivity"]
    texts = document["texts"]
    saved = document["savings"]
    weights, cache = saved["attention_parameters"], saved["kv_cache_bytes_per_token"]
    tolerance = document["tolerance"]
    return TakenAway(
        model=document["model"],
        kept=f"rank {rank} of {original} in every head's query-key form"
        + ("" if values is None else f" and rank {values} in its output-value form"),
        rank=rank,
        original_rank=original,
        cost=None if document["cost"] is None else float(document["cost"]["cost"]),
        unit=document["cost_unit"] or "",
        tolerance=DEFAULT_TOLERANCE if tolerance is None else float(tolerance),
        texts="" if texts is None else f"{texts['evaluation']} held-out pieces of {texts['tokens']} tokens",
        weights=(int(weights["before"]), int(weights["after"])),
        cache=(int(cache["before"]), int(cache["after"])),
        most_sensitive=max(alone, key=lambda one: float(one["cost"]))["layer"] if alone else None,
    )
