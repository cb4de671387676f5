"""A model's cut attention layers as ``rankwise.nn`` layers, and the checkpoint that holds them.

In the old shape a cut head is still multiplied in full. Here it is really small: ``attention.safetensors`` holds
factors [heads, rank, dim] and ``plan.json`` the shape of every layer, so that parameters, multiplications and the
key/value cache shrink with the rank. The score scale is the original one (1/sqrt of the original head dimension, or
what the model says): it is multiplied into the queries' weights, because a layer of rank K divides by sqrt(K) itself.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open
from torch import Tensor

from rankwise.errors import InvalidInputError
from rankwise.models.layouts import LayerRef
from rankwise.nn import MultiheadAttention
from rankwise.reduce.reduced_layer import ReducedLayer
from rankwise.shapes.shape import STATE_BYTES
from rankwise.spec import AttentionSpec, RotarySpec
from rankwise.spec.canonical import plain
from rankwise.spec.read import from_plain
from rankwise.spec.strict_json import read_json_object

PLAN, WEIGHTS = "plan.json", "attention.safetensors"
FORMAT = "rankwise-factored/1"
_NAMES = ("q_weight", "k_weight", "v_weight", "o_weight", "q_bias", "k_bias", "v_bias", "o_bias")


@dataclass(frozen=True, eq=False)
class FactoredLayer:
    """One layer of a plan: its place in the model it was cut from, and the module that does the same."""

    name: str
    module: str | None
    attention: MultiheadAttention


def why_not_factored(ref: LayerRef) -> str | None:
    """The reason why ``rankwise.nn`` cannot compute what the layer computes, None if it can."""
    if ref.gated:
        return "outputs are gated, which rankwise.nn layers do not do"
    if ref.softcap is not None:
        return f"scores are soft-capped at {ref.softcap:g}, which rankwise.nn layers do not do"
    if ref.score_bias is not None:
        return f"a {ref.score_bias} position bias is added to the scores, which rankwise.nn layers do not do"
    if ref.mask == "full" and ref.window is not None:
        return "queries see a window on both sides, which rankwise.nn layers do not do"
    return None


def factored_layer(layer: ReducedLayer) -> MultiheadAttention:
    """The cut layer as a module: softmax(s q k^T) v with the model's own scale, positions and mask."""
    ref = layer.ref
    reason = why_not_factored(ref)
    if reason is not None:
        raise InvalidInputError(f"{ref.name}: {reason}")
    tensors = {
        "q_weight": layer.q, "k_weight": layer.k, "v_weight": layer.v, "o_weight": layer.o, "q_bias": layer.q_bias,
        "k_bias": layer.k_bias, "v_bias": layer.v_bias,
        "o_bias": None if layer.o_bias is None else layer.o_bias[None],
    }  # fmt: skip
    biased = any(tensors[name] is not None for name in _NAMES[4:])
    spec = _spec(layer, biased)
    factors = torch.full((layer.rank,), ref.scale * math.sqrt(layer.rank), dtype=torch.float64)
    if ref.rope is not None and layer.pairs is not None:
        factors[: 2 * len(layer.pairs[0])] *= ref.rope.amplitude**2
    module = MultiheadAttention.from_spec(spec, dtype=layer.q.dtype)
    with torch.no_grad():
        for name in _NAMES:
            own: Tensor | None = getattr(module, name)
            if own is None:
                continue
            given = tensors[name]
            if given is None:
                own.zero_()
            elif name == "q_weight":
                own.copy_(given * factors[:, None])
            elif name == "q_bias":
                own.copy_(given * factors)
            else:
                own.copy_(given)
    return module.eval().requires_grad_(False)


def _spec(layer: ReducedLayer, biased: bool) -> AttentionSpec:
    ref = layer.ref
    rope = None
    if ref.rope is not None and layer.pairs is not None:
        rows = tuple(tuple(float(ref.rope.frequencies[p]) for p in kept) for kept in layer.pairs)
        rope = RotarySpec(frequencies=rows)
    return AttentionSpec(
        dim=ref.dim,
        heads=ref.heads,
        rank=layer.rank,
        value_rank=layer.value_rank,
        kv_heads=ref.kv_heads,
        context_dim=None if ref.context_dim == ref.dim else ref.context_dim,
        rope=rope,
        causal=ref.mask in ("causal", "window"),
        window=ref.window if ref.mask == "window" else None,
        bias=biased,
    )


def factored_tensors(modules: Sequence[MultiheadAttention], dtypes: Sequence[torch.dtype]) -> dict[str, Tensor]:
    """What the checkpoint stores: ``0.q_weight``, ..., in the order of the layers, each in its layer's type."""
    return {
        f"{number}.{name}": getattr(module, name).detach().to(dtypes[number]).contiguous()
        for number, module in enumerate(modules)
        for name in _NAMES
        if getattr(module, name) is not None
    }


def factored_plan(
    layers: Sequence[ReducedLayer], modules: Sequence[MultiheadAttention], paths: Sequence[str | None]
) -> dict[str, Any]:
    """Strict JSON: the shape of every layer, what was dropped from it, and what that saves."""
    return {
        "format": FORMAT,
        "layers": [
            {
                "name": layer.ref.name,
                "module": path,
                "spec": plain(module.spec),
                "original_rank": layer.ref.rank,
                "original_value_rank": layer.ref.value_rank,
                "score_scale": layer.ref.scale,
                **cut_description(layer),
            }
            for layer, module, path in zip(layers, modules, paths, strict=True)
        ],
        "savings": savings(layers),
    }


def cut_description(layer: ReducedLayer) -> dict[str, Any]:
    """What was dropped, and the share of squared scores and outputs that went with it, a key head at a time."""
    rope = layer.ref.rope
    dropped = None
    if rope is not None and layer.pairs is not None:
        everything = range(len(rope.frequencies))
        dropped = [[pair for pair in everything if pair not in kept] for kept in layer.pairs]
    return {
        "rank": layer.rank,
        "value_rank": layer.value_rank,
        "kept_pairs": None if layer.pairs is None else [list(kept) for kept in layer.pairs],
        "dropped_pairs": dropped,
        "lost_scores": list(layer.lost),
        "lost_outputs": list(layer.lost_values),
    }


def savings(layers: Sequence[ReducedLayer]) -> dict[str, Any]:
    """Attention parameters (biases too) and cached numbers a token, before and after; 2 bytes a cached number."""

    def parameters(layer: ReducedLayer, rank: int, value_rank: int) -> int:
        ref = layer.ref
        count = (ref.heads * ref.dim + ref.kv_heads * ref.context_dim) * (rank + value_rank)
        biases = [(layer.q_bias, ref.heads * rank), (layer.k_bias, ref.kv_heads * rank)]
        biases += [(layer.v_bias, ref.kv_heads * value_rank), (layer.o_bias, ref.dim)]
        return count + sum(size for bias, size in biases if bias is not None)

    own = [layer for layer in layers if layer.ref.part != "cross"]
    before = sum(parameters(layer, layer.ref.rank, layer.ref.value_rank) for layer in layers)
    after = sum(parameters(layer, layer.rank, layer.value_rank) for layer in layers)
    return {
        "attention_parameters": {"before": before, "after": after},
        "kv_cache_bytes_per_token": {
            "before": STATE_BYTES * sum(x.ref.kv_heads * (x.ref.rank + x.ref.value_rank) for x in own),
            "after": STATE_BYTES * sum(x.ref.kv_heads * (x.rank + x.value_rank) for x in own),
        },
    }


def load_factored(directory: Path) -> list[FactoredLayer]:
    """The layers of a checkpoint written by ``rankwise reduce``, as modules; shapes are checked against the plan."""
    plan = read_json_object(directory / PLAN)
    if plan.get("format") != FORMAT or not isinstance(plan.get("layers"), list):
        raise InvalidInputError(
            f"{directory / PLAN}: format: expected {FORMAT!r} with a list of layers, got {plan.get('format')!r:.60}"
        )
    try:
        with safe_open(directory / WEIGHTS, framework="pt") as file:
            stored = {name: file.get_slice(name) for name in file.keys()}  # noqa: SIM118 (not a dictionary)
            return [
                _loaded(number, entry, {n: s for n, s in stored.items() if n.startswith(f"{number}.")}, directory)
                for number, entry in enumerate(plan["layers"])
            ]
    except (SafetensorError, OSError) as error:
        raise InvalidInputError(f"{directory / WEIGHTS}: expected safetensors, got: {error}") from None


def _loaded(number: int, entry: Any, stored: Mapping[str, Any], directory: Path) -> FactoredLayer:
    if not isinstance(entry, Mapping) or not isinstance(entry.get("spec"), Mapping):
        raise InvalidInputError(f"{directory / PLAN}: layers[{number}].spec: expected an object, got none")
    spec = from_plain(AttentionSpec, entry["spec"])
    with torch.device("meta"):
        shapes = {name: own.shape for name, own in MultiheadAttention.from_spec(spec).named_parameters()}
    tensors = {}
    for name, shape in shapes.items():
        key = f"{number}.{name}"
        if key not in stored:
            raise InvalidInputError(f"{directory / WEIGHTS}: expected the tensor {key}, got none")
        got = stored[key].get_shape()
        if list(got) != list(shape):
            raise InvalidInputError(f"{directory / WEIGHTS}: {key}: expected shape {list(shape)}, got {list(got)}")
        tensors[name] = stored[key][:]
    with torch.device("meta"):
        module = MultiheadAttention.from_spec(spec)
    module.load_state_dict(tensors, assign=True)
    place = entry.get("module")
    return FactoredLayer(
        str(entry.get("name")), place if isinstance(place, str) else None, module.eval().requires_grad_(False)
    )
