"""Two models head by head: fine-tuned against base, quantised against full.

A head's form in one model minus the same form in the other is again a product of thin factors, of twice the rank. Its
size and its singular values say how far the head moved and in how many directions, whatever basis each file stores the
head in (llama.cpp turns rows that ``transformers`` does not). Rounding moves forms too: by how much is measured on each
model with one more rounding error of its own types (``models.files.rounding``), and subtracted as squares, because
independent errors add so.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import nn

from rankwise.audit.comparison import Comparison, FormChange, HeadChange, LayerChange
from rankwise.audit.spectra import Factors, ov_factors, qk_factors, ranks_of
from rankwise.errors import InvalidInputError
from rankwise.models import LayerRef, LayerWeights, Placement, TensorSource, as_source, load_layer, loses_digits, place
from rankwise.progress import Progress, silent

_EDGE = 1.5
"""Singular values of a change count as directions above so many times the largest that rounding was seen to make."""
_NOISE = 1e-6
"""Of a form's size: what Gram matrices in float64 cannot tell from zero."""
_NUMBERS, _MOST_DRAWS = 2**22, 8


def compare_weights(
    first: TensorSource | nn.Module,
    second: TensorSource | nn.Module,
    placements: tuple[Placement, Placement] | None = None,
    *,
    progress: Progress = silent,
) -> Comparison:
    """How every head of ``second`` differs from the same head of ``first``; the models must have one shape.

    - placements: where the heads of both are, found by ``place`` if not given
    - progress: counts layers
    """
    sources = as_source(first), as_source(second)
    found = (place(sources[0]), place(sources[1])) if placements is None else placements
    _require_one_shape(sources, found)
    layers = []
    for done, refs in enumerate(zip(found[0].layers, found[1].layers, strict=True)):
        progress("compare layers", done, len(found[0].layers))
        layers.append(_layer_change(sources, refs))
    storage = [
        source.storage(list(dict.fromkeys(name for ref in placement.layers for name in ref.tensors)))
        for source, placement in zip(sources, found, strict=True)
    ]
    return Comparison(
        first=sources[0].name,
        second=sources[1].name,
        first_storage=storage[0],
        second_storage=storage[1],
        layers=tuple(layers),
        notes=_notes(found),
    )


def _require_one_shape(sources: tuple[TensorSource, TensorSource], found: tuple[Placement, Placement]) -> None:
    one, other = (placement.layers for placement in found)
    if len(one) != len(other):
        raise InvalidInputError(
            f"{sources[1].origin}: expected the {len(one)} attention layers of {sources[0].origin}, got {len(other)}; "
            f"heads are compared one by one, so both models need one shape"
        )
    for ours, theirs in zip(one, other, strict=True):
        if _shape(ours) != _shape(theirs):
            raise InvalidInputError(
                f"{sources[1].origin}: {theirs.name}: expected {_shape(ours)} as in {sources[0].origin}, got "
                f"{_shape(theirs)}; heads are compared one by one, so both models need one shape"
            )


def _shape(ref: LayerRef) -> str:
    latent = "" if ref.latent is None else f" behind a latent of {ref.latent.key_size}"
    return (
        f"{ref.heads} heads on {ref.kv_heads} of rank {ref.rank} and {ref.value_rank}, dimension {ref.dim} and "
        f"{ref.context_dim}{latent}"
    )


def _notes(found: tuple[Placement, Placement]) -> tuple[str, ...]:
    notes = ["biases are not compared"] if any(_biased(ref) for placement in found for ref in placement.layers) else []
    return tuple(dict.fromkeys([*notes, *found[0].notes, *found[1].notes]))


def _biased(ref: LayerRef) -> bool:
    return any(bias is not None for bias in (ref.q_bias, ref.k_bias, ref.v_bias, ref.o_bias))


def _layer_change(sources: tuple[TensorSource, TensorSource], refs: tuple[LayerRef, LayerRef]) -> LayerChange:
    loaded = [load_layer(source, ref).folded() for source, ref in zip(sources, refs, strict=True)]
    qk, ov = _Compared(loaded, _scores), _Compared(loaded, ov_factors)
    for source, ref, one in zip(sources, refs, loaded, strict=True):
        rounded = any(loses_digits(source.info(name).dtype) for name in ref.tensors)
        for draw in range(_draws(one) if rounded else 0):
            again = load_layer(source, ref, rerounded=draw).folded()
            qk.add(one, again, _draws(one))
            ov.add(one, again, _draws(one))
    written = ov.changes()
    return LayerChange(
        part=refs[0].part,
        layer=refs[0].layer,
        rank=refs[0].rank,
        value_rank=refs[0].value_rank,
        head_changes=tuple(
            HeadChange(head, head // refs[0].group, change, written[head] if written else None)
            for head, change in enumerate(qk.changes())
        ),
    )


def _draws(weights: LayerWeights) -> int:
    """Few where a layer has many numbers, which average out by themselves."""
    return min(max(_NUMBERS // weights.q.size, 1), _MOST_DRAWS)


def _scores(weights: LayerWeights) -> Factors:
    """QK with the scale of the scores, which the two models may split differently between scale and weights."""
    factors = qk_factors(weights)
    return factors._replace(left=factors.left * weights.ref.scale)


class _Compared:
    """One form of a layer's heads in both models, and what rounding does to it."""

    def __init__(self, pair: list[LayerWeights], factors: Callable[[LayerWeights], Factors | None]) -> None:
        self.pair, self.factors = pair, factors
        self.squares = torch.zeros(pair[0].ref.heads, dtype=torch.float64)
        self.edges = self.squares.clone()

    def add(self, stored: LayerWeights, again: LayerWeights, draws: int) -> None:
        """One of ``draws`` rounding errors of one model."""
        one, other = self.factors(stored), self.factors(again)
        if one is not None and other is not None:
            error = other.minus(one).singular_values()
            self.squares += error.square().sum(1) / draws
            self.edges = torch.maximum(self.edges, error[:, 0])

    def changes(self) -> list[FormChange]:
        """Of every head; none where one of the models lacks the form."""
        one, other = (self.factors(weights) for weights in self.pair)
        if one is None or other is None:
            return []
        first, second, moved = one.singular_values(), other.singular_values(), other.minus(one).singular_values()
        size = first.norm(dim=1)
        size = torch.where(size > 0, size, second.norm(dim=1)).clamp_min(torch.finfo(torch.float64).tiny)
        directions = (moved > (_EDGE * self.edges + _NOISE * size)[:, None]).sum(1)
        change, rounding = moved.norm(dim=1) / size, self.squares.sqrt() / size
        beyond = (change.square() - rounding.square()).clamp_min(0).sqrt()
        columns = (column.tolist() for column in (change, rounding, beyond, directions))
        ranks = (ranks_of(values, max(one.sizes)) for values in (first, second))
        return [FormChange(*row) for row in zip(*ranks, *columns, strict=True)]
