"""Advice for a model as it was trained: what can be taken away, by measurement alone.

A need or a plateau says nothing here: what a trained head can lose is what its loss shows when it is cut.
"""

from __future__ import annotations

from collections.abc import Iterator

from rankwise.advise.inputs import Situation
from rankwise.advise.removal import TakenAway
from rankwise.advise.statement import Statement

_CLOSE = 1.25  # a rank within this factor is not worth a change


def about_this_model(of: Situation) -> tuple[Statement, ...]:
    """The verdict first."""
    return tuple(_all(of))


def _all(of: Situation) -> Iterator[Statement]:
    cut = of.reduction
    if cut is not None and cut.cost is not None:
        yield _verdict(of, cut, cut.cost)
    elif cut is not None:
        yield _not_measured(f"The reduction to {cut.kept} was made without texts, so its cost is not known.")
    elif of.trained:
        yield _not_measured("No reduction of this model was given (--reduce FILE).")
    yield from _about_weights(of)


def _verdict(of: Situation, cut: TakenAway, cost: float) -> Statement:
    saved = [f"{_percent(*cut.weights)} of the attention weights"]
    if of.cached:
        saved.append(f"{_percent(*cut.cache)} of the cache of keys and values")
    measured = (
        f"Cut to {cut.kept}, it costs {cost:.2g} {cut.unit} on {cut.texts}; up to {cut.tolerance:g} counts as small"
    )
    unproved = "the cost on other texts or in other tasks: measure on your own before you use the smaller model."
    if cut.affordable:
        return Statement(
            what=f"You can keep {cut.kept}: that saves {' and '.join(saved)}.",
            reason=f"{measured}.",
            confidence="measurement",
            does_not_prove=unproved,
        )
    return Statement(
        what=f"Do not cut to {cut.kept}.",
        reason=f"{measured}.",
        confidence="measurement",
        does_not_prove="that a smaller cut, or a cut followed by some training, would cost as much.",
        command="rankwise reduce --help",
    )


def _not_measured(why: str) -> Statement:
    return Statement(
        what="Measure what this model can lose before taking anything away.",
        reason=why,
        confidence="heuristic",
        does_not_prove="that anything can be taken away.",
        command="rankwise reduce --help",
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
            f"{audit.energy_90_random:.4g}.",
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


def _percent(before: int, after: int) -> str:
    return f"{1 - after / before:.0%}" if before else "0%"
