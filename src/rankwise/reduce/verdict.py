"""Whether a reduction is worth it, in one sentence, and what it does not know.

The limits are a convention of this project, not a law: a language model is worth trying with a fifth of its cache
gone for at most 5 % more perplexity, an encoder with 5 % of its weights gone and at least 95 % of its neighbours
kept. A language model that copies less from its context than nine tenths of what it did is a trade at best.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from rankwise.reduce.document import Change, CostReport, Judgement, RecallReport

_SAVED_CACHE, _SAVED_MODEL = 0.2, 0.05
_PERPLEXITY_PERCENT, _NEIGHBOURS, _COPIED = 5.0, 0.95, 0.9
_SHARES = {0.25: "A quarter of", 0.5: "Half", 0.75: "Three quarters of"}


def verdict(
    *,
    objective: str,
    cost: CostReport | None,
    original_loss: float | None,
    cache: Change,
    parameters: Change,
    recall: Sequence[RecallReport] = (),
    texts: int | None = None,
) -> tuple[str, Judgement]:
    """The sentence, and the judgement it ends with.

    - ``texts``: how many measured; of an encoder each has one nearest neighbour, so few say little.
    """
    saved_model = 1 - parameters.after / parameters.before
    what = _what(cache, saved_model)
    if cost is None:
        return f"{what}; what that costs was not measured (no texts).", "not measured"
    if objective == "embedding":
        assert cost.neighbours_kept is not None
        changed = 1 - cost.neighbours_kept
        good, bad = cost.neighbours_kept >= _NEIGHBOURS, cost.neighbours_kept < 2 * _NEIGHBOURS - 1
        judged = _judged(good and saved_model >= _SAVED_MODEL, bad or saved_model < _SAVED_MODEL)
        counted = "" if texts is None else f"{round(changed * texts)} of {texts}, "
        return f"{what}, {changed:.0%} of nearest neighbours change ({counted}cost {cost.cost:.4f}): {judged}.", judged
    assert cost.perplexity_percent is not None
    assert original_loss is not None
    saved = 1 - cache.after / cache.before if cache.before else saved_model
    enough = saved >= (_SAVED_CACHE if cache.before else _SAVED_MODEL)
    good, bad = cost.perplexity_percent <= _PERPLEXITY_PERCENT, cost.perplexity_percent > 4 * _PERPLEXITY_PERCENT
    lost = next((one for one in recall if one.accuracy.after < _COPIED * one.accuracy.before), None)
    judged = _judged(good and enough and lost is None, bad or not enough)
    copied = (
        ""
        if lost is None
        else (
            f"; of {lost.context} tokens it copies {lost.accuracy.after:.0%} right, before {lost.accuracy.before:.0%}"
        )
    )
    before, after = math.exp(original_loss), math.exp(original_loss + cost.cost)
    return (
        f"{what} for {cost.cost:+.4f} ± {cost.standard_error:.4f} nats per token (perplexity {before:.4g} to "
        f"{after:.4g}, {cost.perplexity_percent:+.1f} %){copied}: {judged}."
    ), judged


def warnings_of(
    *, objective: str, cost: CostReport | None, original_loss: float | None, vocabulary: int, records: bool
) -> tuple[str, ...]:
    """What makes the numbers doubtful, with the likely cause."""
    found = []
    if original_loss is not None and original_loss > 0.9 * math.log(vocabulary):
        found.append(
            f"the original's own loss, {original_loss:.3g} nats, is near or above that of a uniform guess "
            f"({math.log(vocabulary):.3g}): the texts are not what the model reads"
            + ("" if records else "; if it reads whole records, give them with --records FILE")
        )
    if (
        cost is not None
        and objective != "embedding"
        and cost.cost < -2 * cost.standard_error
        and cost.standard_error > 0
    ):
        found.append(
            f"the reduced model seems better than the original ({cost.cost:.4f} nats): the texts are few or not what "
            f"the model reads" + ("" if records else "; if it reads whole records, give them with --records FILE")
        )
    return tuple(found)


def _what(cache: Change, saved_model: float) -> str:
    if not cache.before:
        return f"{saved_model:.1%} of the model's weights saved"
    kept = cache.after / cache.before
    known = next((words for share, words in _SHARES.items() if math.isclose(kept, share, abs_tol=0.005)), None)
    whole = f"{abs(saved_model):.1%} of the weights {'saved' if saved_model >= 0 else 'added'}"
    return f"{known or f'{kept:.0%} of'} the KV cache ({whole})"


def _judged(good: bool, bad: bool) -> Judgement:
    if good:
        return "worth trying"
    return "not worth it" if bad else "a trade"
