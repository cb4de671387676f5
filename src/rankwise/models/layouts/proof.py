"""Readings proved on the spot: scores predicted from weights against those that a tiny twin of the model computes.

The twin runs on two random inputs. What goes into the projections of queries and keys and into each softmax is
recorded. A reading is proved when the weights, read that way, give the recorded scores to a relative 1e-4. A term of
the positions alone (ALiBi, relative biases) cancels in the difference of the two inputs, a rotation on the diagonal.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any

import numpy as np
import torch
from jaxtyping import Bool, Float
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode

from rankwise.errors import InvalidInputError
from rankwise.models.layouts.blocks import AttentionBlock, inner_names
from rankwise.models.layouts.layer import LayerRef, LayerWeights, load_layer
from rankwise.models.layouts.reading import Reading, norms_of, rope_of, scales
from rankwise.models.layouts.sizes import SizeError, sizes_of
from rankwise.models.layouts.structure import PlacedBlock, placed_blocks
from rankwise.models.layouts.twin import run_twin, tiny_twin
from rankwise.models.tensor_source import ModuleSource
from rankwise.shapes import ConfigPart

_TOLERANCE = 1e-4
_MASKED = -1e4
_EPS = ("rms_norm_eps", "layer_norm_eps", "layer_norm_epsilon", "norm_eps", "layernorm_epsilon")


@dataclass(frozen=True)
class Proved:
    """How a block of the twin is read, and whether the model's own scores agree."""

    block: AttentionBlock
    tensors: frozenset[str]
    """The names of all tensors of the block, behind its path."""
    guess: Reading
    """By names alone."""
    reading: Reading
    verified: bool
    ran: bool
    """Whether the block attended when the twin ran."""


@lru_cache(maxsize=64)
def _proved(config: str) -> tuple[Proved, ...] | None:
    twin = tiny_twin(json.loads(config))
    if twin is None:
        return None
    source = ModuleSource(twin)
    placed = placed_blocks(source, ConfigPart(source.config))
    calls = record(twin, placed)
    found = []
    for one in placed:
        first = one.guess(source)
        if one.block.path not in calls:
            found.append(Proved(one.block, inner_names(source, one.block), first, first, verified=False, ran=False))
            continue
        found.append(_best(source, one, first, calls[one.block.path]))
    return tuple(found)


def proved_readings(config: Mapping[str, Any]) -> tuple[Proved, ...] | None:
    """The readings of all blocks of a twin of the configuration; None where there can be no twin."""
    try:
        text = json.dumps(config, sort_keys=True, default=str)
    except (TypeError, ValueError):
        return None
    return _proved(text)


@dataclass
class Call:
    """What one block of the twin received and computed; arrays have the two inputs first."""

    queries: Tensor | None = None
    keys: Tensor | None = None
    scores: Tensor | None = None
    norms: tuple[str, ...] = ()
    """Norms whose output is the queries' input, by their whole names."""
    key_norms: tuple[str, ...] = ()
    offsets: frozenset[str] = frozenset()
    """Norms that multiply by one more than their weight."""
    centred: frozenset[str] = frozenset()
    """Norms that take the mean off."""

    @property
    def complete(self) -> bool:
        return self.queries is not None and self.keys is not None and self.scores is not None


def record(twin: nn.Module, placed: list[PlacedBlock]) -> dict[str, Call]:
    """Run the twin; for every block that attended, its inputs and its scores."""
    calls: dict[str, Call] = {}
    running: list[str] = []
    outputs: dict[str, Tensor] = {}
    offsets: set[str] = set()
    centred: set[str] = set()
    handles = []

    def on_projection(path: str, side: str) -> Any:
        def hook(_: nn.Module, arguments: tuple[Any, ...]) -> None:
            if not arguments or not isinstance(arguments[0], Tensor):
                return
            call = calls.setdefault(path, Call())
            given = arguments[0].detach()
            same = tuple(name for name, output in outputs.items() if _same(output, given))
            if call.complete:  # a layer that runs again, or a second way to run the model: what holds each time
                if side in ("q", "both"):
                    call.norms = tuple(name for name in call.norms if name in same)
                return
            if side in ("q", "both"):
                call.queries, call.norms = given, same
                running.append(path)
            if side in ("k", "both"):
                call.keys, call.key_norms = given, same
            call.offsets, call.centred = frozenset(offsets), frozenset(centred)

        return hook

    def on_norm(name: str) -> Any:
        def hook(module: nn.Module, arguments: tuple[Any, ...], output: Any) -> None:
            if isinstance(output, Tensor) and arguments and isinstance(arguments[0], Tensor):
                outputs[name] = output.detach()
                adds_one, takes_mean = _kind_of_norm(module, arguments[0].detach(), output.detach())
                offsets.update([name] * adds_one)
                centred.update([name] * takes_mean)

        return hook

    modules = dict(twin.named_modules())
    for one in placed:
        for side, tensor in (("both", one.block.q),) if one.block.fused else (("q", one.block.q), ("k", one.block.k)):
            owner = modules.get(tensor.removesuffix(".weight"))
            if owner is not None:
                handles.append(owner.register_forward_pre_hook(on_projection(one.block.path, side)))
    for name, module in modules.items():
        weight = getattr(module, "weight", None)
        if isinstance(weight, Tensor) and weight.ndim == 1 and not list(module.children()):
            handles.append(module.register_forward_hook(on_norm(name)))

    class Recorder(TorchFunctionMode):
        def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            if getattr(func, "__name__", "") == "softmax" and running:
                scores = args[0] if args else kwargs.get("input")
                call = calls.get(running[-1])
                if isinstance(scores, Tensor) and scores.ndim in (3, 4) and call is not None and call.scores is None:
                    call.scores = scores.detach().clone()
            return func(*args, **(kwargs or {}))

    try:
        with Recorder():
            run_twin(twin)
    finally:
        for handle in handles:
            handle.remove()
    return {path: call for path, call in calls.items() if call.complete}


def _best(source: ModuleSource, one: PlacedBlock, first: Reading, call: Call) -> Proved:
    """The first reading, near the guess, that gives the recorded scores."""
    block, guess = one.block, first
    if first.turning in ("halves", "neighbours"):  # a wrong configuration is told, not read around
        with suppress(SizeError):
            rank = sizes_of(source, block, one.config, first.order).rank
            rope_of(one.config, rank, "full_attention", first.turning)
    inside = {f"{block.layer}{name}": name for name in norms_of(source, block)}
    norm = next((inside[name] for name in call.norms if name in inside), None)
    key_norm = next(iter(call.key_norms), None) if block.cross else None
    norms = [f"{block.layer}{norm}"] * (norm is not None) + [name for name in inside if name.startswith(block.path)]
    first = replace(
        first, norm=norm, key_norm=key_norm, unit_offset=bool(norms) and norms[0] in call.offsets,
        rms=not (norms and norms[0] in call.centred),
    )  # fmt: skip
    for candidate in _candidates(first, fused=block.fused):
        try:
            ref = one.ref(source, candidate)
            weights = load_layer(source, ref)
        except InvalidInputError:
            continue
        agreed = _agrees(weights, candidate, one, call)
        if agreed is not None:
            return Proved(block, inner_names(source, block), guess, agreed, verified=True, ran=True)
    return Proved(block, inner_names(source, block), guess, first, verified=False, ran=True)


def _candidates(first: Reading, *, fused: bool) -> Iterator[Reading]:
    orders = dict.fromkeys((first.order, "turn", "head", "codegen")) if fused else (first.order,)
    for order in orders:
        for turning in dict.fromkeys((first.turning, "none", "halves", "neighbours", "other")):
            yield replace(first, order=order, turning=turning)


def _agrees(weights: LayerWeights, reading: Reading, one: PlacedBlock, call: Call) -> Reading | None:
    """The reading with scale, mask and bias as measured, if the scores agree; None if they do not."""
    ref = weights.ref
    assert call.queries is not None
    assert call.keys is not None
    assert call.scores is not None
    theirs = call.scores.double().numpy()
    if theirs.ndim == 3:
        theirs = theirs.reshape(-1, ref.heads, *theirs.shape[1:]) if len(theirs) % ref.heads == 0 else theirs[None]
    queries, keys = (_batched(tensor) for tensor in (call.queries, call.keys))
    if keys is not None and theirs.shape[-1] == keys.shape[1] + 1:
        theirs = theirs[..., :-1]  # a learned score of no key at all
    if queries is None or keys is None or theirs.shape[:2] != (len(queries), ref.heads):
        return None
    if theirs.shape[2:] != (queries.shape[1], keys.shape[1]):
        return None
    visible = theirs > _MASKED
    causal = _is_causal(visible)
    eps = next((float(one.config.values[key]) for key in _EPS if one.config.has(key)), 1e-6)
    for turned_last in (False, True) if ref.q_head_norm is not None else (False,):
        ours = np.stack([predicted_scores(weights, x, y, turned_last, eps) for x, y in zip(queries, keys, strict=True)])
        bias = _compared(ours, theirs, visible, ref, one, reading)
        if bias is not None:
            rule, position = bias
            added = reading.score_bias if position else None
            return replace(reading, scale=rule, causal=causal, score_bias=(added or "relative") if position else None)
    return None


def _compared(
    ours: Float[np.ndarray, "B H Q K"], theirs: Float[np.ndarray, "B H Q K"], visible: Bool[np.ndarray, "B H Q K"],
    ref: LayerRef, one: PlacedBlock, reading: Reading,
) -> tuple[str, bool] | None:  # fmt: skip
    """``(rule of the scale, whether a term of the positions is added)`` where the two agree."""
    diagonal = visible & (np.eye(*ours.shape[2:]) > 0) if reading.turning == "other" else visible
    rules = scales(one.config, ref.rank, one.number)
    rules = {reading.scale: rules[reading.scale]} | rules
    for rule, scale in rules.items():
        for cap in dict.fromkeys((ref.softcap, None)):
            predicted = scale * ours if cap is None else cap * np.tanh(scale * ours / cap)
            if diagonal.any() and _close(predicted[diagonal], theirs[diagonal]):
                return rule, False
            if reading.turning != "other" and _close(*(_row_centred(x, visible) for x in (predicted, theirs))):
                return rule, False
    if reading.turning == "other" or len(ours) < 2:
        return None
    both = visible[0] & visible[1]
    for rule, scale in rules.items():
        if both.any() and _close(scale * (ours[0] - ours[1])[both], (theirs[0] - theirs[1])[both]):
            return rule, True
    return None


def predicted_scores(
    weights: LayerWeights,
    queries: Float[np.ndarray, "Q D"],
    keys: Float[np.ndarray, "K C"],
    turned_last: bool,
    eps: float = 1e-6,
) -> Float[np.ndarray, "H Q K"]:
    """Products of queries and keys of a layer as stored, without its scale, for inputs behind the norm.

    ``turned_last``: positions turn queries and keys before QK-norm, not after it.
    """
    ref = weights.ref
    q, k = (x @ block.astype(np.float64).swapaxes(1, 2) for block, x in ((weights.q, queries), (weights.k, keys)))
    q = q if weights.q_bias is None else q + weights.q_bias[:, None]
    k = k if weights.k_bias is None else k + weights.k_bias[:, None]
    if turned_last:
        q, k = _turned(q, ref), _turned(k, ref)
    if weights.q_head_norm is not None and weights.k_head_norm is not None:
        q, k = weights.q_head_norm.of_heads(q, eps), weights.k_head_norm.of_heads(k, eps)
    elif ref.q_head_norm is not None:  # without a gain
        q, k = (x / np.sqrt(np.square(x).mean(-1, keepdims=True) + eps) for x in (q, k))
    if not turned_last:
        q, k = _turned(q, ref), _turned(k, ref)
    return q @ np.repeat(k, ref.group, axis=0).swapaxes(1, 2)


def _turned(x: Float[np.ndarray, "H N R"], ref: LayerRef) -> Float[np.ndarray, "H N R"]:
    if ref.rope is None:
        return x
    x = x.copy()
    for frequency, (a, b) in zip(ref.rope.frequencies, ref.rope.pairs(), strict=True):
        cos, sin = (ref.rope.amplitude * turn(np.arange(x.shape[1]) * frequency) for turn in (np.cos, np.sin))
        x[..., a], x[..., b] = x[..., a] * cos - x[..., b] * sin, x[..., b] * cos + x[..., a] * sin
    return x


def _row_centred(scores: Float[np.ndarray, "B H Q K"], visible: Bool[np.ndarray, "B H Q K"]) -> Float[np.ndarray, " n"]:
    """Visible scores minus their mean over keys: what a softmax does not see is taken off."""
    shown = np.where(visible, scores, 0.0)
    seen = np.maximum(visible.sum(-1, keepdims=True), 1)  # none where the model's own numbers are none
    centred: Float[np.ndarray, " n"] = (scores - shown.sum(-1, keepdims=True) / seen)[visible]
    return centred


def _close(ours: Float[np.ndarray, " n"], theirs: Float[np.ndarray, " n"]) -> bool:
    largest = np.abs(theirs).max(initial=0.0)  # NaN, which no comparison meets, where the model's numbers are none
    return bool(np.abs(ours - theirs).max(initial=0.0) <= _TOLERANCE * largest and largest > 0)


def _batched(inputs: Tensor) -> Float[np.ndarray, "B N D"] | None:
    """Inputs with the batch first; images keep their rows and columns in turn."""
    array = inputs.double().numpy()
    if array.ndim == 2:
        return array[None]
    return array if array.ndim == 3 else None


def _is_causal(visible: Bool[np.ndarray, "B H Q K"]) -> bool:
    later = np.tri(*visible.shape[2:]) == 0
    return bool(later.any() and not visible[:, :, later].any())


def _same(one: Tensor, other: Tensor) -> bool:
    return one.shape == other.shape and bool(torch.equal(one, other))


def _kind_of_norm(module: nn.Module, given: Tensor, output: Tensor) -> tuple[bool, bool]:
    """Whether the norm multiplies by 1 + weight, and whether it takes the mean off: the nearest of four formulas."""
    weight, bias = module.weight, getattr(module, "bias", None)
    if not isinstance(weight, Tensor) or given.shape[-1] != len(weight) or given.shape != output.shape:
        return False, False
    x = given.double()
    errors = {}
    for takes_mean in (False, True):
        centred = x - x.mean(-1, keepdim=True) if takes_mean else x
        unit = centred / centred.square().mean(-1, keepdim=True).sqrt().clamp_min(1e-9)
        for adds_one in (False, True):
            predicted = unit * (weight + adds_one) + (0 if bias is None else bias)
            errors[adds_one, takes_mean] = float((predicted - output).abs().median())
    return min(errors, key=errors.__getitem__)
