"""From blocks to layers: guessed readings, replaced by proved ones where a tiny twin of the model can be run."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from rankwise.errors import InvalidInputError
from rankwise.models.layouts.blocks import AttentionBlock, inner_names
from rankwise.models.layouts.layer import LayerRef
from rankwise.models.layouts.reading import Reading
from rankwise.models.layouts.refusal import WAY_OUT, ready_command
from rankwise.models.layouts.structure import PlacedBlock, placed_blocks, read_layers
from rankwise.models.layouts.twin_config import completed_config
from rankwise.models.tensor_source import TensorSource
from rankwise.shapes import ConfigPart

if TYPE_CHECKING:
    from rankwise.models.layouts.proof import Proved

_LAYERS_OF = {
    None: ("num_hidden_layers", "n_layer", "n_layers", "num_layers"),
    "encoder": ("encoder_layers", "num_encoder_layers", "encoder_num_hidden_layers"),
    "decoder": ("decoder_layers", "num_decoder_layers", "decoder_num_hidden_layers"),
}


@dataclass(frozen=True)
class FoundLayers:
    """The layers of a model by structure."""

    layers: list[LayerRef]
    refused: dict[str, str]
    """Blocks that have no layer, and why."""
    proof: str
    """``"verified"``, ``"by names alone"``, or which layers are which."""


def layers_by_structure(source: TensorSource, *, prove: bool) -> FoundLayers:
    """Every attention layer, with the reading that the model's own scores prove, else the most likely one."""
    config = (completed_config(source.config) if prove else None) or source.config
    part = ConfigPart(config).with_defaults_of(config.get("model_type"))
    placed = placed_blocks(source, part)
    missing = _require_all_layers(source, placed)
    readings = [one.guess(source) for one in placed]
    verified = [False] * len(placed)
    if prove and placed:
        readings, verified = _proved(source, placed, readings)
    if placed and not any(one.knows_heads for one in placed):
        raise InvalidInputError(
            f"expected a configuration with the number of heads (--config FILE), got none; or {ready_command(source)}"
            f"{WAY_OUT}"
        )
    layers, refused = read_layers(source, placed, readings)
    skipped = dict.fromkeys(missing, "a layer without attention")
    return FoundLayers(layers, refused | skipped, _said(placed, verified))


def _proved(
    source: TensorSource, placed: Sequence[PlacedBlock], guesses: list[Reading]
) -> tuple[list[Reading], list[bool]]:
    """Readings of the twin's blocks of the same path, where names and shapes are of the same kind."""
    from rankwise.models.layouts.proof import proved_readings

    proved = proved_readings(source.config)
    if proved is None:
        return guesses, [False] * len(placed)
    readings, verified = [], []
    for place, (one, first) in enumerate(zip(placed, guesses, strict=True)):
        block = one.block
        alike = (found for found in proved if _ends_alike(block.path, found.block.path))
        twin = next((found for found in alike if found.block.tower == block.tower), None)
        if twin is None and len(proved) == len(placed):  # the same blocks under older names
            twin = proved[place]
        elif twin is not None and not inner_names(source, block) <= twin.tensors:
            twin = None
        if twin is None or not _same_kind(twin, block, first):
            readings.append(first)
            verified.append(False)
            continue
        norm = twin.reading.norm
        if norm is not None and not source.has(f"{block.layer}{norm}.weight"):
            norm = first.norm
        keys = twin.reading.key_norm
        if keys is not None:
            stored = (name for name in source.tensors if _ends_alike(name, f"{keys}.weight"))
            keys = next((name.removesuffix(".weight") for name in stored), first.key_norm)
        reading = replace(twin.reading, norm=norm, key_norm=keys)
        readings.append(reading)
        verified.append(twin.verified)
        if block.fused and not twin.verified and twin.ran:
            raise InvalidInputError(
                f"{block.q}: expected queries, keys and values in turn or per head, got an order that gives other "
                f"scores than the model's own; name the tensors with --q, --k, --v, --o, --heads and --order"
            )
    return readings, verified


def _same_kind(twin: Proved, block: AttentionBlock, guess: Reading) -> bool:
    """Whether the twin's block is laid out as this one: what it proves then holds for both."""
    aside = {"norm": None, "key_norm": None}
    return twin.block.fused == block.fused and replace(twin.guess, **aside) == replace(guess, **aside)  # type: ignore[arg-type]


def _ends_alike(one: str, other: str) -> bool:
    """Whether the names are equal but for a prefix of whole words."""
    return one == other or one.endswith(f".{other}") or other.endswith(f".{one}")


def _said(placed: Sequence[PlacedBlock], verified: Sequence[bool]) -> str:
    if placed and all(verified):
        return "verified"
    if not any(verified):
        return "by names alone"
    left = Counter(re.sub(r"\d+", "N", one.block.path) for one, sure in zip(placed, verified, strict=True) if not sure)
    return f"{sum(verified)} of {len(verified)} blocks verified, by names alone: {', '.join(left)}"


def _require_all_layers(source: TensorSource, placed: Sequence[PlacedBlock]) -> list[str]:
    """Layers of a stack without attention; an error where the file lacks layers that the configuration promises."""
    without = []
    stacks: dict[str, list[PlacedBlock]] = {}
    for one in placed:
        if not one.block.cross and one.block.tower is None and len(one.block.numbers) == 1:
            stacks.setdefault(one.block.stack, []).append(one)
    sides = Counter(members[0].block.side for members in stacks.values())
    for stack, members in stacks.items():
        side = members[0].block.side
        if sides[side] > 1:  # which of them the configuration speaks of is not known
            continue
        keys = (*_LAYERS_OF.get(side, ()), *_LAYERS_OF[None])
        config = members[0].config
        if not config.has(*keys):
            continue
        promised, numbers = config.number(*keys), {one.number for one in members}
        stored = {int(match[1]) for name in source.tensors if (match := re.match(rf"{re.escape(stack)}(\d+)\.", name))}
        if not stored >= set(range(promised)) or max(numbers) >= promised:
            raise InvalidInputError(
                f"expected the {promised} layers of the configuration under {stack}*, got {len(stored)} "
                f"({min(stored)} to {max(stored)})"
            )
        without += [f"{stack}{number}" for number in sorted(set(range(promised)) - numbers)]
    return without
