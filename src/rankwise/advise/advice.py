"""Advice about rank and heads, of two kinds that are never mixed.

- **For this trained model**: what can be taken away, by a measured reduction alone (``this_model``).
- **For the next training**: shapes to try, from need, plateau and ``rankwise choose`` (``next_training``).

Behind them two numbers: the **need**, the smallest rank for a stated error on nearest-neighbour search (measured if a
need file is given, else the bound for isotropic data, the worst case), and the **plateau**, the head dimension beyond
which a random head's hardmax rank stops growing. They are not the edges of a window. Where need, plateau and reduction
disagree, ``reconcile`` says how that can be.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

from rankwise.advise.inputs import Situation
from rankwise.advise.next_training import about_next_training
from rankwise.advise.reconcile import reconciled
from rankwise.advise.resources import Resources, Rounding, resources, roundings, together
from rankwise.advise.statement import Statement
from rankwise.advise.this_model import about_this_model
from rankwise.shapes import ModelShape, published_shapes
from rankwise.theory import TRIVIAL_ERROR, Saturation, error_lower_bound, rank_required, saturation_dim

FORMAT = "rankwise-advice/2"
_NEIGHBOURS = 3


@dataclass(frozen=True, kw_only=True)
class Advice:
    """All that rankwise says about a situation."""

    situation: Situation
    """What the advice is for."""
    headline: str
    """What to do, in one sentence, and how sure that is."""
    this_model: tuple[Statement, ...]
    """About the model as it was trained; empty where only sizes are known."""
    next_training: tuple[Statement, ...]
    """Shapes to try, the most important first."""
    reconciled: str | None
    """How need, plateau and reduction fit together; None where they do not disagree."""
    need_isotropic: int
    """Below this rank H heads cannot reach the target on isotropic data, whatever their values."""
    bound: float
    """The least error of H heads of the model's own rank on isotropic data."""
    plateau: Saturation
    """The head dimension at which a random head comes within 10 % of its largest hardmax rank."""
    resources: Resources
    """What the shape costs as it is."""
    roundings: list[Rounding]
    """Head dimensions next to the need that kernels take."""
    published: list[ModelShape]
    """The published models nearest in dimension."""
    published_ranks: tuple[int, int]
    """The smallest and the largest rank among all published models."""
    notes: tuple[str, ...]
    """What the numbers leave out or take for granted."""

    @property
    def need(self) -> int:
        """The measured need where there is one, else the isotropic one."""
        return self.need_isotropic if self.situation.need is None else self.situation.need.rank


def advise(of: Situation) -> Advice:
    """The advice for a situation: what can be removed, shapes to try, and the numbers behind it."""
    shape = of.shape
    rank = min(shape.rank, shape.dim)
    target = min(of.target, TRIVIAL_ERROR)
    need_isotropic = rank_required(shape.dim, shape.heads, target, values="any")
    plateau = saturation_dim(
        of.length, mask=of.mask, keys="unit" if of.qk_norm else "gaussian", window=of.window
    )  # fmt: skip
    known = published_shapes()
    need = need_isotropic if of.need is None else of.need.rank
    trained, hoped = about_this_model(of), about_next_training(of, need_isotropic, plateau)
    return Advice(
        situation=of,
        headline=_headline(trained, hoped),
        this_model=trained,
        next_training=hoped,
        reconciled=reconciled(of, plateau),
        need_isotropic=need_isotropic,
        bound=error_lower_bound(shape.dim, rank, shape.heads, values="any").value,
        plateau=plateau,
        resources=_resources(of, (shape,)),
        roundings=roundings(min(need, shape.dim)),
        published=sorted(known, key=lambda one: abs(math.log(one.dim / shape.dim)))[:_NEIGHBOURS],
        published_ranks=(min(one.rank for one in known), max(one.rank for one in known)),
        notes=_notes(of, need, plateau),
    )


def _headline(trained: Sequence[Statement], hoped: Sequence[Statement]) -> str:
    parts = []
    if trained:
        parts.append(f"With this trained model, {_decapitalised(trained[0].what)} ({trained[0].confidence}).")
    if hoped:
        brief = hoped[0].what.partition(":")[0]  # what stands after it are the shapes, layer by layer
        parts.append(f"In the next training, {_decapitalised(brief)} ({hoped[0].confidence}).")
    return " ".join(parts) or "Nothing to change follows from what is known."


def _decapitalised(sentence: str) -> str:
    return f"{sentence[:1].lower()}{sentence[1:].removesuffix('.')}"


def _notes(of: Situation, need: int, plateau: Saturation) -> tuple[str, ...]:
    said = []
    if of.need is None:
        said.append(
            "The need is that of isotropic data, the worst case; real data need less, and how much less must be "
            "measured."
        )
        if need > plateau.value:
            said.append(
                f"The need ({need}) lies above the plateau ({plateau.value}): there is no window between the two. They "
                "answer different questions; a rank that meets the need is beyond where random heads stop gaining."
            )
    elif of.need.candidates < of.length:
        said.append(
            f"The need was measured among {of.need.candidates} keys, the model sees up to {of.length:,}: more keys ask "
            "for more rank (by_candidates in the need file)."
        )
    if of.need is not None and of.need.of_model and len(of.need.blocks) != of.shape.layers:
        said.append(
            f"The need was measured in {len(of.need.blocks)} blocks, and {of.shape.layers} layers are counted: the "
            "most demanding block stands for all of them."
        )
    if of.shape.latent is not None:
        said.append("Latent attention: costs count its latents; statements about rank mean the query-key dimension.")
    if of.windows:
        windowed = [window for window in of.windows if window is not None]
        widths = ", ".join(f"{window:,}" for window in sorted(set(windowed)))
        said.append(
            f"{len(windowed)} of {len(of.windows)} layers see a window only (of {widths} tokens): costs count what "
            "each layer sees; the plateau is that of the layers that see most."
        )
    if of.shape.note is not None:
        said.append(f"{of.shape.note[:1].upper()}{of.shape.note[1:]}.")
    if of.assumed:
        said.append(f"Assumed, because it was not said: {', '.join(of.assumed)}.")
    return tuple(said)


def resources_of(advice: Advice, statement: Statement) -> Resources:
    """What the layers that a statement leads to would cost in the same use."""
    return _resources(advice.situation, statement.shapes)


def _resources(of: Situation, shapes: Sequence[ModelShape]) -> Resources:
    use: dict[str, Any] = {"length": of.length, "reach": of.reach, "dtype": of.dtype, "cached": of.cached}
    return together([resources(shape, **use) for shape in shapes])


def advice_document(advice: Advice) -> dict[str, Any]:
    """The advice as plain JSON values."""
    of = advice.situation
    return {
        "format": FORMAT,
        "headline": advice.headline,
        "model": _shape(of.shape),
        "use": {
            "length": of.length,
            "mask": of.mask,
            "window": of.window,
            "layer_windows": list(of.windows),
            "qk_norm": of.qk_norm,
            "target": of.target,
            "dtype": of.dtype,
            "keeps_keys_and_values": of.cached,
            "assumed": list(of.assumed),
        },
        "this_model": [_statement(advice, one) for one in advice.this_model],
        "next_training": [_statement(advice, one) for one in advice.next_training],
        "reconciled": advice.reconciled,
        "need": {
            "rank": advice.need,
            "status": "measurement" if of.need is not None else "our derivation, isotropic data: the worst case",
            "measured": None if of.need is None else asdict(of.need),
            "isotropic_any_values": advice.need_isotropic,
            "isotropic_error_at_this_rank": advice.bound,
        },
        "plateau": {"rank": advice.plateau.value, "status": advice.plateau.status},
        "need_above_plateau": advice.need > advice.plateau.value,
        "audit": None if of.audit is None else asdict(of.audit),
        "reduction": None if of.reduction is None else asdict(of.reduction),
        "published": {
            "smallest_rank": advice.published_ranks[0],
            "largest_rank": advice.published_ranks[1],
            "nearest": [_shape(shape) for shape in advice.published],
        },
        "resources": asdict(advice.resources),
        "roundings_of_the_need": [asdict(one) for one in advice.roundings],
        "notes": list(advice.notes),
    }


def _statement(advice: Advice, one: Statement) -> dict[str, Any]:
    return {
        "what": one.what,
        "reason": one.reason,
        "confidence": one.confidence,
        "does_not_prove": one.does_not_prove,
        "command": one.command,
        "layers": [_shape(shape) for shape in one.shapes],
        "resources": asdict(resources_of(advice, one)) if one.shapes else None,
    }


def _shape(shape: ModelShape) -> dict[str, Any]:
    return {
        "name": shape.name,
        "dim": shape.dim,
        "layers": shape.layers,
        "heads": shape.heads,
        "kv_heads": shape.kv_heads,
        "rank": shape.rank,
        "value_rank": shape.value_rank,
        "rank_share": shape.rank_share,
    }
