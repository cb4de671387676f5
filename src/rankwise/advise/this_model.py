"""Advice for a model as it was trained: what can be taken away, by measurement alone.

A need or a plateau says nothing here: what a trained head can lose is what its loss shows when it is cut.
"""

from __future__ import annotations

from collections.abc import Iterator

from rankwise.advise.commands import reduce_command
from rankwise.advise.inputs import Situation
from rankwise.advise.removal import TakenAway
from rankwise.advise.statement import Statement

_CLOSE = 1.25  # a rank within this factor is not worth a change
_FIRST_SHARE = 0.5
_MILDEST = 0.7  # a cut halfway between this and the whole saves too little to try


def about_this_model(of: Situation) -> tuple[Statement, ...]:
    """The verdict first."""
    return tuple(_all(of))


def _all(of: Situation) -> Iterator[Statement]:
    cut = of.reduction
    if cut is not None and cut.judgement != "not measured":
        yield _verdict(of, cut)
    elif cut is not None:
        yield _not_measured(of, f"The reduction to {cut.kept} was made without texts, so its cost is not known.")
    elif of.trained:
        yield _not_measured(of, "No measured reduction of this model was given.")
    yield from _about_weights(of)


def _verdict(of: Situation, cut: TakenAway) -> Statement:
    saves = _saved(cut)
    others = f" Also measured: {cut.others}." if cut.others else ""
    measured = f"{cut.verdict} Measured on {cut.texts}.{others}"
    if cut.affordable:
        return Statement(
            what=f"Keep {cut.kept}; that saves {saves}.",
            reason=measured,
            confidence="measurement",
            does_not_prove="the cost on other texts or in other tasks: measure on your own before you use it.",
            command=reduce_command(of.files, cut.share, out="smaller"),
        )
    trained = "the same cut with more training" if cut.healed else "a cut followed by some training"
    milder = reduce_command(of.files, (1 + cut.share) / 2) if cut.share < _MILDEST else None
    if cut.judgement == "a trade":
        return Statement(
            what=f"Cut to {cut.kept} only if you can bear what it loses; it saves {saves}.",
            reason=measured,
            confidence="measurement",
            does_not_prove=f"that a smaller cut, or {trained}, would lose as much.",
            command=milder,
        )
    return Statement(
        what=f"Leave the heads as they are: a cut to {cut.kept} is not worth it.",
        reason=measured,
        confidence="measurement",
        does_not_prove=f"that a smaller cut, or {trained}, would cost as much.",
        command=milder,
    )


def _not_measured(of: Situation, why: str) -> Statement:
    return Statement(
        what="Measure what a cut costs before you take anything away.",
        reason=f"{why} rankwise advise with --model and --text measures one.",
        confidence="not measured",
        does_not_prove="that anything can be taken away, nor that nothing can.",
        command=reduce_command(of.files, _FIRST_SHARE),
    )


def _about_weights(of: Situation) -> Iterator[Statement]:
    audit = of.audit
    if audit is None:
        return
    if of.reduction is None and audit.energy_90 < audit.energy_90_random / _CLOSE:
        yield Statement(
            what="A reduction is worth measuring: the weights are concentrated.",
            reason=f"90 % of the squared singular values of the median head's query-key form lie in "
            f"{audit.energy_90:g} of {of.shape.rank} directions; in random weights of that shape, in "
            f"{audit.energy_90_random:.3g}.",
            confidence="heuristic",
            does_not_prove="that the other directions do nothing: small singular values may decide close scores.",
        )
    if audit.redundant_pairs:
        yield Statement(
            what=f"Look at {audit.redundant_pairs} pairs of heads that share their main subspaces.",
            reason="They share them beyond chance on both sides of a form; the audit lists them.",
            confidence="heuristic",
            does_not_prove="that one of them can be removed: heads of one subspace can still attend to different keys.",
        )


def _saved(cut: TakenAway) -> str:
    """Shares that are gone; where weights are added instead, the verdict says so."""
    sizes = (("cache of keys and values", cut.cache), ("attention weights", cut.weights))
    shares = ((what, 1 - after / before) for what, (before, after) in sizes if before)
    return " and ".join(f"{share:.0%} of the {what}" for what, share in shares if share >= 0.005) or "nothing"
