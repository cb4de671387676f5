"""Writing a cut model into a new directory, whole or not at all; the original is only read.

``DIRECTORY`` itself is the model in its old shape and format (config, tokenizer and all other small files copied,
tensors that did not change copied byte for byte), for measuring anywhere. ``DIRECTORY/factored`` is the small one, see
``factored_model``. Tensors keep the type they are stored in; costs were measured before that last rounding. Everything
is written beside the target under another name, brought to the disk and renamed.
"""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import torch
from jaxtyping import Float
from safetensors import safe_open
from safetensors.torch import save_file

from rankwise.errors import InvalidInputError, StorageError
from rankwise.models.files.source import ModelSource
from rankwise.reduce.cutting import changed_tensors
from rankwise.reduce.factored_model import (
    PLAN,
    WEIGHTS,
    factored_layer,
    factored_plan,
    factored_tensors,
    why_not_factored,
)
from rankwise.reduce.reduced_layer import ReducedLayer
from rankwise.whole_file import hold_draft, new_draft, remove_dead_drafts

REPORT = "reduction.json"
_COPIED = (".json", ".txt", ".model", ".md", ".jinja")
_LARGEST_COPY = 64 * 2**20
_DTYPES = {"F64": torch.float64, "F32": torch.float32, "F16": torch.float16, "BF16": torch.bfloat16}


def require_new(directory: Path) -> None:
    """Refuse a target that exists, before anything is computed."""
    if directory.exists() or directory.is_symlink():
        raise InvalidInputError(
            f"{directory}: expected a directory that does not exist yet, got one that does; nothing is overwritten: "
            f"choose another --out or move it away"
        )


def write_reduction(
    directory: Path,
    source: ModelSource,
    layers: Sequence[ReducedLayer],
    *,
    report: Mapping[str, Any],
    module_paths: Sequence[str | None],
) -> dict[str, str]:
    """Both forms and the report; returns what lies where, relative to ``directory``."""
    if source.format != "safetensors":
        raise InvalidInputError(f"{source.path}: expected safetensors to write back, got {source.format}")
    require_new(directory)
    with _whole_or_nothing(directory) as draft:
        _copy_small_files(source.path if source.path.is_dir() else source.path.parent, draft)
        changed = changed_tensors(source, layers)
        for file in sorted({source.file_of(name) for name in source.tensors}):
            _write_shard(file, draft / file.name, changed)
        written = {"same_shape": ".", "report": REPORT}
        paths = dict(zip(layers, module_paths, strict=True))
        factorable = [layer for layer in layers if why_not_factored(layer.ref) is None]
        if factorable:
            small = draft / "factored"
            small.mkdir()
            modules = [factored_layer(layer) for layer in factorable]
            plan = factored_plan(factorable, modules, [paths[layer] for layer in factorable])
            plan["not_factored"] = [
                {"name": layer.ref.name, "reason": reason}
                for layer in layers
                if (reason := why_not_factored(layer.ref)) is not None
            ]
            dtypes = [_DTYPES.get(source.info(layer.ref.q.tensor).dtype, torch.float32) for layer in factorable]
            save_file(factored_tensors(modules, dtypes), small / WEIGHTS, {"format": "pt"})
            (small / PLAN).write_text(json.dumps(plan, indent=2, allow_nan=False) + "\n", encoding="utf-8")
            written["factored"] = "factored"
        text = json.dumps({**report, "written": written}, indent=2, allow_nan=False) + "\n"
        (draft / REPORT).write_text(text, encoding="utf-8")
    return written


def _write_shard(original: Path, target: Path, changed: Mapping[str, Float[np.ndarray, "..."]]) -> None:
    with safe_open(original, framework="pt") as file:
        metadata = file.metadata() or {"format": "pt"}
        tensors = {}
        for name in file.keys():  # noqa: SIM118 (not a dictionary)
            tensor = file.get_tensor(name)
            tensors[name] = torch.from_numpy(changed[name]).to(tensor.dtype) if name in changed else tensor
        save_file(tensors, target, metadata)


def _copy_small_files(folder: Path, draft: Path) -> None:
    """Configuration, tokenizer and pooling; nothing that could be code or pickled, or that lies elsewhere."""
    for file in sorted([*folder.glob("*"), *folder.glob("*/*")]):
        place = file.relative_to(folder)
        if not file.is_file() or file.suffix not in _COPIED or not _belongs(file, folder):
            continue
        if file.stat().st_size > _LARGEST_COPY:
            continue
        (draft / place).parent.mkdir(exist_ok=True)
        shutil.copyfile(file, draft / place)
    if not (draft / "config.json").exists():
        raise InvalidInputError(
            f"{folder}: expected a config.json to copy, a file there or a link into the hub's cache, got none"
        )


def _belongs(file: Path, folder: Path) -> bool:
    """Whether links lead no further than the model's folder, or the blobs beside the hub's snapshots of it."""
    home, target = folder.resolve(), file.resolve()
    return target.is_relative_to(home) or (
        home.parent.name == "snapshots" and target.parent == home.parents[1] / "blobs"
    )


@contextmanager
def _whole_or_nothing(directory: Path) -> Iterator[Path]:
    """A draft beside ``directory`` that takes its name when all is written, or goes away."""
    try:
        directory.parent.mkdir(parents=True, exist_ok=True)
        remove_dead_drafts(directory.parent)
        draft = new_draft(directory.parent)
        draft.mkdir()  # with the rights that the umask leaves
        mark = os.open(draft, os.O_RDONLY)
        hold_draft(mark)
    except OSError as error:
        raise StorageError(f"{directory}: expected a place that can be written, got: {error.strerror}") from None
    try:
        yield draft
        rights = draft.stat().st_mode & 0o777
        for file in [*draft.rglob("*"), draft]:
            file.chmod(rights if file.is_dir() else rights & 0o666)  # some writers make private files
            handle = os.open(file, os.O_RDONLY)
            try:
                os.fsync(handle)
            finally:
                os.close(handle)
        require_new(directory)
        draft.rename(directory)
    except OSError as error:
        raise StorageError(f"{directory}: could not be written: {error.strerror or error}; nothing was left") from None
    finally:
        os.close(mark)
        shutil.rmtree(draft, ignore_errors=True)
