"""What an audit says about the layers that a generated token passes: their shape, and what each of them sees.

Encoder-decoder models are counted by the self-attention of their decoder, as ``shapes.config`` places them: keys and
values of the encoder and of cross-attention do not grow with what is generated.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from rankwise.audit import AuditReport, LayerReport
from rankwise.errors import InvalidInputError
from rankwise.shapes import ModelShape

_SHAPE = ("dim", "heads", "kv_heads", "rank", "value_rank", "latent")


def counted_layers(report: AuditReport) -> tuple[LayerReport, ...]:
    """The decoder's self-attention, all layers of a model without a decoder."""
    if not report.layers:
        raise InvalidInputError(f"{report.model}: expected an audit with attention layers, got none")
    return tuple(layer for layer in report.layers if layer.part == "decoder") or report.layers


def audited_shape(report: AuditReport) -> ModelShape:
    """The shape of the first counted layer; its note says what that leaves out."""
    layers = counted_layers(report)
    first = layers[0]
    others = [layer for layer in layers if any(getattr(layer, size) != getattr(first, size) for size in _SHAPE)]
    notes = []
    if len(layers) < len(report.layers):
        notes.append(
            f"only the decoder's self-attention is counted, {len(layers)} of {len(report.layers)} attention layers"
        )
    if others:
        notes.append(f"{len(others)} of {len(layers)} layers have another shape; the one shown is that of {first.name}")
    return ModelShape(
        name=report.model,
        dim=first.dim,
        layers=len(layers),
        cached_layers=None if others else len(layers),
        heads=first.heads,
        kv_heads=first.kv_heads,
        rank=first.rank,
        value_rank=first.value_rank,
        latent=first.latent,
        note="; ".join(notes) or None,
    )


def widest_mask(layers: Sequence[LayerReport]) -> tuple[str, int | None]:
    """Mask and window of the layer that sees most."""
    widest = max(layers, key=lambda one: (one.mask == "full", math.inf if one.window is None else one.window))
    return widest.mask, widest.window


def differing_windows(layers: Sequence[LayerReport]) -> tuple[int | None, ...]:
    """Every layer's window, None for one without; empty where all layers see the same."""
    seen = {(layer.mask, layer.window) for layer in layers}
    return tuple(layer.window for layer in layers) if len(seen) > 1 else ()
