"""Finding the attention layers of a model: one entry an architecture, keyed by the configuration's ``model_type``."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from rankwise.errors import InvalidInputError, nearest_name
from rankwise.models.layouts import decoders, encoder_decoders, encoders, fused, gguf, latent
from rankwise.models.layouts.found import text_part
from rankwise.models.layouts.layer import LayerRef, LayerWeights, Norm, NormRef, TensorSlice, load_layer
from rankwise.models.layouts.mapping import TensorNames, mapped_layers
from rankwise.models.layouts.rope import Rope
from rankwise.models.tensor_source import TensorSource, as_source
from rankwise.shapes.config import ConfigPart

if TYPE_CHECKING:
    from torch import nn

__all__ = [
    "LayerRef",
    "LayerWeights",
    "Norm",
    "NormRef",
    "Placement",
    "Rope",
    "TensorNames",
    "TensorSlice",
    "Unsupported",
    "load_layer",
    "place",
]  # fmt: skip

LAYOUTS: dict[str, Callable[[TensorSource, ConfigPart], list[LayerRef]]] = {
    **dict.fromkeys(decoders.MODEL_TYPES, decoders.llama_layers),
    **dict.fromkeys(latent.MODEL_TYPES, latent.latent_layers),
    "gpt2": fused.gpt2_layers,
    "gpt_neox": fused.gpt_neox_layers,
    "falcon": fused.falcon_layers,
    **dict.fromkeys(encoders.BERT_TYPES, encoders.bert_layers),
    "distilbert": encoders.distilbert_layers,
    "vit": encoders.vit_layers,
    "whisper": encoder_decoders.whisper_layers,
    **dict.fromkeys(encoder_decoders.T5_TYPES, encoder_decoders.t5_layers),
}

_ATTENTION = re.compile(r"(attn|attention|query|key|value|qkv|[qkvo]_proj)", re.IGNORECASE)
# part of an audited layer, but no projection of it
_KNOWN_BESIDE = re.compile(r"(relative_attention_bias|_scale|(^|\.)embeddings?\.|norm)", re.IGNORECASE)


@dataclass(frozen=True)
class Unsupported:
    """Something attention-like that is not audited, and why."""

    what: str
    reason: str


@dataclass(frozen=True)
class Placement:
    """Where the attention layers of a model lie; ``layers`` is never empty."""

    architecture: str
    layers: tuple[LayerRef, ...]
    unsupported: tuple[Unsupported, ...] = ()
    notes: tuple[str, ...] = ()


def place(model: TensorSource | nn.Module, names: TensorNames | None = None) -> Placement:
    """All attention layers of a model, from files or in memory, by its ``model_type`` or by the names a user gives.

    Numbers of the configuration are checked against the shapes of the tensors; where they disagree the error shows
    both. What looks like attention and is not covered is listed with its reason.

    - model: a source of tensors (``open_model``, ``ModuleSource``), or a module in memory
    - names: the tensors of a layout that is not known
    """
    source = as_source(model)
    if names is not None:
        architecture, layers = "mapping", mapped_layers(source, names)
    elif source.format == "gguf":
        architecture, layers = gguf.gguf_layers(source)
    else:
        architecture = str(source.config.get("model_type", ""))
        if architecture not in LAYOUTS:
            raise _unknown(source, architecture)
        try:
            layers = LAYOUTS[architecture](source, text_part(source.config))
        except InvalidInputError as error:
            message = str(error)
            raise InvalidInputError(
                message if str(source.origin) in message else f"{source.origin}: {message}"
            ) from None
    readable, unsupported = [], []
    for layer in layers:
        reasons = sorted({reason for name in layer.tensors if (reason := source.unreadable_because(name)) is not None})
        if reasons:
            unsupported.append(Unsupported(layer.name, "; ".join(reasons)))
        else:
            readable.append(layer)
    unsupported += _leftovers(source, layers)
    if not readable:
        missed = "; ".join(f"{item.what}: {item.reason}" for item in unsupported[:3])
        raise InvalidInputError(f"{source.origin}: expected attention layers that can be read, got none: {missed}")
    return Placement(architecture, tuple(readable), tuple(unsupported), _notes(source))


def _unknown(source: TensorSource, architecture: str) -> InvalidInputError:
    way_out = "name the tensors of any layout with --q, --k, --v, --o and --heads ({layer} stands for the number)"
    if not source.config:
        return InvalidInputError(f"{source.origin}: expected a configuration (--config FILE), got none; or {way_out}")
    known, hint = ", ".join(sorted(LAYOUTS)), nearest_name(architecture, list(LAYOUTS))
    return InvalidInputError(
        f"{source.origin}: model_type: expected one of {known}, got {architecture!r:.60}{hint}; or {way_out}"
    )


def _leftovers(source: TensorSource, layers: list[LayerRef]) -> list[Unsupported]:
    """Matrices with a name that speaks of attention and that no layer uses, one entry for all layers of a kind."""
    used = {name for layer in layers for name in layer.tensors}
    kinds: dict[str, int] = {}
    for name, info in source.tensors.items():
        if len(info.shape) == 2 and name not in used and _ATTENTION.search(name) and not _KNOWN_BESIDE.search(name):
            kind = re.sub(r"\d+", "N", name)
            kinds[kind] = kinds.get(kind, 0) + 1
    return [
        Unsupported(kind, f"{count} tensor{'s' * (count > 1)} of no layer that the layout knows")
        for kind, count in kinds.items()
    ]


def _notes(source: TensorSource) -> tuple[str, ...]:
    notes = []
    if source.config.get("auto_map"):
        notes.append("auto_map names code that comes with the model: it was not run, only weights were read")
    return tuple(notes)
