"""Advice about rank and heads: what is needed, where random heads stop gaining, what it costs, what to try.

Two different questions, kept apart: the **need**, the smallest rank for a stated error on nearest-neighbour search
(measured if a need file is given, else the bound for isotropic data, which is the worst case), and the **plateau**, the
head dimension beyond which a random head's hardmax rank stops growing. They are not the edges of a window.
"""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass
from typing import Any

from rankwise.advise.inputs import Situation
from rankwise.advise.resources import Resources, Rounding, resources, roundings
from rankwise.advise.suggestions import Suggestion, suggestions
from rankwise.shapes import ModelShape, published_shapes
from rankwise.theory.bounds import TRIVIAL_ERROR, error_lower_bound, rank_required
from rankwise.theory.saturation import Saturation, saturation_dim

FORMAT = "rankwise-advice/1"
_NEIGHBOURS = 3


@dataclass(frozen=True, kw_only=True)
class Advice:
    """All that rankwise says about a situation."""

    situation: Situation
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
    warnings: tuple[str, ...]
    """Shown before everything else."""
    suggestions: tuple[Suggestion, ...]
    """At most three, the most important first."""

    @property
    def need(self) -> int:
        """The measured need where there is one, else the isotropic one."""
        return self.need_isotropic if self.situation.need is None else self.situation.need.rank


def advise(of: Situation) -> Advice:
    """All that rankwise can say about the situation."""
    shape = of.shape
    rank = min(shape.rank, shape.dim)
    target = min(of.target, TRIVIAL_ERROR)
    need_isotropic = rank_required(shape.dim, shape.heads, target, values="any")
    plateau = saturation_dim(
        of.length, mask=of.mask, keys="unit" if of.qk_norm else "gaussian", window=of.window
    )  # fmt: skip
    known = published_shapes()
    need = need_isotropic if of.need is None else of.need.rank
    return Advice(
        situation=of,
        need_isotropic=need_isotropic,
        bound=error_lower_bound(shape.dim, rank, shape.heads, values="any").value,
        plateau=plateau,
        resources=resources(shape, length=of.length, reach=of.reach, dtype=of.dtype),
        roundings=roundings(min(need, shape.dim)),
        published=sorted(known, key=lambda one: abs(math.log(one.dim / shape.dim)))[:_NEIGHBOURS],
        published_ranks=(min(one.rank for one in known), max(one.rank for one in known)),
        warnings=_warnings(of, need, plateau),
        suggestions=suggestions(of, need_isotropic, plateau),
    )


def _warnings(of: Situation, need: int, plateau: Saturation) -> tuple[str, ...]:
    said = []
    if of.need is None:
        said.append(
            "The need is that of isotropic data, the worst case; real data need less, and how much less must be "
            "measured (rankwise need)."
        )
    if need > plateau.value:
        said.append(
            f"The need ({need}) lies above the plateau ({plateau.value}): there is no window between the two. They "
            "answer different questions; a rank that meets the need is beyond where random heads stop gaining."
        )
    if of.need is not None and of.need.candidates < of.length:
        said.append(
            f"The need was measured among {of.need.candidates} keys, the model sees up to {of.length}: more keys ask "
            "for more rank (by_candidates in the need file)."
        )
    if of.shape.latent is not None:
        said.append("Latent attention: costs count its latents; suggestions about rank mean the query-key dimension.")
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


def advice_document(advice: Advice) -> dict[str, Any]:
    """The advice as plain JSON values."""
    of = advice.situation
    return {
        "format": FORMAT,
        "model": _shape(of.shape),
        "use": {
            "length": of.length,
            "mask": of.mask,
            "window": of.window,
            "layer_windows": list(of.windows),
            "qk_norm": of.qk_norm,
            "target": of.target,
            "dtype": of.dtype,
            "assumed": list(of.assumed),
        },
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
        "published": {
            "smallest_rank": advice.published_ranks[0],
            "largest_rank": advice.published_ranks[1],
            "nearest": [_shape(shape) for shape in advice.published],
        },
        "resources": asdict(advice.resources),
        "roundings_of_the_need": [asdict(one) for one in advice.roundings],
        "warnings": list(advice.warnings),
        "suggestions": [
            {
                "what": one.what,
                "reason": one.reason,
                "confidence": one.confidence,
                "does_not_prove": one.does_not_prove,
                "model": None if one.shape is None else _shape(one.shape),
                "resources": None if one.shape is None else asdict(resources_of(advice, one.shape)),
            }
            for one in advice.suggestions
        ],
    }


def resources_of(advice: Advice, shape: ModelShape) -> Resources:
    """What another shape would cost in the same use."""
    of = advice.situation
    return resources(shape, length=of.length, reach=of.reach, dtype=of.dtype)


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
