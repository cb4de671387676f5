"""The attention layers of any model by structure: blocks by names, sizes by shapes, the rest by a reading of each."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace

from rankwise.errors import InvalidInputError
from rankwise.models.layouts.blocks import AttentionBlock, find_blocks
from rankwise.models.layouts.layer import LayerRef
from rankwise.models.layouts.reading import Reading, guess, layer_ref
from rankwise.models.layouts.sizes import config_of, head_numbers
from rankwise.models.tensor_source import TensorSource
from rankwise.shapes import ConfigPart


@dataclass(frozen=True)
class PlacedBlock:
    """A block with its part of the configuration and its number within its stack."""

    block: AttentionBlock
    config: ConfigPart
    family: str
    number: int

    @property
    def knows_heads(self) -> bool:
        """Whether the configuration says how many heads there are."""
        return bool(head_numbers(self.block, self.config))

    def guess(self, source: TensorSource) -> Reading:
        """How its tensors are most likely to be read."""
        return guess(source, self.block, self.config, self.family)

    def ref(self, source: TensorSource, reading: Reading) -> LayerRef:
        """The layer under a reading."""
        return layer_ref(source, self.block, self.config, self.family, self.number, reading)


def placed_blocks(source: TensorSource, config: ConfigPart) -> list[PlacedBlock]:
    """Every attention block of a model."""
    blocks = find_blocks(source)
    placed = []
    for block in blocks:
        part = config_of(block, config)
        family = str(part.values.get("model_type") or config.values.get("model_type") or "")
        placed.append(PlacedBlock(block, part, family, _number(block, blocks)))
    return placed


def read_layers(
    source: TensorSource, placed: Sequence[PlacedBlock], readings: Sequence[Reading]
) -> tuple[list[LayerRef], dict[str, str]]:
    """The layers under their readings, and why other blocks have none: those that the shapes contradict.

    Where no block of a model without towers agrees with the configuration, the first contradiction is raised.
    """
    found: list[LayerRef] = []
    refused: dict[str, str] = {}
    errors = []
    for one, reading in zip(placed, readings, strict=True):
        try:
            found.append(one.ref(source, reading))
        except InvalidInputError as error:
            errors.append(error)
            refused.setdefault(re.sub(r"\d+", "N", one.block.q), str(error))
    found = _told_apart(found)
    if errors and not any(ref.part in ("encoder", "decoder", "text") for ref in found):
        raise errors[0]
    return found, refused


def _told_apart(layers: list[LayerRef]) -> list[LayerRef]:
    """Layers of a second stack of the same part take the word of their path that tells the stacks apart."""
    stacks: dict[str, list[str]] = {}
    told = []
    for ref in layers:
        words = [word for word in re.sub(r"\d+", "N", ref.q.tensor).split(".") if word]
        known = stacks.setdefault(ref.part, words)
        other = next((word for word, first in zip(words, known, strict=False) if word != first), None)
        told.append(ref if other is None or other == "N" else replace(ref, part=other))
    return told


def _number(block: AttentionBlock, blocks: Sequence[AttentionBlock]) -> int:
    """The first number of the path if it tells the layers of the stack apart, else the place within the stack."""
    kind = re.sub(r"\d+", "N", block.path)
    stack = [other for other in blocks if re.sub(r"\d+", "N", other.path) == kind]
    firsts = [other.numbers[:1] for other in stack]
    if block.numbers and len(set(firsts)) == len(stack):
        return block.numbers[0]
    return stack.index(block)
