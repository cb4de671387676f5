"""The error no heads go below, against their number, and random rank-1 heads above it.

    rankwise reproduce bound --preset laptop        (smoke: 3 s; laptop: 1 minute on one core)

Two orthogonal points, one layer. Lines are LB(d, r, H) of ``error_lower_bound`` for scaled-identity values, our sharp
form of the bound in the proof of Theorem 2 (Amsel, Yehudai, Bruna, arXiv 2407.16153). Dots are random rank-1 hardmax
heads with their best weights, each checked against the bound of rank 1.

To expect: each line begins near 1/2, the error of the mean of the points. It falls to the level (1 - eta_1^2)/2 once
the heads cover the linear part: at H = d/r (stars), as long as r is well below d. It leaves that level when cubic
harmonics are covered, for rank 1 at about d^3/6 heads. Random heads need more heads and stall at that level.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from rankwise.recipes.computed_figure import ComputedFigure
from rankwise.recipes.curves import curve
from rankwise.recipes.points import Point, Row, lines_of, select
from rankwise.report import Panel, Picture, PlotAxis, dots, legend_entry, ramp, smooth
from rankwise.theory import (
    TRIVIAL_ERROR,
    error_lower_bound,
    heads_required_log10,
    powers_of_2,
    random_head_errors,
    sign_energy,
)

_TARGET = 0.1


@dataclass(frozen=True, kw_only=True)
class Settings:
    """Ranks by dimension; lines up to 10^decades heads; ``draws`` of up to ``most_random_heads`` random heads."""

    ranks: dict[int, tuple[int, ...]]
    decades: int = 9
    steps_per_decade: int = 16
    most_random_heads: int = 2**14
    draws: int = 3


class _Bound(ComputedFigure[Settings]):
    """The bound by rank and dimension, and random heads above it.

    ``kind`` is "line", "standard" (dim/rank heads) or "random" (heads of rank 1, with the mean and the least of their
    errors). With fewer heads than 10 to the ``log10_heads_required`` the error stays above .1.
    """

    name = "bound"
    columns = ("dim", "rank", "level", "bound", "log10_heads_required")

    def parts(self, settings: Settings) -> list[tuple[int]]:
        return [(dim,) for dim in settings.ranks]

    def rows(self, settings: Settings, dim: int) -> Iterator[Row]:
        """No heads may err less than the bound, or it is no bound."""
        level = (1 - sign_energy(dim, 1)) / 2

        def row(kind: str, rank: int, heads: float, **random: float) -> Row:
            bound, required = error_lower_bound(dim, rank, heads).value, heads_required_log10(dim, rank, _TARGET)
            known = {"bound": bound, "level": level, "log10_heads_required": required}
            return {"kind": kind, "dim": dim, "rank": rank, "heads": heads, **known, **random}

        steps = range(settings.decades * settings.steps_per_decade + 1)
        for rank in settings.ranks[dim]:
            yield from (row("line", rank, 10 ** (step / settings.steps_per_decade)) for step in steps)
            yield row("standard", rank, dim / rank)
        counts = powers_of_2(settings.most_random_heads)
        draws = [random_head_errors(dim, counts, seed) for seed in range(settings.draws)]
        for heads, errors in zip(counts, zip(*draws, strict=True), strict=True):
            if min(errors) < error_lower_bound(dim, 1, heads).value:
                raise AssertionError(f"{heads} random heads in dim {dim} err less than the bound allows")
            yield row("random", 1, heads, random_mean=sum(errors) / len(errors), random_least=min(errors))

    def tabled(self, points: Sequence[Point]) -> list[Point]:
        return select(points, kind="standard")

    def picture(self, settings: Settings, points: Sequence[Point]) -> Picture:
        edge = {"markersize": 9, "markeredgecolor": "black", "markeredgewidth": 0.6, "zorder": 5}
        panels = []
        for dim, own in lines_of(points, "dim").items():
            series, ranks = [], lines_of(select(own, kind="line"), "rank")
            for (rank, line), colour in zip(ranks.items(), ramp(len(ranks)), strict=True):
                series.append(curve(f"$r = {rank}$", line, x="heads", y="bound", **smooth(colour)))
                standard = select(own, kind="standard", rank=rank)
                series.append(curve("", standard, x="heads", y="bound", **dots(colour, "*", **edge)))
            black = dots("black", markersize=3.5, zorder=4)
            series.append(curve("random, $r = 1$", own, x="heads", y="random_mean", **black))
            series.append(legend_entry("$H = d/r$", **dots("white", "*", **edge)))
            level = own[0]["level"]
            named = rf"$(1-\eta_1^2)/2 = {level:.3f}$"
            panels.append(
                Panel(
                    title=f"$d = {dim}$",
                    x=PlotAxis(label="heads $H$", scale="log"),
                    y=PlotAxis(label="mean squared error", low=0, high=0.8),
                    series=series,
                    levels={"mean of the points: 1/2": TRIVIAL_ERROR, named: level},
                    legend="upper right",
                    legend_columns=2,
                )
            )
        title = "Lines: no heads of rank $r$ err less (two orthogonal points, one layer, value matrices $a_h I$).\n"
        title += "Dots: random rank-1 heads with their best weights."
        return Picture(title=title, panels=[panels], size=(3.6, 4.0))

    def reading(self, settings: Settings, points: Sequence[Point]) -> list[str]:
        random = select(points, kind="random")
        closest = min(point["random_least"] - point["bound"] for point in random)
        return [
            f"None of {len(random) * settings.draws} sets of random rank-1 heads errs less than the bound.",
            f"The nearest errs {closest:.3g} more.",
            "The bound is our derivation, for isotropic data, one layer and value matrices a_h I.",
            "More heads than it names are necessary, not sufficient.",
        ]


FIGURE = _Bound(
    smoke=Settings(
        ranks={8: (1, 4, 7), 64: (1, 8, 32)}, decades=8, steps_per_decade=4, most_random_heads=2**9, draws=2
    ),
    laptop=Settings(ranks={8: (1, 2, 4, 6, 7), 16: (1, 2, 4, 8, 12), 64: (1, 4, 16, 32, 48)}),
)
