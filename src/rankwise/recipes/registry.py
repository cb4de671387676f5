"""The figures of ``rankwise reproduce``. Adding one = a file with ``PRESETS`` and ``reproduce``, and a line here."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any, Protocol, TypeVar, cast

from rankwise.errors import InvalidInputError, nearest_name

FIGURES = {
    "vote": "rankwise.recipes.closed_form.vote",
    "barrier": "rankwise.recipes.closed_form.barrier",
    "laws": "rankwise.recipes.closed_form.laws",
    "random-weights": "rankwise.recipes.closed_form.random_weights",
}

Say = Callable[[str], None]
_Settings = TypeVar("_Settings")


@dataclass(frozen=True, kw_only=True)
class Reproduced:
    """What a recipe hands back: a table for the reader, what to see in it, and the files it wrote."""

    columns: tuple[str, ...]
    rows: tuple[tuple[str | int | float | None, ...], ...]
    reading: str
    files: tuple[Path, ...]


class Recipe(Protocol):
    """A module of this room. ``say`` takes one line of progress at a time."""

    __doc__: str
    PRESETS: Mapping[str, Any]

    def reproduce(self, preset: str, out: Path, say: Say) -> Reproduced: ...


def find_recipe(name: str) -> Recipe:
    """The module of a figure, imported now."""
    if name not in FIGURES:
        known = ", ".join(FIGURES)
        raise InvalidInputError(f"figure: expected one of {known}, got {name!r}{nearest_name(name, list(FIGURES))}")
    return cast("Recipe", import_module(FIGURES[name]))


def pick_preset(presets: Mapping[str, _Settings], preset: str) -> _Settings:
    """The settings of that name."""
    if preset not in presets:
        raise InvalidInputError(f"preset: expected one of {', '.join(presets)}, got {preset!r}")
    return presets[preset]


def write_numbers(data: Any, stem: Path) -> Path:
    """A dataclass of plain numbers as ``stem``.json: a figure can be checked or redrawn without this program."""
    stem.parent.mkdir(parents=True, exist_ok=True)
    path = stem.with_suffix(".json")
    path.write_text(json.dumps(dataclasses.asdict(data), indent=1, allow_nan=False) + "\n", encoding="utf-8")
    return path
