"""What to say about a model in which no attention was found: what is there, and the command that maps it by hand."""

from __future__ import annotations

import re
from collections import Counter

from rankwise.errors import InvalidInputError
from rankwise.models.layouts.blocks import find_blocks
from rankwise.models.tensor_source import TensorSource

_LIKE_ATTENTION = re.compile(r"(att|query|key|value|qkv|(^|[._])[qkv]([._]|$))", re.IGNORECASE)
_ORIGINAL = "audit the model they were made from"
WAY_OUT = "name the tensors of any layout with --q, --k, --v, --o and --heads ({layer} stands for the number)"


def require_plain(source: TensorSource) -> None:
    """Complain about tensors that are codes or adapters, by what they are."""
    names = list(source.tensors)
    if any(name.endswith(".qweight") for name in names):
        raise _error(source, f"weights packed by AWQ or GPTQ (*.qweight) are not read, {_ORIGINAL}")
    if any(".quant_state.bitsandbytes__" in name for name in names):
        raise _error(source, f"4-bit codes of bitsandbytes are not read, {_ORIGINAL}")
    if any("lora_A" in name for name in names) and not any(name.endswith("q_proj.weight") for name in names):
        raise _error(source, "these are LoRA matrices, which say nothing without their base model: merge them first "
                             "(peft: merge_and_unload, save_pretrained)")  # fmt: skip


def nothing_found(source: TensorSource) -> InvalidInputError:
    """The error for a model without a block that structure knows."""
    return _error(source, f"{ready_command(source)}{WAY_OUT}")


def ready_command(source: TensorSource) -> str:
    """What may be attention, and a command that names it; empty where there is nothing of the kind."""
    blocks = find_blocks(source)
    if blocks:
        names = {letter: getattr(blocks[0], letter) for letter in "qkvo"}
        found = [_pattern(name) for name in dict.fromkeys(names.values()) if name]
        options = " ".join(f"--{letter} '{_pattern(name)}'" for letter, name in names.items() if name)
        order = " --order turn (or head)" if blocks[0].fused else ""
        command = f"rankwise audit {source.origin} {options} --heads N{order}"
        return f"found {', '.join(found)}; if these are it: {command}; or "
    kinds = Counter(
        _pattern(name) for name, info in source.tensors.items() if len(info.shape) == 2 and _LIKE_ATTENTION.search(name)
    )
    return f"found {', '.join(list(kinds)[:8])}; " if kinds else ""


def _pattern(name: str) -> str:
    """The name with its first number replaced by ``{layer}``."""
    return re.sub(r"(^|\.)\d+(?=\.)", r"\1{layer}", name, count=1)


def _error(source: TensorSource, way_out: str) -> InvalidInputError:
    example = "layers.0.self_attn.q_proj.weight"
    return InvalidInputError(
        f"{source.origin}: expected tensors named like {example}, got none in {len(source.tensors)} tensors; {way_out}"
    )
