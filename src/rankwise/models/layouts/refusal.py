"""What to say about a model in which no attention was found: what is there, and the command that maps it by hand."""

from __future__ import annotations

import re

from rankwise.errors import InvalidInputError, nearest_name
from rankwise.models.layouts.blocks import AttentionBlock, find_blocks
from rankwise.models.layouts.reading import norm_before
from rankwise.models.tensor_source import TensorSource

_LIKE_ATTENTION = re.compile(r"(att|query|key|value|qkv|(^|[._])[qkv]([._]|$))", re.IGNORECASE)
_LISTED = 8
_ORIGINAL = "audit the model they were made from"
WAY_OUT = "name the tensors of any layout with --q, --k, --v, --o and --heads ({layer} stands for the number)"


def require_plain(source: TensorSource) -> None:
    """Complain about tensors that are codes or adapters, by what they are."""
    names = list(source.tensors)
    codes = "expected weights that can be read as numbers, got"
    if any(name.endswith(".qweight") for name in names):
        raise InvalidInputError(f"{source.origin}: {codes} those packed by AWQ or GPTQ (*.qweight); {_ORIGINAL}")
    if any(".quant_state.bitsandbytes__" in name for name in names):
        raise InvalidInputError(f"{source.origin}: {codes} 4-bit codes of bitsandbytes; {_ORIGINAL}")
    if any("lora_A" in name for name in names) and not any(name.endswith("q_proj.weight") for name in names):
        raise InvalidInputError(
            f"{source.origin}: expected the weights of a model, got LoRA matrices, which say nothing without their "
            f"base model; merge them first (peft: merge_and_unload, save_pretrained; of the tokenizer too)"
        )


def nothing_found(source: TensorSource) -> InvalidInputError:
    """The error for a model without a block that structure knows."""
    example = "layers.0.self_attn.q_proj.weight"
    return InvalidInputError(
        f"{source.origin}: expected tensors named like {example}, got none in {len(source.tensors)} tensors; "
        f"{ready_command(source)}{WAY_OUT}"
    )


def ready_command(source: TensorSource) -> str:
    """What may be attention, and a command that names it; else the matrices that there are."""
    blocks = find_blocks(source)
    if blocks:
        block = blocks[0]
        names = {letter: getattr(block, letter) for letter in "qkvo"}
        found = [_pattern(name) for name in dict.fromkeys(names.values()) if name]
        options = " ".join(f"--{letter} '{_pattern(name)}'" for letter, name in names.items() if name)
        command = f"rankwise audit {source.origin} {options} --heads N{_more_options(source, block)}"
        return f"found {', '.join(found)}; if these are it, with N query heads: {command}; or "
    matrices = {name: info for name, info in source.tensors.items() if len(info.shape) == 2}
    likely = [name for name in matrices if _LIKE_ATTENTION.search(name)] or list(matrices)
    kinds = {_pattern(name): " x ".join(map(str, matrices[name].shape)) for name in likely}
    listed = ", ".join(f"{kind} ({shape})" for kind, shape in list(kinds.items())[:_LISTED])
    return f"found {listed}; " if listed else ""


def _more_options(source: TensorSource, block: AttentionBlock) -> str:
    """What else the shapes and names of a block say."""
    options = " --order turn (or head)" if block.fused else ""
    rows, key_rows = (source.info(name).shape[0] for name in (block.q, block.k))
    if not block.fused and rows != key_rows and rows % key_rows == 0:
        options += f" --kv-heads N/{rows // key_rows}"
    norm = norm_before(source, block)
    return options if norm is None else f"{options} --norm '{_pattern(f'{block.layer}{norm}.weight')}'"


def meant(source: TensorSource, part: str, given: str) -> str:
    """``" (did you mean ...?)"``: the tensor that does what ``part`` (q, k, v, o) does, else the one spelled most like
    ``given``."""
    found = [getattr(block, part) for block in find_blocks(source) if getattr(block, part)]
    return f" (did you mean {_pattern(found[0])!r}?)" if found else nearest_name(given, list(source.tensors))


def _pattern(name: str) -> str:
    """The name with its first number replaced by ``{layer}``."""
    return re.sub(r"(^|\.)\d+(?=\.)", r"\1{layer}", name, count=1)
