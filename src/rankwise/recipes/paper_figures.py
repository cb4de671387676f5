"""The authors' values, read off their figures, to stand beside ours: ``data/paper_figures.toml`` names the source."""

from __future__ import annotations

import tomllib
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import Any

from rankwise.errors import InvalidInputError, nearest_name

_VALUES = frozenset({"values", "uncertain"})
_ACCURACY, _ACCURACY_HIDDEN = 0.01, 0.03


@dataclass(frozen=True, kw_only=True)
class PublishedCurve:
    """One line of a figure: what it is called there, its values (errors in all but figure 2), and the entries of ``x``
    whose marker is hidden."""

    labels: dict[str, str | int | float]
    x: tuple[int, ...]
    values: tuple[float, ...]
    uncertain: tuple[int, ...]

    def at(self, x: int) -> float | None:
        """The value at ``x``, None where the figure has no point."""
        return self.points().get(x)

    def points(self) -> dict[int, float]:
        """All values by their x."""
        return dict(zip(self.x, self.values, strict=True))

    def accuracy(self, x: int) -> float:
        """How well the value at ``x`` can be read off a logarithmic axis, as a share of it."""
        return _ACCURACY_HIDDEN if x in self.uncertain else _ACCURACY


@dataclass(frozen=True, kw_only=True)
class PublishedFigure:
    """A figure of the paper: the name of its horizontal axis and its lines."""

    axis: str
    curves: tuple[PublishedCurve, ...]

    def curve(self, **labels: str | int | float) -> PublishedCurve | None:
        """The one line with these labels, for example ``layers=1, exponent=1.5``; None when the figure lacks it."""
        found = [curve for curve in self.curves if labels.items() <= curve.labels.items()]
        return found[0] if len(found) == 1 else None


@cache
def published_figure(name: str) -> PublishedFigure:
    """``figure1`` (rank, heads, depth), ``figure2`` (full-rank heads), ``figure3`` (positions), ``figure4`` (points) or
    ``random_features``."""
    figures = _read()
    if name not in figures:
        known = list(figures)
        raise InvalidInputError(f"figure: expected one of {', '.join(known)}, got {name!r}{nearest_name(name, known)}")
    entry = figures[name]
    return PublishedFigure(
        axis=entry["axis"],
        curves=tuple(
            PublishedCurve(
                labels={key: value for key, value in row.items() if key not in _VALUES},
                x=tuple(entry["x"]),
                values=tuple(row["values"]),
                uncertain=tuple(row.get("uncertain", ())),
            )
            for row in entry["curve"]
        ),
    )


@cache
def _read() -> dict[str, Any]:
    text = files("rankwise.recipes").joinpath("data", "paper_figures.toml").read_text(encoding="utf-8")
    return tomllib.loads(text)
