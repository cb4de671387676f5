"""The commands that advice names: only such as run as they are printed."""

from __future__ import annotations

import shlex
from dataclasses import dataclass
from pathlib import Path

_LAPTOP_PARAMETERS = 32768  # of the small models of choose: 4 d^2 in each of 2 layers of width 64


@dataclass(frozen=True, kw_only=True)
class ModelFiles:
    """Where the model and its texts lie, as the user named them."""

    model: Path
    texts: tuple[Path, ...]


def reduce_command(files: ModelFiles | None, keep: float, *, out: str | None = None) -> str | None:
    """Cuts the model and measures it; None where model or texts are not known."""
    if files is None or not files.texts:
        return None
    written = [] if out is None else ["--out", out]
    return _line("reduce", str(files.model), "--keep", f"{keep:.3g}", "--text", *map(str, files.texts), *written)


def need_command(files: ModelFiles | None) -> str | None:
    """Measures the need of what the model's blocks read; None where model or texts are not known."""
    if files is None or not files.texts:
        return None
    return _line("need", "--model", str(files.model), "--text", *map(str, files.texts), "-o", "need.json")


def choose_command(files: ModelFiles | None) -> str:
    """Trains small models of several shapes, on the first text where one is known."""
    text = () if files is None or not files.texts else ("--text", str(files.texts[0]))
    return _line("choose", *text, "--parameters", str(_LAPTOP_PARAMETERS))


def _line(*words: str) -> str:
    return shlex.join(("rankwise", *words))
