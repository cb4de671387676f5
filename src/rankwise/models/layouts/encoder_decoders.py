"""Encoder-decoder models: the encoder's self-attention, the decoder's, and the decoder's attention to the encoder.

In cross-attention, queries see the decoder's norm and keys the output of the encoder's last norm; both are folded.
"""

from __future__ import annotations

from dataclasses import dataclass

from rankwise.models.layouts.found import find_stack, layer_norm, rms_norm, separate
from rankwise.models.layouts.layer import LayerRef, MaskKind, NormRef
from rankwise.models.tensor_source import TensorSource
from rankwise.shapes.config import ConfigPart

T5_TYPES = ("t5", "mt5")


@dataclass(frozen=True)
class _Place:
    part: str
    layer: int
    attention: str
    """What the names of q, k, v start with."""
    norm: NormRef
    key_norm: NormRef
    mask: MaskKind


def whisper_layers(source: TensorSource, config: ConfigPart) -> list[LayerRef]:
    """Whisper; keys have no bias."""
    dim = config.number("d_model")
    encoder = find_stack(
        source, r"encoder\.layers\.{}self_attn\.q_proj\.weight", layers=config.number("encoder_layers")
    )
    decoder = find_stack(
        source, r"decoder\.layers\.{}self_attn\.q_proj\.weight", layers=config.number("decoder_layers")
    )
    last = layer_norm(source, f"{encoder[0].rsplit('layers.', 1)[0]}layer_norm", dim)
    places = []
    for layer, stem in enumerate(encoder):
        norm = layer_norm(source, f"{stem}self_attn_layer_norm", dim)
        places.append(_Place("encoder", layer, f"{stem}self_attn.", norm, norm, "full"))
    for layer, stem in enumerate(decoder):
        norm = layer_norm(source, f"{stem}self_attn_layer_norm", dim)
        cross = layer_norm(source, f"{stem}encoder_attn_layer_norm", dim)
        places.append(_Place("decoder", layer, f"{stem}self_attn.", norm, norm, "causal"))
        places.append(_Place("cross", layer, f"{stem}encoder_attn.", cross, last, "full"))
    found = []
    for place in places:
        heads = config.number("encoder_attention_heads" if place.part == "encoder" else "decoder_attention_heads")
        rank = dim // heads
        found.append(_layer(source, place, ("q_proj", "k_proj", "v_proj", "out_proj"), dim, heads, rank, rank**-0.5))
    return found


def t5_layers(source: TensorSource, config: ConfigPart) -> list[LayerRef]:
    """T5: scores are not scaled, a learned function of the distance is added to them."""
    dim, heads, rank = config.number("d_model"), config.number("num_heads"), config.number("d_kv")
    layers = config.number("num_layers")
    encoder = find_stack(source, r"encoder\.block\.{}layer\.0\.SelfAttention\.q\.weight", layers=layers)
    last = rms_norm(source, f"{encoder[0].rsplit('block.', 1)[0]}final_layer_norm.weight", dim)
    places = []
    for layer, stem in enumerate(encoder):
        norm = rms_norm(source, f"{stem}layer.0.layer_norm.weight", dim)
        places.append(_Place("encoder", layer, f"{stem}layer.0.SelfAttention.", norm, norm, "full"))
    if any("decoder.block." in name for name in source.tensors):  # an encoder alone is a T5 too
        count = config.number("num_decoder_layers", default=layers)
        decoder = find_stack(source, r"decoder\.block\.{}layer\.0\.SelfAttention\.q\.weight", layers=count)
        for layer, stem in enumerate(decoder):
            norm = rms_norm(source, f"{stem}layer.0.layer_norm.weight", dim)
            cross = rms_norm(source, f"{stem}layer.1.layer_norm.weight", dim)
            places.append(_Place("decoder", layer, f"{stem}layer.0.SelfAttention.", norm, norm, "causal"))
            places.append(_Place("cross", layer, f"{stem}layer.1.EncDecAttention.", cross, last, "full"))
    return [
        _layer(source, place, ("q", "k", "v", "o"), dim, heads, rank, 1.0,
               score_bias=None if place.part == "cross" else "relative")
        for place in places
    ]  # fmt: skip


def _layer(
    source: TensorSource, place: _Place, names: tuple[str, ...], dim: int, heads: int, rank: int, scale: float,
    score_bias: str | None = None,
) -> LayerRef:  # fmt: skip
    q, k, v, o = (f"{place.attention}{name}" for name in names)
    return LayerRef(
        part=place.part,
        layer=place.layer,
        **separate(source, (q, k, v, o), dim=dim, heads=heads, rank=rank),
        scale=scale,
        mask=place.mask,
        query_norm=place.norm,
        key_norm=place.key_norm,
        score_bias=score_bias,
    )
