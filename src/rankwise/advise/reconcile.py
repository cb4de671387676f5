"""One paragraph where need, plateau and reduction disagree: they answer different questions, and which counts when."""

from __future__ import annotations

from rankwise.advise.inputs import Situation
from rankwise.theory import Saturation

_CLOSE = 1.25


def reconciled(of: Situation, plateau: Saturation) -> str | None:
    """The paragraph; None where nothing disagrees."""
    parts = []
    need, cut = of.need, of.reduction
    if need is not None and cut is not None and cut.affordable and need.rank > cut.rank:
        parts.append(
            f"The reduction keeps {cut.kept}, and that is worth trying, while the need is {need.span}. Both can "
            f"hold: the need is that of one head that must find the nearest neighbour alone, whereas this model's "
            f"{of.shape.heads} heads were trained to share their work and to look for something of their own. For the "
            f"trained model the reduction counts; the need is a reason to try fewer, larger heads in a next training, "
            f"and no reason to doubt the cut."
        )
    elif need is not None and cut is not None and cut.judgement == "not worth it" and need.rank < cut.rank:
        parts.append(
            f"The need is {need.span}, and yet the cut to {cut.kept} costs too much. Both can hold: these heads "
            f"were trained to use {cut.original_rank} dimensions, also for other things than finding neighbours. For "
            f"the trained model the reduction counts; a model trained with the lower rank from the start may lose less."
        )
    elif need is not None and not _CLOSE**-1 <= of.shape.rank / need.rank <= _CLOSE:
        parts.append(
            f"The need ({need.span}) differs from the heads' rank {of.shape.rank}. That alone is no fault: the need "
            f"is about one head that searches alone, and {of.shape.heads} heads share the work here."
        )
    if need is not None and not _CLOSE**-1 <= plateau.value / need.rank <= _CLOSE:
        parts.append(
            f"The plateau ({plateau.value}) follows from the number of tokens and random weights, the need from the "
            f"data; where they differ the need counts, because it was measured."
        )
    return " ".join(parts) or None
