"""What an interrupted reduction goes on from: a hidden folder beside its result, gone when the reduction is done.

Its name holds a hash of all that decides what is kept there: the model's files, the options, the texts with their
shapes, and the versions of the code.
"""

from __future__ import annotations

import hashlib
import shutil
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import torch
import transformers
from safetensors.torch import load_file, save_file

from rankwise import __version__
from rankwise.models import RunningModel
from rankwise.reduce.cost import ModelReading
from rankwise.reduce.options import ReductionOptions
from rankwise.reduce.pieces import MaskedPieces


@contextmanager
def work_folder(
    result: Path | None,
    running: RunningModel,
    options: ReductionOptions,
    texts: Mapping[str, MaskedPieces | None] | None,
) -> Iterator[Path | None]:
    """The folder beside ``result``; None without a result, without texts, and for a model in memory."""
    if result is None or texts is None or running.path is None:
        yield None
        return
    folder = result.with_name(f".{result.name}.work-{_decided_by(running.path.resolve(), options, texts)}")
    yield folder
    shutil.rmtree(folder, ignore_errors=True)


def kept_reading(file: Path) -> ModelReading | None:
    """What was measured before an interruption; None where nothing was."""
    if not file.is_file():
        return None
    kept = load_file(file)
    return ModelReading(kept.get("losses"), kept.get("embeddings"))


def keep_reading(file: Path, reading: ModelReading) -> None:
    """Write ``reading`` in one piece."""
    numbers = {"losses": reading.losses, "embeddings": reading.embeddings}
    file.parent.mkdir(parents=True, exist_ok=True)
    draft = file.with_suffix(".new")
    save_file({name: value.contiguous() for name, value in numbers.items() if value is not None}, draft)
    draft.replace(file)


def _decided_by(path: Path, options: ReductionOptions, texts: Mapping[str, MaskedPieces | None]) -> str:
    files = [path] if path.is_file() else sorted(file for file in path.rglob("*") if file.is_file())
    stated = [(str(file), file.stat().st_size, file.stat().st_mtime_ns) for file in files]
    told = hashlib.sha256(repr((stated, options)).encode())
    told.update(repr((__version__, torch.__version__, transformers.__version__)).encode())
    for name, pieces in texts.items():
        told.update(f"{name} {None if pieces is None else tuple(pieces.tokens.shape)}".encode())
        if pieces is not None:
            told.update(pieces.tokens.contiguous().numpy().tobytes() + pieces.mask.contiguous().numpy().tobytes())
    return told.hexdigest()[:12]
