"""Heads of a block: their number and rank, by the configuration's numbers and the shapes of the tensors.

Shapes win. A number that the configuration states and the shapes contradict is an error that shows both.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

import numpy as np
from jaxtyping import Int

from rankwise.errors import InvalidInputError
from rankwise.models.layouts.blocks import AttentionBlock
from rankwise.models.tensor_source import TensorSource
from rankwise.shapes import ConfigPart

Order = Literal["turn", "head", "codegen"]
"""Of one tensor with queries, keys and values: all queries, all keys, all values; or per key head its queries, its key
and its value; or CodeGen's, four blocks of (queries, values, keys)."""

_HEADS = ("num_attention_heads", "n_head", "n_heads", "num_heads", "attention_heads", "encoder_attention_heads",
          "decoder_attention_heads", "encoder_num_attention_heads", "num_attention_heads_per_layer")  # fmt: skip
_HEADS_OF = {
    "encoder": ("encoder_attention_heads", "encoder_num_attention_heads", "num_encoder_attention_heads"),
    "decoder": ("decoder_attention_heads", "decoder_num_attention_heads", "num_decoder_attention_heads"),
}
_RANK = ("head_dim", "d_kv", "d_head", "attention_head_dim", "attention_head_size", "dim_head", "kv_channels")
_TEXT = ("text_config", "language_config", "llm_config", "thinker_config")


class SizeError(InvalidInputError):
    """Shapes that contradict the configuration."""


@dataclass(frozen=True)
class Sizes:
    """The numbers of one block, and which rows of its tensors are whose."""

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
    rows: Mapping[str, Int[np.ndarray, "..."]]
    """For q, k and v: the row of the stored tensor for every head and coordinate."""
    transposed: bool
    """Whether tensors are stored (in, out)."""
    gated: bool
    """Whether every query is followed by as many numbers that gate the output."""

    def outputs(self) -> Int[np.ndarray, "H V"]:
        """The column of the output matrix for every head and coordinate."""
        return np.arange(self.heads * self.value_rank).reshape(self.heads, self.value_rank)


def config_of(block: AttentionBlock, config: ConfigPart) -> ConfigPart:
    """The part of the configuration that speaks about the block."""
    part = config
    while True:
        nested = [key for key, value in part.values.items() if isinstance(value, Mapping) and value]
        chosen = next((key for key in nested if block.tower and block.tower in key), None)
        if chosen is None and block.side in nested and not _stated(part, _HEADS):
            chosen = block.side
        if chosen is None and (block.tower is None or not _stated(part, _HEADS)):
            chosen = next((key for key in _TEXT if key in nested), None)
        if chosen is None:
            return part
        inner = part.nested(chosen)
        family = inner.values.get("model_type", part.values.get("model_type"))
        part = inner.with_defaults_of(family)


def sizes_of(source: TensorSource, block: AttentionBlock, config: ConfigPart, order: Order) -> Sizes:
    """Numbers of the block that agree with all its shapes; an error with what was expected and found otherwise."""
    problems: list[str] = []
    _require_dim(source, config)
    for heads in head_numbers(block, config):
        for rank in _ranks(config, heads):
            try:
                return _fused(source, block, config, heads, rank, order) if block.fused else _separate(
                    source, block, config, heads, rank)  # fmt: skip
            except SizeError as error:
                problems.append(str(error))
    if not problems:
        raise SizeError(f"{block.q}: expected the number of heads ({', '.join(_HEADS[:4])}), got nothing")
    raise SizeError(problems[0])


def _separate(source: TensorSource, block: AttentionBlock, config: ConfigPart, heads: int, rank: int | None) -> Sizes:
    q_rows, dim = source.info(block.q).shape
    k_rows, context = source.info(block.k).shape
    outputs = None if block.o is None else source.info(block.o).shape
    gated = rank is not None and q_rows == 2 * heads * rank and outputs is not None and outputs[1] == heads * rank
    says = f"{heads} heads" + ("" if rank is None else f" of {rank}")
    own = rank if rank is not None else q_rows // heads
    stated = config.values.get("num_key_value_heads")
    groups = stated if isinstance(stated, int) and k_rows == stated * own else max(k_rows // max(own, 1), 1)
    if own < 1 or q_rows != heads * own * (2 if gated else 1):
        raise _wrong(block.q, [heads * own if rank else heads, dim], says, [q_rows, dim])
    if k_rows != groups * own or heads % groups or _denied(config, "num_key_value_heads", groups):
        expected = stated if isinstance(stated, int) else heads
        raise _wrong(block.k, [expected * own, context], f"{expected} key heads of {own}", [k_rows, context])
    index = np.arange(q_rows).reshape(heads, -1)[:, :own]
    rows = {"q": index, "k": np.arange(k_rows).reshape(groups, own)}
    value_rank = own
    if block.v is not None and outputs is not None:
        v_rows, v_in = source.info(block.v).shape
        value_rank = v_rows // groups
        if v_in != context:
            raise InvalidInputError(
                f"{block.v}: expected values of the same {context} inputs as the keys, got values of {v_in}; such an "
                f"attention has no layout that is known"
            )
        if v_rows != groups * value_rank:
            raise _wrong(block.v, [groups * value_rank, context], f"{groups} value heads", [v_rows, v_in])
        if (len(outputs), outputs[-1]) != (2, heads * value_rank):
            raise InvalidInputError(
                f"{block.o}: expected outputs of {heads} heads with {value_rank} values each, {heads * value_rank} "
                f"inputs, got shape {list(outputs)}; something else than these heads is written there"
            )
        rows["v"] = np.arange(v_rows).reshape(groups, value_rank)
    return Sizes(dim, context, heads, groups, own, value_rank, rows, transposed=False, gated=gated)


def _fused(
    source: TensorSource, block: AttentionBlock, config: ConfigPart, heads: int, rank: int | None, order: Order
) -> Sizes:
    shape = source.info(block.q).shape
    outputs = None if block.o is None else source.info(block.o).shape
    bias = next((name for name in bias_names(block, "q")[:1] if source.has(name)), None)
    dim = _dim(config, shape)
    transposed = shape[0] == dim and shape[1] != dim
    if bias is not None and shape[0] != shape[1] and source.info(bias).shape[0] in shape:
        transposed = source.info(bias).shape == (shape[1],)
    total, dim = (shape[1], shape[0]) if transposed else shape
    own = rank if rank is not None else dim // heads
    slots = total // max(own, 1)
    groups = (slots - heads) // 2
    wanted = outputs is None or sorted(outputs) == sorted((dim, heads * own))
    if slots * own != total or groups < 1 or heads + 2 * groups != slots or heads % groups or not wanted:
        raise _wrong(
            block.q, [3 * heads * own, dim], f"queries, keys and values of {heads} heads of {own}", list(shape)
        )
    if order == "codegen" and (heads % 4 or groups != heads):
        raise _wrong(block.q, [3 * heads * own, dim], "a multiple of four heads", list(shape))
    rows = dict(zip("qkv", fused_rows(heads, groups, own, order), strict=True))
    return Sizes(dim, dim, heads, groups, own, own, rows, transposed=transposed, gated=False)


def fused_rows(heads: int, groups: int, rank: int, order: Order) -> list[Int[np.ndarray, "..."]]:
    """The rows of queries, keys and values [heads, rank] in one tensor that holds all three."""
    every = np.arange((heads + 2 * groups) * rank)
    if order == "codegen":
        quarters = every.reshape(4, 3, heads // 4, rank)
        return [quarters[:, part].reshape(heads, rank) for part in (0, 2, 1)]
    if order == "head":
        grouped = every.reshape(groups, heads // groups + 2, rank)
        return [grouped[:, :-2].reshape(heads, rank), grouped[:, -2], grouped[:, -1]]
    split = every.reshape(heads + 2 * groups, rank)
    return [split[:heads], split[heads : heads + groups], split[heads + groups :]]


def bias_names(block: AttentionBlock, part: str) -> tuple[str, ...]:
    """Where the bias of q, k or v may be: beside its weight, or apart (DeBERTa)."""
    weight = getattr(block, part)
    if weight is None:
        return ()
    beside = re.sub("weight$", "bias", weight)
    return (beside,) if not block.fused else (beside, f"{block.path}{part}_bias")


def head_numbers(block: AttentionBlock, config: ConfigPart) -> list[int]:
    """Candidates for the number of heads; lists have one for each stage."""
    keys = (*_HEADS_OF.get(block.side or "", ()), *_HEADS)
    found = []
    for part in (config, config.nested("attn_config") if config.has("attn_config") else None):
        if part is None:
            continue
        for key in keys:
            value = part.values.get(key)
            if isinstance(value, list) and block.numbers and block.numbers[0] < len(value):
                part = ConfigPart(dict(part.values) | {key: value[block.numbers[0]]}, part.path)
            if part.has(key):
                found.append(part.number(key))
    return list(dict.fromkeys(found))


def _ranks(config: ConfigPart, heads: int) -> list[int | None]:
    """Candidates for the rank: stated ones first; None: whatever the shapes give."""
    own = [key for key in config.values if key.endswith("head_dim") and not key.startswith("qk_")]
    found = [config.number(key) for key in (*_RANK, *own) if config.has(key)]
    return list(dict.fromkeys(found)) or [None]


def _dim(config: ConfigPart, shape: tuple[int, ...]) -> int:
    keys = ("hidden_size", "n_embd", "d_model", "dim", "embed_dim", "emb_dim")
    stated = [config.values.get(key) for key in keys]
    return next((value for value in stated if isinstance(value, int) and value in shape), shape[-1])


def _require_dim(source: TensorSource, config: ConfigPart) -> None:
    """Blocks may be narrower or wider than the residual stream, but some tensor has its dimension."""
    if isinstance(config.values.get("hidden_size"), int):
        dim = config.number("hidden_size")
        if not any(dim in info.shape for info in source.tensors.values()):
            name, info = next(iter(source.tensors.items()))
            raise SizeError(
                f"expected tensors with a side of {dim}, because the configuration says hidden_size {dim}, got none, "
                f"{name} has {list(info.shape)}"
            )


def _stated(part: ConfigPart, keys: tuple[str, ...]) -> bool:
    return part.has(*keys)


def _denied(config: ConfigPart, key: str, value: int) -> bool:
    stated = config.values.get(key)
    return isinstance(stated, int) and not isinstance(stated, bool) and stated != value


def _wrong(name: str, expected: list[int], says: str, got: list[int]) -> SizeError:
    return SizeError(
        f"{name}: expected shape {expected}, because the configuration says {says}, got {got}; "
        f"one of the two is wrong (see num_attention_heads, num_key_value_heads, head_dim)"
    )
