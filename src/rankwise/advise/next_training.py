"""Advice for the next training: shapes to try. Hypotheses all, unless a training has confirmed one.

The need is measured on what enters the layers of some model, the plateau is a law of random weights; that a model
trained with another shape would be better follows from neither.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import replace
from itertools import groupby, islice

from rankwise.advise.commands import choose_command, need_command
from rankwise.advise.inputs import Situation
from rankwise.advise.measured_need import MeasuredNeed
from rankwise.advise.resources import FLASH_LIMIT, STEP, flash_tile, rounded_up
from rankwise.advise.statement import Statement
from rankwise.choose import NOT_PROVED
from rankwise.shapes import ModelShape
from rankwise.theory import Saturation, error_lower_bound

_MOST = 3
_CLOSE = 1.25  # a rank within this factor is not worth a change


def about_next_training(of: Situation, need_isotropic: int, plateau: Saturation) -> tuple[Statement, ...]:
    """The three that matter most, that first."""
    return tuple(islice(_all(of, need_isotropic, plateau), _MOST))


def _all(of: Situation, need_isotropic: int, plateau: Saturation) -> Iterator[Statement]:
    shape = of.shape
    if shape.rank > shape.dim:
        yield Statement(
            what=f"Lower the rank from {shape.rank} to {shape.dim}, the dimension.",
            reason=f"A form on {shape.dim} dimensions has rank {shape.dim} at most; one head of that rank is exact.",
            confidence="theorem",
            does_not_prove="that training finds its way as easily: the wider factors are an over-parametrisation.",
            shapes=(_with_rank(shape, shape.dim),),
        )
    if of.choice is not None:
        yield _confirmed(of)
    if of.need is None:
        yield _measure_first(of, need_isotropic)
    else:
        yield _by_need(of, of.need)
    if shape.rank_share < 1 and shape.rank < shape.dim:
        yield _about_linear_part(shape)
    yield from _about_kernels(shape)
    yield from _about_plateau(of, plateau)


def _confirmed(of: Situation) -> Statement:
    assert of.choice is not None
    one = of.choice.searches[0]
    share = one.best.rank / of.choice.dim
    return Statement(
        what=f"Start from heads of rank {share:.2g} of the width: the best of the small models trained on "
        f"{of.choice.text} had {one.best.shape.words} in width {of.choice.dim}.",
        reason=f"Held-out loss {one.best.loss:.3f} bits per byte at {one.budget.words}. {one.flatness}",
        confidence="measurement",
        does_not_prove=NOT_PROVED,
    )


def _measure_first(of: Situation, need_isotropic: int) -> Statement:
    shape = of.shape
    return Statement(
        what="Measure the need of your data (rankwise need) before changing the rank.",
        reason=f"Without it only the worst case is known: on isotropic data {shape.heads} heads need at least "
        f"rank {need_isotropic:,} of {shape.dim:,} for error {of.target:g}, and real keys have fewer dimensions.",
        confidence="our derivation",
        does_not_prove=f"that rank {shape.rank} is too low: the bound is silent about data that are not isotropic.",
        command=need_command(of.files),
    )


def _by_need(of: Situation, need: MeasuredNeed) -> Statement:
    """Each layer by its own need; weights stay about the same where heads become larger."""
    shape = of.shape
    layers = need.for_layers(shape.layers)
    wanted = [min(rounded_up(one.high), shape.dim) for one in layers]
    measured = (
        f"One head alone needs rank {need.span} to find the nearest of {need.candidates} keys with "
        f"{need.target:.0%} of the error of a random choice; the heads have {shape.rank}"
    )
    unproved = (
        "that a trained head does nearest-neighbour search, nor that one head must do it alone: several heads may "
        "share it, and other layers may finish it."
    )
    below = sum(shape.rank < one.low for one in layers)
    above = sum(shape.rank > _CLOSE * rank for rank, one in zip(wanted, layers, strict=True))
    if 2 * below > len(layers):
        changed = [_same_budget(shape, max(rank, shape.rank)) for rank in wanted]
        return Statement(
            what=f"Try fewer heads of higher rank at about the same weights: {_in_words(changed)}, instead of "
            f"{shape.heads} x {shape.rank}.",
            reason=f"{measured}.",
            confidence="hypothesis",
            does_not_prove=unproved,
            command=choose_command(of.files),
            shapes=_counted(changed),
        )
    if 2 * above > len(layers):
        changed = [_with_rank(shape, min(rank, shape.rank)) for rank in wanted]
        return Statement(
            what=f"Try a lower rank with as many heads: {_in_words(changed)}, instead of {shape.heads} x {shape.rank}.",
            reason=f"{measured}.",
            confidence="hypothesis",
            does_not_prove="that nothing else uses the rest: positions, several tasks of one head, other data.",
            command=choose_command(of.files),
            shapes=_counted(changed),
        )
    return Statement(
        what=f"Keep rank {shape.rank}.",
        reason=f"{measured}.",
        confidence="hypothesis",
        does_not_prove=unproved,
    )


def _about_linear_part(shape: ModelShape) -> Statement:
    heads = math.ceil(shape.dim / shape.rank)
    group = shape.heads // shape.kv_heads
    more = replace(shape, heads=heads, kv_heads=_divisor(heads, heads / group))
    now, then = (error_lower_bound(one.dim, one.rank, one.heads).value for one in (shape, more))
    return Statement(
        what=f"Consider {heads} heads instead of {shape.heads}, so that heads times rank reaches the dimension.",
        reason=f"Below that the heads do not cover the linear part of the search: the least error on isotropic data is "
        f"{now:.3f} and falls to {then:.3f} (value matrices a multiple of the identity; 0.5 needs no head).",
        confidence="our derivation",
        does_not_prove="anything about data that are not isotropic, or about several layers.",
        command=f"rankwise bound --dim {shape.dim} --rank {shape.rank} --heads {heads}",
        shapes=(more,),
    )


def _about_kernels(shape: ModelShape) -> Iterator[Statement]:
    if shape.rank > FLASH_LIMIT:
        yield Statement(
            what=f"Stay at head dimensions of {FLASH_LIMIT} or less, or check that your kernels take {shape.rank}.",
            reason=f"FlashAttention 2 and PyTorch's flash kernel refuse more than {FLASH_LIMIT}.",
            confidence="heuristic",
            does_not_prove="that it is slow on your hardware: other kernels have other limits. Time it.",
        )
    elif shape.rank % STEP:
        wanted = rounded_up(shape.rank)
        yield Statement(
            what=f"Round the head dimension {shape.rank} up to {wanted}.",
            reason=f"Half-precision kernels want multiples of {STEP} and pad otherwise; it costs "
            f"{wanted / shape.rank - 1:.0%} more attention weights. FlashAttention 2 computes either in tiles of "
            f"{flash_tile(shape.rank)}.",
            confidence="heuristic",
            does_not_prove="a gain in time on your hardware. Time it.",
            shapes=(_with_rank(shape, wanted),),
        )


def _about_plateau(of: Situation, plateau: Saturation) -> Iterator[Statement]:
    shape = of.shape
    wanted = min(rounded_up(plateau.value), shape.dim)
    claim = (
        f"A random head's hardmax rank reaches 90 % of the most that {of.length:,} tokens allow at head dimension "
        f"{plateau.value}; the rank perspective paper claims that performance follows."
    )
    unproved = "anything about trained heads: it is a law of random weights, and the link to performance is a claim."
    if shape.rank > _CLOSE * wanted and (of.need is None or of.need.rank <= wanted):
        changed = _with_rank(shape, wanted)
        what = f"Try rank {wanted} instead of {shape.rank}."
    elif shape.rank * _CLOSE < wanted and of.need is None:
        changed = _same_budget(shape, wanted)
        what = f"Try rank {wanted} with {changed.heads} heads at about the same weights."
    else:
        return
    yield Statement(
        what=what, reason=claim, confidence="hypothesis", does_not_prove=unproved, shapes=(changed,)
    )  # fmt: skip


def _with_rank(shape: ModelShape, rank: int) -> ModelShape:
    return replace(shape, rank=rank, value_rank=rank if shape.value_rank == shape.rank else shape.value_rank)


def _same_budget(shape: ModelShape, rank: int) -> ModelShape:
    """Heads of ``rank``, as many as keep H (r + r2) about the same; groups stay about as large."""
    changed = _with_rank(shape, rank)
    before, after = shape.rank + shape.value_rank, changed.rank + changed.value_rank
    heads = max(1, round(shape.heads * before / after))
    return replace(changed, heads=heads, kv_heads=_divisor(heads, shape.kv_heads * heads / shape.heads))


def _divisor(of: int, near: float) -> int:
    """The divisor of ``of`` nearest to ``near``."""
    return min((one for one in range(1, of + 1) if of % one == 0), key=lambda one: abs(one - near))


def _counted(layers: list[ModelShape]) -> tuple[ModelShape, ...]:
    """Layers of one shape together."""
    kept = layers[0].cached_layers is not None
    different = dict.fromkeys(layers)
    counts = [(one, layers.count(one)) for one in different]
    return tuple(replace(one, layers=count, cached_layers=count if kept else None) for one, count in counts)


def _in_words(layers: list[ModelShape]) -> str:
    """``8 x 48``, or by layers: ``6 x 64 in layers 0-2, 4 x 88 in layer 3``."""
    runs = []
    for (heads, rank), members in groupby(enumerate(layers), key=lambda one: (one[1].heads, one[1].rank)):
        numbers = [at for at, _ in members]
        where = f"layer {numbers[0]}" if len(numbers) == 1 else f"layers {numbers[0]}-{numbers[-1]}"
        runs.append((f"{heads} x {rank}", where))
    if len(runs) == 1:
        return f"{runs[0][0]} (heads x rank)"
    return ", ".join(f"{what} in {where}" for what, where in runs) + " (heads x rank)"
