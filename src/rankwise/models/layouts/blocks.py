"""Attention blocks by the names of their tensors: which matrices make queries, keys, values and outputs.

Names differ between architectures in a few ways only: how the four projections are called, whether queries, keys and
values lie in one tensor, and how deep the block is nested. Nothing else is decided here.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass

from rankwise.models.tensor_source import TensorSource

_SEPARATE = (
    ("q_proj", "k_proj", "v_proj"), ("query", "key", "value"), ("query_proj", "key_proj", "value_proj"),
    ("q_lin", "k_lin", "v_lin"), ("q", "k", "v"), ("Wq", "Wk", "Wv"), ("wq", "wk", "wv"),
    ("linear_q", "linear_k", "linear_v"), ("to_q", "to_k", "to_v"), ("attn_q", "attn_k", "attn_v"),
    ("q_proj_weight", "k_proj_weight", "v_proj_weight"),
)  # fmt: skip
_FUSED = ("query_key_value", "qkv_proj", "Wqkv", "c_attn", "qkv", "in_proj", "in_proj_weight", "to_qkv")
_ATTENDS = re.compile(r"att", re.IGNORECASE)
_OUTPUTS = ("o_proj", "out_proj", "dense", "o", "wo", "Wo", "proj", "projection", "projection_layer", "out_lin",
            "c_proj", "linear_out", "to_out.0", "to_out", "attn_output")  # fmt: skip
_NOT_ATTENTION = re.compile(r"(^|\.)(linear_attn|mamba|lightning)(\.|$)")
_CROSS = re.compile(r"(encoder_attn|EncDecAttention|cross_?att)", re.IGNORECASE)
_TOWERS = (
    ("vision", re.compile(r"(^|\.)(vision|visual|image)(_[a-z]+)?(\.|$)")),
    ("audio", re.compile(r"(^|\.)(audio|speech)(_[a-z]+)?(\.|$)")),
    ("qformer", re.compile(r"(^|\.)qformer(\.|$)")),
    ("text", re.compile(r"(^|\.)text(_model|_encoder)(\.|$)")),
    ("multimodal", re.compile(r"(^|\.)multimodal(_[a-z]+)?(\.|$)")),
)


@dataclass(frozen=True)
class AttentionBlock:
    """One attention block: names of its tensors, and where in the model it stands."""

    path: str
    """What the names of its projections have in common: ``"model.layers.3.self_attn."``."""
    layer: str
    """The layer that holds it: ``"model.layers.3."``; the path itself where nothing is numbered."""
    q: str
    k: str
    v: str | None
    """The same as ``q`` and ``k`` where one tensor holds all three; None, as is ``o``, where it was not found."""
    o: str | None
    tower: str | None
    """``"vision"``, ``"audio"``, ...: the part of a model of several parts; None elsewhere."""
    cross: bool
    """Whether keys come from another stack."""

    @property
    def fused(self) -> bool:
        return self.q == self.k

    @property
    def side(self) -> str | None:
        """``"encoder"`` or ``"decoder"`` where the path says it; the last word counts."""
        said = re.findall(r"(?:^|\.)(encoder|decoder)(?=\.)", self.layer)
        return said[-1] if said else None

    @property
    def numbers(self) -> tuple[int, ...]:
        """Every number of the layer's path."""
        return tuple(int(number) for number in re.findall(r"(?:^|\.)(\d+)(?=\.)", self.layer))

    @property
    def stack(self) -> str:
        """The layer's path without its last number: equal in all layers of a stack."""
        return re.sub(r"\d+\.$", "", re.sub(r"(\d+)\.(?=.*\d+\.$)", "N.", self.layer))


def find_blocks(source: TensorSource) -> list[AttentionBlock]:
    """Every attention block: towers last, encoders before decoders, layers by number, cross-attention after self."""
    names = list(source.tensors)
    known = set(names)
    blocks: dict[tuple[str, str], AttentionBlock] = {}
    for name in names:
        for path, q, k, v in _projections(name, known):
            if _NOT_ATTENTION.search(path) or len(source.info(q).shape) != 2 or (path, q) in blocks:
                continue
            o = _output(path, known - {q, k, v})
            layer = _layer_path(path)
            blocks[path, q] = AttentionBlock(path, layer, q, k, v, o, tower_of(path), bool(_CROSS.search(path)))

    def order(block: AttentionBlock) -> tuple[bool, bool, int, tuple[int, ...], bool]:
        return block.tower is not None, block.side == "decoder", _first_place(names, block), block.numbers, block.cross

    return sorted(blocks.values(), key=order)


def inner_names(source: TensorSource, block: AttentionBlock) -> frozenset[str]:
    """The names of all tensors of a block, behind its path."""
    return frozenset(name[len(block.path) :] for name in source.tensors if name.startswith(block.path))


def tower_of(name: str) -> str | None:
    """``"vision"``, ``"audio"``, ...: the part of a model of several parts that a tensor belongs to."""
    return next((word for word, pattern in _TOWERS if pattern.search(name)), None)


def _first_place(names: list[str], block: AttentionBlock) -> int:
    """Where the block's stack begins: layers are ordered by number, stacks as the file has them."""
    stack = re.sub(r"\d+", "N", block.layer)
    return next(place for place, name in enumerate(names) if re.sub(r"\d+", "N", name).startswith(stack))


def _projections(name: str, known: set[str]) -> Iterable[tuple[str, str, str, str | None]]:
    """``(path, q, k, v)`` if the tensor is the query of a block, or holds all three."""
    stem = name.removesuffix(".weight")
    ending = name[len(stem) :]
    path, _, last = stem.rpartition(".")
    path += "." if path else ""
    for q, k, v in _SEPARATE:
        if last == q and f"{path}{k}{ending}" in known:
            value = f"{path}{v}{ending}"
            yield path, name, f"{path}{k}{ending}", value if value in known else None
    if last in _FUSED and _ATTENDS.search(name) and f"{path}output_gate.weight" not in known:
        yield path, name, name, name


def _output(path: str, known: set[str]) -> str | None:
    above = re.sub(r"[^.]+\.$", "", path)
    for start in (path, f"{path}output.", f"{above}output."):
        for word in _OUTPUTS:
            if f"{start}{word}.weight" in known:
                return f"{start}{word}.weight"
    return None


def _layer_path(path: str) -> str:
    match = re.match(r"(.*(?:^|\.)\d+\.)", path)
    return match[1] if match else path
