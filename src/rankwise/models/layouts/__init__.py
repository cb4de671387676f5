"""Finding the attention layers of a model: by structure, proved on the model's own scores where that is possible."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from rankwise.errors import InvalidInputError
from rankwise.models.layouts import gguf, latent
from rankwise.models.layouts.found import text_part
from rankwise.models.layouts.layer import LayerRef, LayerWeights, Norm, NormRef, TensorSlice, load_layer
from rankwise.models.layouts.mapping import TensorNames, mapped_layers
from rankwise.models.layouts.placing import layers_by_structure
from rankwise.models.layouts.refusal import nothing_found, require_plain
from rankwise.models.layouts.rope import Rope
from rankwise.models.tensor_source import TensorSource, as_source

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

_ATTENTION = re.compile(r"(attn|attention|query|key|value|qkv|[qkvo]_proj)", re.IGNORECASE)
# part of an audited layer, but no projection of it
_KNOWN_BESIDE = re.compile(r"(relative_attention_bias|_scale|(^|\.)embeddings?\.|norm|sinks)", re.IGNORECASE)


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
    proof: str = "by names alone"
    """``"verified"``: a tiny model of the architecture computes the scores that its weights predict when they are read
    this way; ``"by names alone"``: nothing was run; or which layers are which."""


def place(model: TensorSource | nn.Module, names: TensorNames | None = None, *, prove: bool = True) -> Placement:
    """All attention layers of a model, from files or in memory, by structure or by the names a user gives.

    Numbers of the configuration are checked against the shapes of the tensors; where they disagree the error shows
    both. What looks like attention and is not covered is listed with its reason.

    - model: a source of tensors (``open_model``, ``ModuleSource``), or a module in memory
    - names: the tensors of a layout that is not known
    - prove: compare predicted scores with those of a tiny model of the architecture, where ``transformers`` is there
    """
    source = as_source(model)
    proof, refused = "by names alone", dict[str, str]()
    if names is not None:
        architecture, layers = "mapping", mapped_layers(source, names)
        proof = "by the given names"
    elif source.format == "gguf":
        architecture, layers = gguf.gguf_layers(source)
    else:
        architecture = str(source.config.get("model_type") or "unknown")
        require_plain(source)
        try:
            if latent.has_latent(source):
                layers = latent.latent_layers(source, text_part(source.config))
            else:
                found = layers_by_structure(source, prove=prove)
                layers, refused, proof = found.layers, found.refused, found.proof
        except InvalidInputError as error:
            message = str(error)
            told = message if source.origin in message else f"{source.origin}: {message}"
            raise InvalidInputError(told) from None
        if not layers:
            raise nothing_found(source)
    readable, unsupported = [], []
    for layer in layers:
        reasons = sorted({reason for name in layer.tensors if (reason := source.unreadable_because(name)) is not None})
        if reasons:
            unsupported.append(Unsupported(layer.name, "; ".join(reasons)))
        else:
            readable.append(layer)
    unsupported += [Unsupported(what, reason) for what, reason in refused.items()]
    unsupported += [item for item in _leftovers(source, layers) if item.what not in refused]
    if not readable:
        missed = "; ".join(f"{item.what}: {item.reason}" for item in unsupported[:3])
        raise InvalidInputError(f"{source.origin}: expected attention layers that can be read, got none: {missed}")
    return Placement(architecture, tuple(readable), tuple(unsupported), _notes(source), proof)


def _leftovers(source: TensorSource, layers: list[LayerRef]) -> list[Unsupported]:
    """Matrices with a name that speaks of attention and that no layer uses, one entry for all layers of a kind."""
    used = {name for layer in layers for name in layer.tensors}
    kinds: dict[str, int] = {}
    for name, info in source.tensors.items():
        if len(info.shape) == 2 and name not in used and _ATTENTION.search(name) and not _KNOWN_BESIDE.search(name):
            kind = re.sub(r"\d+", "N", name)
            kinds[kind] = kinds.get(kind, 0) + 1
    return [
        Unsupported(kind, f"{count} tensor{'s' * (count > 1)} of no layer that was found")
        for kind, count in kinds.items()
    ]


def _notes(source: TensorSource) -> tuple[str, ...]:
    notes = []
    if source.config.get("auto_map"):
        notes.append("auto_map names code that comes with the model: it was not run, only weights were read")
    return tuple(notes)
