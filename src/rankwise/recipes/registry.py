"""The figures of ``rankwise reproduce``. Adding one = a file and a line here.

A figure that is computed at once has ``PRESETS`` and ``reproduce``; one that is trained has ``PRESETS``, ``sweep``
(whose keyword arguments are the options it understands), ``rows`` and ``present``, so that what trains it can be shown,
stopped and continued before there is anything to present, and what was measured can be kept and drawn again.
"""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from importlib import import_module
from inspect import signature
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, TypeVar, cast

from rankwise.errors import InvalidInputError, nearest_name

if TYPE_CHECKING:
    from rankwise.recipes.rows import ResultRow
    from rankwise.recipes.trained import TrainedRun
    from rankwise.spec import SweepSpec

FIGURES = {
    "bound": "rankwise.recipes.closed_form.bound",
    "exponent": "rankwise.recipes.closed_form.exponent",
    "features": "rankwise.recipes.closed_form.features",
    "representation": "rankwise.recipes.closed_form.representation",
    "vote": "rankwise.recipes.closed_form.vote",
    "address": "rankwise.recipes.closed_form.address",
    "barrier": "rankwise.recipes.closed_form.barrier",
    "laws": "rankwise.recipes.closed_form.laws",
    "random-weights": "rankwise.recipes.closed_form.random_weights",
    "figure1": "rankwise.recipes.figure1",
    "figure2": "rankwise.recipes.figure2",
    "figure3": "rankwise.recipes.figure3",
    "figure4": "rankwise.recipes.figure4",
    "repeated": "rankwise.recipes.repeated",
    "dimension": "rankwise.recipes.dimension",
    "cliff": "rankwise.recipes.cliff",
    "biased": "rankwise.recipes.biased",
    "anisotropic": "rankwise.recipes.anisotropic",
    "theorem": "rankwise.recipes.theorem",
    "in-context": "rankwise.recipes.tokens.in_context",
    "language": "rankwise.recipes.tokens.language",
    "images": "rankwise.recipes.tokens.images",
    "saturation": "rankwise.recipes.tokens.saturation",
    "depth": "rankwise.recipes.tokens.depth",
    "match": "rankwise.recipes.tokens.match",
}
TRAINED = (
    *("figure1", "figure2", "figure3", "figure4", "repeated"),
    *("dimension", "cliff", "biased", "anisotropic", "theorem"),
    *("in-context", "language", "images", "saturation", "depth", "match"),
)

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


class TrainedRecipe(Protocol):
    """A module of this room whose figure is trained.

    ``rows`` makes rows of trained runs, measuring their weights where the figure needs it; ``present`` draws rows into
    ``stem``.png and ``stem``.svg. ``KEYS`` are the columns of its own that tell rows of one shape apart. A recipe may
    have ``COMPARED``: protocols that it shows beside the one asked for, however long they were trained.
    """

    __doc__: str
    PRESETS: Mapping[str, Any]
    KEYS: Sequence[str]

    def sweep(self, preset: str, **options: Any) -> SweepSpec: ...

    def rows(self, runs: Sequence[TrainedRun]) -> list[ResultRow]: ...

    def present(self, preset: str, rows: Sequence[ResultRow], stem: Path) -> Reproduced: ...


def find_recipe(name: str) -> Recipe:
    """The module of a figure that is computed at once, imported now."""
    return cast("Recipe", _module(name))


def find_trained_recipe(name: str) -> TrainedRecipe:
    """The module of a figure that is trained (one of ``TRAINED``), imported now."""
    return cast("TrainedRecipe", _module(name))


def sweep_of(name: str, preset: str, options: Mapping[str, object]) -> SweepSpec:
    """The sweep of a trained figure; an option that the figure does not have is named."""
    recipe = find_trained_recipe(name)
    own = [option for option in signature(recipe.sweep).parameters if option != "preset"]
    for option in options:
        if option not in own:
            known = ", ".join(f"--{known}" for known in own)
            raise InvalidInputError(f"--{option}: expected an option of {name} ({known}), which has no such one")
    return recipe.sweep(preset, **options)


def _module(name: str) -> object:
    if name not in FIGURES:
        known = ", ".join(FIGURES)
        raise InvalidInputError(f"figure: expected one of {known}, got {name!r}{nearest_name(name, list(FIGURES))}")
    return import_module(FIGURES[name])


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
