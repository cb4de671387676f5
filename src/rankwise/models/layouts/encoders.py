"""Encoders with learned positions: BERT and RoBERTa, DistilBERT (norm behind), ViT (norm in front)."""

from __future__ import annotations

from dataclasses import replace

from rankwise.models.layouts.found import find_stack, layer_norm, separate
from rankwise.models.layouts.layer import LayerRef, NormRef
from rankwise.models.tensor_source import TensorSource
from rankwise.shapes.config import ConfigPart, shape_of_config

BERT_TYPES = ("bert", "roberta", "xlm-roberta", "camembert", "electra")
_POST_NORM = (
    "the norm stands behind the attention: gain and shift of the norm before it are part of the input and not folded"
)
_RELATIVE = {"relative_key": "relative key", "relative_key_query": "relative key and query"}


def bert_layers(source: TensorSource, config: ConfigPart) -> list[LayerRef]:
    """BERT and its namesakes."""
    count = shape_of_config(config.values).layers
    stems = find_stack(source, r"encoder\.layer\.{}attention\.self\.query\.weight", layers=count)
    names = ("attention.self.query", "attention.self.key", "attention.self.value", "attention.output.dense")
    return [
        replace(_layer(source, config, layer, stem, names), score_bias=_relative(source, config, stem))
        for layer, stem in enumerate(stems)
    ]


def _relative(source: TensorSource, config: ConfigPart, stem: str) -> str | None:
    """What BERT of Shaw et al.'s positions adds to the scores: queries (and keys) times a vector of the distance."""
    stored = source.has(f"{stem}attention.self.distance_embedding.weight")
    stated = str(config.values.get("position_embedding_type"))
    return _RELATIVE.get(stated, "relative key" if stored else None)


def distilbert_layers(source: TensorSource, config: ConfigPart) -> list[LayerRef]:
    """DistilBERT."""
    count = shape_of_config(config.values).layers
    stems = find_stack(source, r"transformer\.layer\.{}attention\.q_lin\.weight", layers=count)
    names = ("attention.q_lin", "attention.k_lin", "attention.v_lin", "attention.out_lin")
    return [_layer(source, config, layer, stem, names) for layer, stem in enumerate(stems)]


def vit_layers(source: TensorSource, config: ConfigPart) -> list[LayerRef]:
    """ViT, under its first names and those of newer files."""
    shape = shape_of_config(config.values)
    first, newer = r"encoder\.layer\.{}attention\.attention\.query\.weight", r"layers\.{}attention\.q_proj\.weight"
    stems = find_stack(source, first, newer, layers=shape.layers)
    if source.has(f"{stems[0]}attention.q_proj.weight"):
        names = ("attention.q_proj", "attention.k_proj", "attention.v_proj", "attention.o_proj")
    else:
        names = ("attention.attention.query", "attention.attention.key", "attention.attention.value",
                 "attention.output.dense")  # fmt: skip
    return [
        _layer(source, config, layer, stem, names, layer_norm(source, f"{stem}layernorm_before", shape.dim))
        for layer, stem in enumerate(stems)
    ]


def _layer(
    source: TensorSource, config: ConfigPart, layer: int, stem: str, names: tuple[str, ...], norm: NormRef | None = None
) -> LayerRef:
    shape = shape_of_config(config.values)
    dim, heads, rank = shape.dim, shape.heads, shape.rank
    q, k, v, o = (f"{stem}{name}" for name in names)
    return LayerRef(
        part="encoder",
        layer=layer,
        **separate(source, (q, k, v, o), dim=dim, heads=heads, rank=rank),
        scale=rank**-0.5,
        mask="causal" if config.switch("is_decoder") else "full",
        query_norm=norm,
        key_norm=norm,
        notes=() if norm else (_POST_NORM,),
    )
