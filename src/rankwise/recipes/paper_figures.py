"""The authors' values, read off their figures, to stand beside ours: ``data/paper_figures.toml`` names the source."""

from __future__ import annotations

import tomllib
from functools import cache
from importlib.resources import files
from typing import Any


def published(figure: str, **labels: str | float) -> dict[int, float]:
    """The values of the one curve that has all ``labels``, by the figure's horizontal axis; empty where there is none.

    - ``figure``: figure1 (rank, heads, depth), figure2 (full-rank heads), figure3 (positions), figure4 (points) or
      random_features. All values are training errors, but those of figure2.
    - ``labels``: for example ``layers=1, exponent=1.5``; also the fixed sizes of the figure (dim, points), so that at
      another size nothing is found.
    """
    table = _read()[figure]
    found = [curve for curve in table["curve"] if labels.items() <= {**table["fixed"], **curve}.items()]
    return dict(zip(table["x"], found[0]["values"], strict=True)) if len(found) == 1 else {}


@cache
def _read() -> dict[str, Any]:
    text = files("rankwise.recipes").joinpath("data", "paper_figures.toml").read_text(encoding="utf-8")
    return tomllib.loads(text)
