"""At most three things to change or to find out, each with its reason, how sure it is, and what it does not prove."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import islice
from typing import Literal

from rankwise.advise.inputs import Situation
from rankwise.advise.resources import FLASH_LIMIT, STEP, flash_tile, rounded_up
from rankwise.shapes import ModelShape
from rankwise.theory.bounds import error_lower_bound
from rankwise.theory.saturation import Saturation

Confidence = Literal["theorem", "our derivation", "heuristic", "measurement"]
_MOST = 3
_CLOSE = 1.25  # a rank within this factor is not worth a change


@dataclass(frozen=True, kw_only=True)
class Suggestion:
    """``shape`` is what the suggestion leads to, None where it changes none."""

    what: str
    reason: str
    confidence: Confidence
    does_not_prove: str
    shape: ModelShape | None = None


def suggestions(of: Situation, need_isotropic: int, plateau: Saturation) -> tuple[Suggestion, ...]:
    """The three that matter most, that first."""
    return tuple(islice(_all(of, need_isotropic, plateau), _MOST))


def _all(of: Situation, need_isotropic: int, plateau: Saturation) -> Iterator[Suggestion]:
    shape = of.shape
    if shape.rank > shape.dim:
        yield Suggestion(
            what=f"Lower the rank from {shape.rank} to {shape.dim}, the dimension.",
            reason=f"A form on {shape.dim} dimensions has rank {shape.dim} at most; one head of that rank is exact.",
            confidence="theorem",
            does_not_prove="that training finds its way as easily: the wider factors are an over-parametrisation.",
            shape=_with_rank(shape, shape.dim),
        )
    yield from _about_need(of, need_isotropic)
    yield from _about_weights(of)
    if shape.rank_share < 1 and shape.rank < shape.dim:
        yield _about_linear_part(shape)
    yield from _about_kernels(shape)
    yield from _about_plateau(of, plateau)


def _about_need(of: Situation, need_isotropic: int) -> Iterator[Suggestion]:
    shape, need = of.shape, of.need
    if need is None:
        yield Suggestion(
            what="Measure the need of your data before changing the rank: rankwise need VECTORS, or "
            "rankwise need --model DIR --text FILE -o need.json, then rankwise advise --need need.json.",
            reason=f"Without it only the worst case is known: on isotropic data {shape.heads} heads need at least "
            f"rank {need_isotropic:,} of {shape.dim:,} for error {of.target:g}, and real keys have fewer dimensions.",
            confidence="our derivation",
            does_not_prove=f"that rank {shape.rank} is too low: the bound is silent about data that are not isotropic.",
        )
        return
    wanted = min(rounded_up(need.high), shape.dim)
    measured = (
        f"One head needs rank {need.rank} ({need.low} to {need.high}) to find the nearest of {need.candidates} keys in "
        f"{need.name} with error {need.target:g}"
    )
    unproved = (
        "that a trained head does nearest-neighbour search, nor that the layer needs it in one head: "
        "several heads of lower rank may share it, and other layers may finish it."
    )
    if shape.rank < need.low:
        same = _same_budget(shape, wanted)
        yield Suggestion(
            what=f"Try rank {wanted} with {same.heads} heads instead of {shape.heads} heads of rank {shape.rank}: "
            "fewer heads of higher rank, for about the same weights.",
            reason=f"{measured}; the heads have {shape.rank}.",
            confidence="measurement",
            does_not_prove=unproved,
            shape=same,
        )
    elif shape.rank > _CLOSE * wanted:
        trial = (
            f"on a trained model see first what it costs: rankwise reduce MODEL --rank {wanted}"
            if of.why_not_reduced is None
            else f"in a next training, because rankwise reduce does not cut such heads: {of.why_not_reduced}"
        )
        yield Suggestion(
            what=f"Try rank {wanted} instead of {shape.rank}, with as many heads; {trial}.",
            reason=f"{measured}; the heads have {shape.rank}.",
            confidence="measurement",
            does_not_prove="that nothing else uses the rest: positions, several tasks of one head, other data.",
            shape=_with_rank(shape, wanted),
        )
    else:
        yield Suggestion(
            what=f"Keep rank {shape.rank}.",
            reason=f"{measured}; the heads have {shape.rank}.",
            confidence="measurement",
            does_not_prove=unproved,
        )


def _about_weights(of: Situation) -> Iterator[Suggestion]:
    audit = of.audit
    if audit is None:
        return
    if of.why_not_reduced is None and audit.energy_90 < audit.energy_90_random / _CLOSE:
        wanted = min(rounded_up(math.ceil(audit.energy_90)), of.shape.rank)
        yield Suggestion(
            what=f"See what a lower rank costs this model: rankwise reduce {audit.model} --rank {wanted}.",
            reason=f"90 % of the energy of the median head's QK lies in {audit.energy_90:g} of {of.shape.rank} "
            f"directions; random weights of that shape have it in {audit.energy_90_random:.4g}.",
            confidence="measurement",
            does_not_prove="that the other directions do nothing: small singular values may decide close scores.",
        )
    if audit.redundant_pairs:
        yield Suggestion(
            what="Look at the heads that rankwise audit calls redundant, before adding heads.",
            reason=f"{audit.redundant_pairs} pairs of heads share their main subspaces beyond chance.",
            confidence="measurement",
            does_not_prove="that one of them can be removed: heads of one subspace can still attend to different keys.",
        )


def _about_linear_part(shape: ModelShape) -> Suggestion:
    heads = math.ceil(shape.dim / shape.rank)
    group = shape.heads // shape.kv_heads
    more = replace(shape, heads=heads, kv_heads=_divisor(heads, heads / group))
    now, then = (error_lower_bound(one.dim, one.rank, one.heads).value for one in (shape, more))
    return Suggestion(
        what=f"Consider {heads} heads instead of {shape.heads}, so that H r reaches the dimension.",
        reason=f"Below H r = d the heads do not cover the linear part of the search: the bound for isotropic data is "
        f"{now:.3f} and falls to {then:.3f} (value matrices a multiple of the identity).",
        confidence="our derivation",
        does_not_prove="anything about data that are not isotropic, or about several layers.",
        shape=more,
    )


def _about_kernels(shape: ModelShape) -> Iterator[Suggestion]:
    if shape.rank > FLASH_LIMIT:
        yield Suggestion(
            what=f"Stay at head dimensions of {FLASH_LIMIT} or less, or check that your kernels take {shape.rank}.",
            reason=f"FlashAttention 2 and PyTorch's flash kernel refuse more than {FLASH_LIMIT}.",
            confidence="heuristic",
            does_not_prove="that it is slow on your hardware: other kernels have other limits. Time it.",
        )
    elif shape.rank % STEP:
        wanted = rounded_up(shape.rank)
        yield Suggestion(
            what=f"Round the head dimension {shape.rank} up to {wanted}.",
            reason=f"Half-precision kernels want multiples of {STEP} and pad otherwise; it costs "
            f"{wanted / shape.rank - 1:.0%} more weights. FlashAttention 2 computes either in tiles of "
            f"{flash_tile(shape.rank)}.",
            confidence="heuristic",
            does_not_prove="a gain in time on your hardware. Time it.",
            shape=_with_rank(shape, wanted),
        )


def _about_plateau(of: Situation, plateau: Saturation) -> Iterator[Suggestion]:
    shape = of.shape
    wanted = min(rounded_up(plateau.value), shape.dim)
    claim = (
        f"A random head's hardmax rank reaches 90 % of its plateau at head dimension {plateau.value} "
        f"({plateau.status}); the rank perspective paper claims that performance follows."
    )
    unproved = "anything about trained heads: it is a law of random weights, and the link to performance is a claim."
    if shape.rank > _CLOSE * wanted and (of.need is None or of.need.high <= wanted):
        yield Suggestion(
            what=f"In a next training, try rank {wanted} instead of {shape.rank}.",
            reason=claim,
            confidence="heuristic",
            does_not_prove=unproved,
            shape=_with_rank(shape, wanted),
        )
    elif shape.rank * _CLOSE < wanted and of.need is None:
        same = _same_budget(shape, wanted)
        yield Suggestion(
            what=f"In a next training, try rank {wanted} with {same.heads} heads for about the same weights.",
            reason=claim,
            confidence="heuristic",
            does_not_prove=unproved,
            shape=same,
        )


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
