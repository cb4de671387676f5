"""The figures of ``rankwise reproduce``. Adding one = a file that ends in ``FIGURE = ...`` and its name here."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any, cast

from rankwise.errors import InvalidInputError, nearest_name

if TYPE_CHECKING:
    from rankwise.recipes.computed_figure import ComputedFigure
    from rankwise.recipes.trained_figure import TrainedFigure

_HERE, _CLOSED, _TOKENS = "rankwise.recipes", "rankwise.recipes.closed_form", "rankwise.recipes.tokens"
_COMPUTED = "bound exponent features representation vote address select barrier laws random-weights"
_PAPER = "figure1 figure2 figure3 figure4 dimension theorem biased"
_SPHERE = "values repeated cliff structured rotated select-trained anisotropic"
_ON_TOKENS = "in-context language images saturation depth match"


def _modules(package: str, names: str) -> dict[str, str]:
    return {name: f"{package}.{name.replace('-', '_')}" for name in names.split()}


COMPUTED = _modules(_CLOSED, _COMPUTED)
TRAINED = _modules(_HERE, _PAPER) | _modules(_HERE, _SPHERE) | _modules(_TOKENS, _ON_TOKENS)
FIGURES = COMPUTED | TRAINED


def computed_recipe(name: str) -> ComputedFigure[Any]:
    """A figure of ``COMPUTED``, its file imported now."""
    return cast("ComputedFigure[Any]", _found(name))


def trained_recipe(name: str) -> TrainedFigure[Any]:
    """A figure of ``TRAINED``, its file imported now."""
    return cast("TrainedFigure[Any]", _found(name))


def _found(name: str) -> object:
    if name not in FIGURES:
        known = ", ".join(FIGURES)
        raise InvalidInputError(f"figure: expected one of {known}, got {name!r}{nearest_name(name, list(FIGURES))}")
    figure: object = import_module(FIGURES[name]).FIGURE
    return figure
