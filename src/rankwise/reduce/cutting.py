"""A trained model with smaller heads: prepared once, cut at any rank, measured, and put back as it was.

The upper edge seen from the other side: if random attention stops gaining rank beyond a head dimension, a trained model
may be able to do without some of its own. How many, is measured, never assumed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Literal

import numpy as np
import torch
from jaxtyping import Float, Int64
from torch import Tensor

from rankwise.errors import InvalidInputError, require_number
from rankwise.measure.bisection import smallest
from rankwise.models.files.source import ModelSource
from rankwise.models.layouts import LayerRef, LayerWeights, TensorSlice, load_layer, place
from rankwise.models.running.model import AttentionCall, RunningModel
from rankwise.reduce.cost import CostMeter
from rankwise.reduce.moments import LayerMoments, MomentSums, weight_moments
from rankwise.reduce.reduced_layer import ReducedLayer, ReducibleLayer, why_not_reducible

Method = Literal["activations", "weights"]
Progress = Callable[[str], None]


@dataclass(frozen=True)
class Reducer:
    """The layers of one model, ready to be cut. ``untouched`` are those that cannot, with the reason."""

    source: ModelSource
    architecture: str
    layers: Mapping[Method, tuple[ReducibleLayer, ...]]
    untouched: tuple[tuple[str, str], ...]

    @property
    def methods(self) -> tuple[Method, ...]:
        """By activations, where texts were given, and by weights."""
        return tuple(self.layers)

    @property
    def rank(self) -> int:
        """The largest rank of any head."""
        return max(layer.ref.rank for layer in self.layers["weights"])

    def cut(self, rank: int, value_rank: int | None = None, *, method: Method) -> list[ReducedLayer]:
        """Every layer at ``rank``; layers that are smaller stay as they are."""
        return [layer.reduce(rank, value_rank) for layer in self.layers[method]]


def prepare(
    source: ModelSource,
    running: RunningModel | None = None,
    tokens: Int64[Tensor, "T N"] | None = None,
    *,
    progress: Progress | None = None,
) -> Reducer:
    """Read every layer, and run ``tokens`` through the model to collect second moments, if both are given."""
    placement = place(source)
    reasons = {ref: why_not_reducible(ref) or _why_not_written(source, ref) for ref in placement.layers}
    refs = [ref for ref, reason in reasons.items() if reason is None]
    untouched = [(ref.name, reason) for ref, reason in reasons.items() if reason is not None]
    untouched += [(item.what, item.reason) for item in placement.unsupported]
    if not refs:
        raise InvalidInputError(
            f"{source.path}: expected layers whose heads can be cut, got none: {untouched[0][0]}: {untouched[0][1]}"
        )
    weights = [load_layer(source, ref) for ref in refs]
    by_weights = [weight_moments(one) for one in weights]
    layers: dict[Method, tuple[ReducibleLayer, ...]] = {}
    judges: Sequence[LayerMoments | None] = [None] * len(refs)
    if running is not None and tokens is not None:
        by_activations = _collected(running, weights, tokens, progress)
        judges = by_activations
        layers["activations"] = tuple(
            ReducibleLayer(one, moments, rival=rival)
            for one, moments, rival in zip(weights, by_activations, by_weights, strict=True)
        )
    layers["weights"] = tuple(
        ReducibleLayer(one, moments, judge=judge)
        for one, moments, judge in zip(weights, by_weights, judges, strict=True)
    )
    return Reducer(source, placement.architecture, layers, tuple(untouched))


def _why_not_written(source: ModelSource, ref: LayerRef) -> str | None:
    """Cut weights would need new scales beside their codes, which are not made here."""
    coded = sorted({source.info(name).dtype for name in ref.tensors if source.is_float8(name)})
    return f"stored as {', '.join(coded)} with scales, which cannot be written back" if coded else None


def _collected(
    running: RunningModel, weights: Sequence[LayerWeights], tokens: Tensor, progress: Progress | None
) -> list[LayerMoments]:
    blocks = dict(zip(module_names(running, [one.ref for one in weights]), weights, strict=True))
    sums = {name: MomentSums(one) for name, one in blocks.items()}

    def visit(call: AttentionCall) -> None:
        if call.name in sums:
            sums[call.name].add(call)

    for number in range(len(tokens)):
        running.watch(tokens[number : number + 1], visit)
        if progress is not None:
            progress("second moments")
    return [sums[name].moments() for name in blocks]


def module_names(running: RunningModel, refs: Sequence[LayerRef]) -> list[str]:
    """The path of the attending module that each layer's queries belong to."""
    parameters = dict(running.model.named_parameters())
    names = []
    for ref in refs:
        parameter = parameter_name(parameters, ref.q.tensor)
        owners = [name for name in running.attention_names() if parameter.startswith(f"{name}.")]
        if len(owners) != 1:
            raise InvalidInputError(f"{ref.name}: expected one attending module with {parameter}, got {len(owners)}")
        names.append(owners[0])
    return names


def parameter_name(parameters: Mapping[str, Tensor], tensor: str) -> str:
    """The model's name for a tensor of the file: the same, or the same behind (or without) a prefix."""
    if tensor in parameters:
        return tensor
    found = [name for name in parameters if name.endswith(f".{tensor}") or tensor.endswith(f".{name}")]
    if len(found) != 1:
        raise InvalidInputError(f"{tensor}: expected one parameter of that name in the model, got {len(found)}")
    return found[0]


def changed_tensors(source: ModelSource, layers: Sequence[ReducedLayer]) -> dict[str, Float[np.ndarray, "..."]]:
    """The stored tensors of the layers, in their own shape, with the heads cut; without those that stay equal."""
    changed: dict[str, Float[np.ndarray, "..."]] = {}
    for layer in layers:
        for name, block in layer.same_shape().items():
            where: TensorSlice | None = getattr(layer.ref, name)
            if where is not None:
                stored = changed[where.tensor] if where.tensor in changed else source.read(where.tensor)
                changed[where.tensor] = where.put(stored, block.astype(stored.dtype))
    return {name: value for name, value in changed.items() if not np.array_equal(value, source.read(name))}


@contextmanager
def cut_model(running: RunningModel, source: ModelSource, layers: Sequence[ReducedLayer]) -> Iterator[RunningModel]:
    """The running model with its heads cut, for a while."""
    parameters = dict(running.model.named_parameters())
    changed = {parameter_name(parameters, name): value for name, value in changed_tensors(source, layers).items()}
    kept = {name: parameters[name].detach().clone() for name in changed}
    try:
        with torch.no_grad():
            for name, value in changed.items():
                parameters[name].copy_(torch.from_numpy(value))
        yield running
    finally:
        with torch.no_grad():
            for name, original in kept.items():
                parameters[name].copy_(original)


@dataclass(frozen=True, kw_only=True)
class CutPoint:
    """What one cut costs; ``lost`` is the mean share of the squared scores that is missing."""

    method: Method
    rank: int
    value_rank: int | None
    lost: float
    measured: Mapping[str, float]


def measure_cut(
    reducer: Reducer,
    running: RunningModel,
    meter: CostMeter,
    rank: int,
    value_rank: int | None = None,
    *,
    method: Method,
    only: int | None = None,
) -> CutPoint:
    """Cut all layers (or ``only`` one), measure, put back."""
    if only is None:
        layers = reducer.cut(rank, value_rank, method=method)
    else:
        layers = [reducer.layers[method][only].reduce(rank, value_rank)]
    with cut_model(running, reducer.source, layers):
        measured = meter.measure(running)
    shares = [share for layer in layers for share in layer.lost]
    return CutPoint(method=method, rank=rank, value_rank=value_rank, lost=sum(shares) / len(shares), measured=measured)


def smallest_cut(
    reducer: Reducer,
    cost: Callable[[int], float],
    *,
    tolerance: float,
    value_rank: int | None = None,
) -> int:
    """The smallest rank whose cost is within ``tolerance``, by bisection; the cost is taken to fall with the rank.

    The answer's own cost has been measured; that a smaller rank is not cheaper by accident has not. With values cut to
    ``value_rank`` even the full rank may cost too much.
    """
    require_number("tolerance", tolerance, minimum=0)
    choices = rank_choices(reducer)
    if value_rank is not None and (least := cost(choices[-1])) > tolerance:
        raise InvalidInputError(
            f"--rank auto: expected a rank that costs at most {tolerance:g}, got none: --value-rank {value_rank} alone "
            f"costs {least:.3g}; cut values less, or allow more with --tolerance"
        )
    # the full rank, last of them, changes nothing
    return choices[smallest(lambda place: cost(choices[place - 1]) <= tolerance, len(choices)) - 1]


def rank_choices(reducer: Reducer) -> list[int]:
    """The ranks that every layer can be cut to: even where all coordinates rotate."""
    whole_pairs = any(
        layer.ref.rope is not None and layer.ref.rope.dims == layer.ref.rank for layer in reducer.layers["weights"]
    )
    partly = any(layer.ref.rope is not None for layer in reducer.layers["weights"])
    start = 2 if partly else 1
    return list(range(start, reducer.rank + 1, 2 if whole_pairs else 1))


def curve_ranks(reducer: Reducer) -> list[int]:
    """A handful of ranks for a picture, largest first."""
    choices = rank_choices(reducer)
    wanted = [reducer.rank * eighths / 16 for eighths in (16, 14, 12, 10, 8, 6, 4, 3, 2, 1)]
    return sorted({max(c for c in choices if c <= max(w, choices[0])) for w in wanted}, reverse=True)
