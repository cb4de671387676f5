"""Random rank-1 features: how the error of H random heads with the best weights falls, beside the authors' values.

    rankwise reproduce features --preset laptop        (smoke: 3 s; laptop: 3 minutes on one core)

Two orthogonal points; q uniform, <q, k> uniform on [-1, 1], unit keys; value matrices a_h I with a solved exactly
(``optimal_weights``). Lines are means over draws, bands reach from the least to the greatest draw. Open circles are the
authors' values, read off their figure (``data/paper_figures.toml``), means of 5 draws.

To expect: the error falls to the level (1 - eta_1^2)/2 and stalls there, the later the larger the dimension. The
authors' values lie lower: their keys are not renormalised after a projection. The formulas of unit keys evaluated at
such keys (``errors_as_published``, right panel) give their figure to .001. That is not the error of any heads.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from statistics import fmean
from typing import Any

from rankwise.recipes.computed_figure import ComputedFigure
from rankwise.recipes.curves import curve
from rankwise.recipes.paper_figures import published
from rankwise.recipes.points import Point, Row, Value, lines_of, select
from rankwise.report import COLOURS, GUIDE, Panel, Picture, PlotAxis, Series, dots, legend_entry, smooth
from rankwise.theory import errors_as_published, mean_of_draws, powers_of_2, random_head_errors, sign_energy

_QUOTED = (8, 2048)  # dimension and heads at which the difference to the figure is quoted in words
_CIRCLES: dict[str, Any] = {"fillstyle": "none", "markersize": 4}
_STEADY = 64  # heads from which the mean of a few draws is steady enough to be compared


@dataclass(frozen=True, kw_only=True)
class Settings:
    """Heads are the powers of 2 up to ``most_heads``; the published formula is solved densely up to its own limit."""

    dims: tuple[int, ...]
    most_heads: int
    draws: int
    most_heads_as_published: int
    draws_as_published: int


class _Features(ComputedFigure[Settings]):
    """Errors against heads, and how far the published values and their formula lie from ours.

    ``error`` is the mean over draws, ``published`` the authors' value, ``formula`` that of unit keys at their keys;
    ``published_gap`` and ``formula_gap`` are what these two differ from ``error``, where that is steady.
    """

    name = "features"
    columns = ("dim", "heads", "error", "least", "greatest", "published", "formula")

    def parts(self, settings: Settings) -> list[tuple[int]]:
        return [(dim,) for dim in settings.dims]

    def rows(self, settings: Settings, dim: int) -> Iterator[Row]:
        heads, short = powers_of_2(settings.most_heads), powers_of_2(settings.most_heads_as_published)
        as_published = [errors_as_published(dim, short, seed) for seed in range(settings.draws_as_published)]
        others = {
            "published": published("random_features", dim=dim),
            "formula": dict(zip(short, mean_of_draws(as_published), strict=True)),
        }
        draws = [random_head_errors(dim, heads, seed) for seed in range(settings.draws)]
        for count, errors in zip(heads, zip(*draws, strict=True), strict=True):
            row: dict[str, Value] = {"dim": dim, "heads": count, "error": fmean(errors)}
            row |= {"least": min(errors), "greatest": max(errors)}
            for name, values in others.items():
                if count in values:
                    row[name] = values[count]
                    if count >= _STEADY:
                        row[f"{name}_gap"] = values[count] - fmean(errors)
            yield row

    def picture(self, settings: Settings, points: Sequence[Point]) -> Picture:
        left, right = [legend_entry("authors' figure", **dots(GUIDE, **_CIRCLES))], []
        left.append(legend_entry(r"$(1-\eta_1^2)/2$", **smooth(GUIDE, "--", 0.8)))
        for (dim, line), colour in zip(lines_of(points, "dim").items(), COLOURS, strict=False):
            band = [point["least"] for point in line], [point["greatest"] for point in line]
            left.append(replace(curve(f"$d = {dim}$", line, x="heads", **smooth(colour)), band=band))
            left.append(curve("", line, x="heads", y="published", **dots(colour, **_CIRCLES)))
            ends, stalls = [line[0]["heads"], line[-1]["heads"]], [(1 - sign_energy(dim, 1)) / 2] * 2
            left.append(Series(label="", x=ends, y=stalls, style=smooth(colour, "--", 0.8)))
            right.append(curve("", line, x="heads", y="published_gap", **dots(colour, **_CIRCLES)))
            right.append(curve("", line, x="heads", y="formula_gap", **smooth(colour)))
        heads, zero = PlotAxis(label="heads $H$", scale="log2"), {"": 0.0}
        error = PlotAxis(label="mean squared error", low=0.1, high=0.8)
        gap = PlotAxis(label="difference to our mean", low=-0.04, high=0.02)
        panels = [
            Panel(title="ours: mean (lines), all draws (bands)", x=heads, y=error, series=left),
            Panel(title="lines: formula at keys not of unit norm", x=heads, y=gap, series=right, guides=zero),
        ]
        title = "Random rank-1 heads with their best weights, two orthogonal points"
        return Picture(title=title, panels=[panels], share_y=False, legend="right", size=(4.2, 4.0))

    def reading(self, settings: Settings, points: Sequence[Point]) -> list[str]:
        dim, heads = _QUOTED
        *_, last = (p for p in select(points, dim=dim) or points if "formula" in p and p["heads"] <= heads)
        shown = f"shows {last['published']:.3f}" if "published" in last else "has no value"
        return [
            f"Dimension {last['dim']}, {last['heads']} heads: the error is {last['error']:.3f}.",
            f"The authors' figure {shown} there.",
            "Their keys are not renormalised after a projection.",
            f"The formulas of unit keys evaluated at such keys give {last['formula']:.3f}.",
            "That is not the error of any heads.",
        ]


FIGURE = _Features(
    smoke=Settings(dims=(8, 64), most_heads=2**9, draws=3, most_heads_as_published=2**9, draws_as_published=2),
    laptop=Settings(
        dims=(8, 16, 32, 64), most_heads=2**14, draws=5, most_heads_as_published=2**12, draws_as_published=5
    ),
)
