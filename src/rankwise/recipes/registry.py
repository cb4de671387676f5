"""The figures of ``rankwise reproduce``. Adding one = a file that ends in ``FIGURE = ...`` and a line here."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any, cast

from rankwise.errors import InvalidInputError, nearest_name

if TYPE_CHECKING:
    from rankwise.recipes.computed_figure import ComputedFigure
    from rankwise.recipes.trained_figure import TrainedFigure

COMPUTED = {
    "bound": "rankwise.recipes.closed_form.bound",
    "exponent": "rankwise.recipes.closed_form.exponent",
    "features": "rankwise.recipes.closed_form.features",
    "representation": "rankwise.recipes.closed_form.representation",
    "vote": "rankwise.recipes.closed_form.vote",
    "address": "rankwise.recipes.closed_form.address",
    "select": "rankwise.recipes.closed_form.select",
    "barrier": "rankwise.recipes.closed_form.barrier",
    "laws": "rankwise.recipes.closed_form.laws",
    "random-weights": "rankwise.recipes.closed_form.random_weights",
}
TRAINED = {
    "figure1": "rankwise.recipes.figure1",
    "figure2": "rankwise.recipes.figure2",
    "figure3": "rankwise.recipes.figure3",
    "figure4": "rankwise.recipes.figure4",
    "values": "rankwise.recipes.values",
    "repeated": "rankwise.recipes.repeated",
    "dimension": "rankwise.recipes.dimension",
    "cliff": "rankwise.recipes.cliff",
    "structured": "rankwise.recipes.structured",
    "select-trained": "rankwise.recipes.select_trained",
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
FIGURES = COMPUTED | TRAINED


def computed_figure(name: str) -> ComputedFigure[Any, Any]:
    """A figure of ``COMPUTED``, its file imported now."""
    return cast("ComputedFigure[Any, Any]", _found(name))


def trained_figure(name: str) -> TrainedFigure[Any]:
    """A figure of ``TRAINED``, its file imported now."""
    return cast("TrainedFigure[Any]", _found(name))


def _found(name: str) -> object:
    if name not in FIGURES:
        known = ", ".join(FIGURES)
        raise InvalidInputError(f"figure: expected one of {known}, got {name!r}{nearest_name(name, list(FIGURES))}")
    figure: object = import_module(FIGURES[name]).FIGURE
    return figure
