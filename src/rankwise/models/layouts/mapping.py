"""Any layout, by the names a user gives: ``--q 'blocks.{layer}.wq' --k ... --heads 8``."""

from __future__ import annotations

import re
from dataclasses import dataclass

import numpy as np

from rankwise.errors import InvalidInputError, require_int
from rankwise.models.layouts.layer import LayerRef, NormRef, TensorSlice
from rankwise.models.layouts.refusal import meant
from rankwise.models.layouts.sizes import Order, fused_rows
from rankwise.models.tensor_source import TensorSource


@dataclass(frozen=True, kw_only=True)
class TensorNames:
    """Names of the projections, ``{layer}`` standing for the layer's number.

    Heads lie one after the other. One name for q, k and v (or without v) means one tensor with all three, in the order
    that ``order`` says; with another v, queries and keys are the same.
    """

    q: str
    """Name of the queries' tensor; ``{layer}`` stands for the number."""
    k: str
    """Name of the keys' tensor."""
    v: str | None = None
    """Together with ``o``, or neither: then only queries and keys are known."""
    o: str | None = None
    """Name of the output's tensor."""
    heads: int
    """Query heads."""
    kv_heads: int | None = None
    """Shared by groups of query heads (default: ``heads``)."""
    rank: int | None = None
    """Of each head (default: derived from the rows of q)."""
    transposed: bool = False
    """Matrices are (in, out), not (out, in) as in ``torch.nn.Linear``."""
    causal: bool = False
    """Whether a token sees only itself and earlier ones."""
    order: Order | None = None
    """Of one tensor with all three: ``"turn"``, all queries, all keys, all values; ``"head"``, per key head its
    queries, its key, its value (BLOOM, GPT-NeoX)."""
    norm: str | None = None
    """The gain to fold in, of the norm in front."""


def mapped_layers(source: TensorSource, names: TensorNames) -> list[LayerRef]:
    """The layers under the given names; shapes decide what the numbers of heads leave open."""
    heads = require_int("heads", names.heads, minimum=1)
    groups = heads if names.kv_heads is None else require_int("kv_heads", names.kv_heads, minimum=1)
    if heads % groups:
        raise InvalidInputError(f"kv_heads: expected a divisor of the {heads} heads, got {groups}")
    if (names.v is None) != (names.o is None):
        raise InvalidInputError("v and o: expected both or neither, got one")
    return [_layer(source, names, number, heads, groups) for number in _numbers(source, names.q)]


def _numbers(source: TensorSource, pattern: str) -> list[int]:
    if "{layer}" not in pattern:
        if not source.has(pattern):
            raise InvalidInputError(f"q: expected a tensor named {pattern!r}, got none{meant(source, 'q', pattern)}")
        return [0]
    before, after = pattern.split("{layer}", 1)
    matcher = re.compile(rf"{re.escape(before)}(\d+){re.escape(after)}")
    found = sorted({int(match[1]) for name in source.tensors if (match := matcher.fullmatch(name))})
    if not found:
        hint = meant(source, "q", pattern.replace("{layer}", "0"))
        raise InvalidInputError(f"q: expected tensors named like {pattern!r}, got none{hint}")
    return found


def _layer(source: TensorSource, names: TensorNames, number: int, heads: int, groups: int) -> LayerRef:
    def named(pattern: str) -> str:
        return pattern.replace("{layer}", str(number))

    for part, pattern in (("k", names.k), ("v", names.v), ("o", names.o)):
        if pattern is not None and not source.has(named(pattern)):
            hint = meant(source, part, named(pattern))
            raise InvalidInputError(f"{part}: expected a tensor named {named(pattern)!r}, got none{hint}")

    def size(pattern: str) -> tuple[int, int]:
        """(out, in) of a projection."""
        shape = source.info(named(pattern)).shape
        if len(shape) != 2:
            raise InvalidInputError(f"{named(pattern)}: expected a matrix, got shape {list(shape)}")
        return (shape[1], shape[0]) if names.transposed else (shape[0], shape[1])

    into = 1 if names.transposed else 0
    unseen = "norms, biases and positions" if names.norm is None else "biases and positions"
    fused = names.q == names.k and names.v in (None, names.q)
    q_rows, dim = size(names.q)
    k_rows, context_dim = size(names.k)
    slots = heads + 2 * groups if fused else heads
    rank = names.rank if names.rank is not None else q_rows // slots
    expected = slots * rank
    if q_rows != expected or (not fused and k_rows != groups * rank):
        raise InvalidInputError(
            f"{named(names.q)}: expected {expected} outputs for {heads} query heads of {rank} (keys: {groups} heads, "
            f"{groups * rank} outputs), got {q_rows} and {k_rows}; check --heads, --kv-heads and --head-dim"
        )
    if fused:
        if names.order is None:
            raise InvalidInputError(
                f"{named(names.q)}: expected --order for one tensor with queries, keys and values: turn (all queries, "
                f"all keys, all values: GPT-2, Phi-3) or head (per head: BLOOM, GPT-NeoX), got none; shapes cannot tell"
            )
        parts = dict(zip("qkv", fused_rows(heads, groups, rank, names.order), strict=True))
        value_rank = rank
    else:
        parts = {"q": np.arange(q_rows).reshape(heads, rank), "k": np.arange(k_rows).reshape(groups, rank)}
        value_rank = rank
        if names.v is not None:
            v_rows, v_in = size(names.v)
            value_rank = v_rows // groups
            if v_rows != groups * value_rank or v_in != context_dim:
                raise InvalidInputError(
                    f"{named(names.v)}: expected {groups} heads on {context_dim} inputs, got {v_rows} rows on {v_in}"
                )
            parts["v"] = np.arange(v_rows).reshape(groups, value_rank)
    if names.o is not None:
        outputs, o_in = size(names.o)
        if o_in != heads * value_rank or outputs != dim:
            raise InvalidInputError(
                f"{named(names.o)}: expected {dim} outputs of {heads} heads of {value_rank} = {heads * value_rank} "
                f"inputs, got {outputs} of {o_in}"
            )
        o_block = TensorSlice(named(names.o), np.arange(o_in).reshape(heads, value_rank), 1 - into)
    norm = None
    if names.norm is not None:
        gain = named(names.norm)
        if source.info(gain).shape != (dim,):
            raise InvalidInputError(f"{gain}: expected a gain of {dim} numbers, got {list(source.info(gain).shape)}")
        shift = re.sub("weight$", "bias", gain)
        norm = NormRef("layer", gain, shift if shift != gain and source.has(shift) else None)
    return LayerRef(
        part="layer",
        layer=number,
        dim=dim,
        context_dim=context_dim,
        heads=heads,
        kv_heads=groups,
        rank=rank,
        value_rank=value_rank,
        scale=rank**-0.5,
        mask="causal" if names.causal else "full",
        q=TensorSlice(named(names.q), parts["q"], into),
        k=TensorSlice(named(names.k), parts["k"], into),
        v=None if names.v is None else TensorSlice(named(names.v), parts["v"], into),
        o=None if names.o is None else o_block,
        query_norm=norm,
        key_norm=norm,
        notes=(f"by given names: {unseen} are not looked at; the scale is assumed 1/sqrt(rank)",),
    )
