"""What advice takes from a reduction: how much of this trained model went, and how ``reduce`` judged that."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from rankwise.reduce import Reduction


@dataclass(frozen=True, kw_only=True)
class TakenAway:
    """A cut of a trained model, judged by ``rankwise reduce``; advice never judges it again."""

    model: str
    """Name of the model that was cut."""
    share: float
    """Of the heads' coordinates, or of the cache, that remains."""
    kept: str
    """The same in words."""
    rank: int
    """The same share of a head's coordinates: the rank of a head that is as much smaller."""
    original_rank: int
    """The rank of a head before the cut."""
    judgement: str
    """``worth trying``, ``a trade``, ``not worth it`` or, without texts, ``not measured``."""
    verdict: str
    """What is saved and what it costs, the sentence that ends with the judgement."""
    texts: str
    """What it was measured on, in words."""
    weights: tuple[int, int]
    """Attention weights before and after."""
    cache: tuple[int, int]
    """Cached numbers per token before and after; zero in an encoder."""
    healed: bool = False
    """Whether the factors were trained after the cut."""
    others: str = ""
    """Other cuts of the same model and their judgements, in words."""

    @property
    def affordable(self) -> bool:
        """Whether it was measured and is worth trying."""
        return self.judgement == "worth trying"


def taken_away(report: Reduction) -> TakenAway:
    """What a reduction removed and what it cost, from its report."""
    share = report.kept_coordinates.after / report.kept_coordinates.before
    what = "cache (one latent per layer)" if report.cache_numbers.before else "heads' coordinates"
    texts = report.texts
    weights, cache = report.attention_parameters, report.cache_numbers
    return TakenAway(
        model=report.model,
        share=share,
        kept=f"{share:.0%} of the {what}",
        rank=round(share * report.head_rank),
        original_rank=report.head_rank,
        judgement=report.judgement,
        verdict=report.verdict,
        texts="" if texts is None else f"{texts.evaluation} held-out pieces of {texts.tokens} tokens",
        weights=(int(weights.before), int(weights.after)),
        cache=(int(cache.before), int(cache.after)),
        healed=report.healing is not None,
    )


def best_cut(cuts: Sequence[TakenAway]) -> TakenAway:
    """The smallest that is worth trying, else the most careful one; ``others`` names the rest."""
    worth = [cut for cut in cuts if cut.affordable]
    best = min(worth, key=lambda cut: cut.share) if worth else max(cuts, key=lambda cut: cut.share)
    rest = [f"{cut.share:.0%}: {cut.judgement}" for cut in cuts if cut is not best]
    return replace(best, others="; ".join(rest))
