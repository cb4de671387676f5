"""Parts that every layout is made of: stacks of layers, cuts into heads, checks of shapes against numbers."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, TypedDict

import numpy as np

from rankwise.errors import InvalidInputError
from rankwise.models.layouts.layer import NormRef, TensorSlice
from rankwise.models.tensor_source import TensorSource
from rankwise.shapes import ConfigPart

_SEEING = re.compile(r"(^|\.)(vision_tower|vision_model|visual)\.")
"""Stacks beside the text's in models of several parts, whose layers may have the same names."""


def text_part(config: Mapping[str, Any]) -> ConfigPart:
    """The configuration itself, or its text part in models of several parts; with what its family leaves unsaid."""
    part = ConfigPart(config)
    part = part.nested("text_config") if part.has("text_config") else part
    return part.with_defaults_of(part.values.get("model_type", config.get("model_type")))


def find_stack(source: TensorSource, *patterns: str, layers: int, extra: int = 0) -> list[str]:
    """The prefixes (``"model.layers.3."``) of a stack whose first tensor matches one of ``patterns``.

    A pattern is a regular expression for the beginning of the name, then ``{}`` for the layer's number, then the end.
    The stack must have the ``layers`` the configuration promises, or up to ``extra`` more, which are left out.
    """
    for pattern in patterns:
        before, after = pattern.split("{}")
        matcher = re.compile(rf"((?:.*\.)?{before})(\d+)(\.{after})")
        stacks: dict[str, set[int]] = {}
        for name in source.tensors:
            if match := matcher.fullmatch(name):
                stacks.setdefault(match[1], set()).add(int(match[2]))
        if len(stacks) > 1:
            stacks = {stem: numbers for stem, numbers in stacks.items() if not _SEEING.search(stem)}
        if len(stacks) > 1:
            raise InvalidInputError(f"expected one stack of layers, got several: {', '.join(sorted(stacks))}")
        for stem, numbers in stacks.items():
            if not numbers >= set(range(layers)) or not layers <= len(numbers) <= layers + extra:
                raise InvalidInputError(
                    f"expected the {layers} layers of the configuration under {stem}*, got {len(numbers)} "
                    f"({min(numbers)} to {max(numbers)})"
                )
            return [f"{stem}{number}." for number in range(layers)]
    example = patterns[0].replace("\\", "").format("0.")
    if any(name.endswith(".qweight") for name in source.tensors):
        way_out = "weights packed by AWQ or GPTQ (*.qweight) are not read, audit the model they were made from"
    else:
        way_out = "or name them with --q, --k, --v, --o and --heads ({layer} stands for the number)"
    raise InvalidInputError(
        f"expected tensors named like {example}, got none in {len(source.tensors)} tensors; {way_out}"
    )


class Projections(TypedDict):
    """The sizes and matrices of a layer whose queries, keys, values and outputs are stored apart."""

    dim: int
    """Of the queries' input and of the output."""
    context_dim: int
    """Of the input of keys and values."""
    heads: int
    """Query heads."""
    kv_heads: int
    """Heads of keys and values."""
    rank: int
    """Coordinates of a query or key of one head."""
    value_rank: int
    """Coordinates of a value of one head."""
    q: TensorSlice
    """Where the queries' weights are."""
    k: TensorSlice
    """Where the keys' weights are."""
    v: TensorSlice
    """Where the values' weights are."""
    o: TensorSlice
    """Where the output's weights are."""
    q_bias: TensorSlice | None
    """This and the other biases: None where the layer has none."""
    k_bias: TensorSlice | None
    """Bias of the keys."""
    v_bias: TensorSlice | None
    """Bias of the values."""
    o_bias: str | None
    """Bias of the output."""


def separate(
    source: TensorSource,
    names: tuple[str, str, str, str],
    *,
    dim: int,
    heads: int,
    rank: int,
    kv_heads: int | None = None,
    value_rank: int | None = None,
) -> Projections:
    """Four linear maps called ``names`` (q, k, v, o, without ``.weight``), rows cut into heads, biases where stored."""
    q, k, v, o = names
    groups, values = kv_heads or heads, value_rank or rank
    return Projections(
        dim=dim,
        context_dim=dim,
        heads=heads,
        kv_heads=groups,
        rank=rank,
        value_rank=values,
        q=rows(source, f"{q}.weight", heads, rank, dim),
        k=rows(source, f"{k}.weight", groups, rank, dim),
        v=rows(source, f"{v}.weight", groups, values, dim),
        o=columns(source, f"{o}.weight", heads, values, dim),
        q_bias=bias(source, f"{q}.bias", heads, rank),
        k_bias=bias(source, f"{k}.bias", groups, rank),
        v_bias=bias(source, f"{v}.bias", groups, values),
        o_bias=optional(source, f"{o}.bias"),
    )


def rows(source: TensorSource, name: str, heads: int, rank: int, columns: int, *, why: str = "") -> TensorSlice:
    """A matrix (heads * rank, columns), cut into heads by rows."""
    require_shape(source, name, (heads * rank, columns), f"{heads} heads of {rank}{why} on {columns} inputs")
    return TensorSlice(name, np.arange(heads * rank).reshape(heads, rank), 0)


def columns(source: TensorSource, name: str, heads: int, rank: int, rows: int) -> TensorSlice:
    """An output matrix (rows, heads * rank), cut into heads by columns."""
    require_shape(source, name, (rows, heads * rank), f"{heads} heads of {rank} to {rows} outputs")
    return TensorSlice(name, np.arange(heads * rank).reshape(heads, rank), 1)


def bias(source: TensorSource, name: str, heads: int, rank: int) -> TensorSlice | None:
    """A bias (heads * rank,), None where the model has none."""
    if not source.has(name):
        return None
    require_shape(source, name, (heads * rank,), f"{heads} heads of {rank}")
    return TensorSlice(name, np.arange(heads * rank).reshape(heads, rank), 0)


def optional(source: TensorSource, name: str) -> str | None:
    """The name if the model has that tensor."""
    return name if source.has(name) else None


def rms_norm(source: TensorSource, name: str, size: int, *, unit_offset: bool = False) -> NormRef:
    """An RMSNorm with its gain; ``unit_offset``: one is added to what is stored."""
    require_shape(source, name, (size,), f"a gain for {size} coordinates")
    return NormRef("rms", name, None, unit_offset)


def layer_norm(source: TensorSource, stem: str, size: int) -> NormRef:
    """A LayerNorm with gain and shift ``stem.weight``, ``stem.bias``."""
    for name in (f"{stem}.weight", f"{stem}.bias"):
        require_shape(source, name, (size,), f"{size} coordinates")
    return NormRef("layer", f"{stem}.weight", f"{stem}.bias")


def require_shape(source: TensorSource, name: str, expected: tuple[int, ...], says: str) -> None:
    """The tensor has the shape the configuration implies; where they disagree, show both."""
    got = source.info(name).shape
    if got != expected:
        raise InvalidInputError(
            f"{name}: expected shape {list(expected)}, because the configuration says {says}, got {list(got)}; "
            f"one of the two is wrong (see head_dim and the numbers of heads)"
        )
