"""The error no heads go below, against their number, and random rank-1 heads above it.

    rankwise reproduce bound --preset laptop        (smoke: 3 s; laptop: 1 minute on one core)

Two orthogonal points, one layer. Lines are LB(d, r, H) of ``error_lower_bound`` for scaled-identity values, our sharp
form of the bound in the proof of Theorem 2 (Amsel, Yehudai, Bruna, arXiv 2407.16153). Dots are random rank-1 hardmax
heads with their best weights, each checked against the bound of rank 1. To expect: each line begins near 1/2, the error
of the mean of the points. It falls to the plateau (1 - eta_1^2)/2 (.161 in dimension 8, .172 in 16, .179 in 64) once
the heads cover the linear part: at H = d/r (stars), as long as r is well below d. It leaves the plateau when cubic
harmonics are covered, for rank 1 at about d^3/6 heads. Random heads need more heads and stall at that plateau.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from rankwise.recipes.computed_figure import ComputedFigure
from rankwise.recipes.presented import Say
from rankwise.report.figures import label_level, new_figure, ramp
from rankwise.theory.bounds import TRIVIAL_ERROR, error_lower_bound, heads_required_log10
from rankwise.theory.harmonics import sign_energy
from rankwise.theory.random_heads import mean_of_draws, powers_of_2, random_head_errors

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_TARGET = 0.1


@dataclass(frozen=True, kw_only=True)
class Settings:
    """Ranks by dimension; lines up to 10^decades heads; ``draws`` of up to ``most_random_heads`` random heads."""

    ranks: dict[int, tuple[int, ...]]
    decades: int = 9
    steps_per_decade: int = 16
    most_random_heads: int = 2**14
    draws: int = 3


@dataclass(frozen=True, kw_only=True)
class Line:
    """The bound of one rank at ``Panel.heads`` and at the standard dim/rank heads, and inverted at error .1."""

    rank: int
    bound: list[float]
    bound_at_standard: float
    log10_heads_required: float


@dataclass(frozen=True, kw_only=True)
class Panel:
    """One dimension. ``random_errors`` has a row per draw; ``rank_one_bound`` is the bound at the same heads."""

    dim: int
    plateau: float
    heads: list[float]
    lines: list[Line]
    random_heads: list[int]
    random_errors: list[list[float]]
    rank_one_bound: list[float]

    @property
    def closest(self) -> float:
        """How far the nearest random heads stay above the bound."""
        return min(e - bound for row in self.random_errors for e, bound in zip(row, self.rank_one_bound, strict=True))


@dataclass(frozen=True, kw_only=True)
class BoundPanels:
    """All panels of the figure."""

    panels: list[Panel]


PRESETS = {
    "smoke": Settings(
        ranks={8: (1, 4, 7), 64: (1, 8, 32)}, decades=8, steps_per_decade=4, most_random_heads=2**9, draws=2
    ),
    "laptop": Settings(ranks={8: (1, 2, 4, 6, 7), 16: (1, 2, 4, 8, 12), 64: (1, 4, 16, 32, 48)}),
}


class _BoundFigure(ComputedFigure[Settings, BoundPanels]):
    """The bound by rank and dimension, and random heads above it."""

    name = "bound"
    columns = ("dim", "rank", "plateau", "bound at H = d/r", f"log10 of heads that cannot reach {_TARGET}")
    presets = PRESETS

    def compute(self, settings: Settings, say: Say) -> BoundPanels:
        """The numbers of the figure; no heads may err less than the bound, or it is no bound."""
        steps = range(settings.decades * settings.steps_per_decade + 1)
        heads = [10 ** (step / settings.steps_per_decade) for step in steps]
        counts = powers_of_2(settings.most_random_heads)
        panels = []
        for dim, ranks in settings.ranks.items():
            say(f"dim {dim}: {len(ranks)} bounds, {settings.draws} draws of up to {counts[-1]} random heads")
            panel = Panel(
                dim=dim,
                plateau=(1 - sign_energy(dim, 1)) / 2,
                heads=heads,
                lines=[
                    Line(
                        rank=rank,
                        bound=[error_lower_bound(dim, rank, count).value for count in heads],
                        bound_at_standard=error_lower_bound(dim, rank, dim / rank).value,
                        log10_heads_required=heads_required_log10(dim, rank, _TARGET),
                    )
                    for rank in ranks
                ],
                random_heads=counts,
                random_errors=[random_head_errors(dim, counts, seed) for seed in range(settings.draws)],
                rank_one_bound=[error_lower_bound(dim, 1, count).value for count in counts],
            )
            if panel.closest < 0:
                raise AssertionError(f"random heads in dim {dim} err {-panel.closest:.3g} less than the bound allows")
            panels.append(panel)
        return BoundPanels(panels=panels)

    def draw(self, data: BoundPanels) -> Figure:
        figure = new_figure(3.6 * len(data.panels), 4.0)
        row = figure.subplots(1, len(data.panels), sharey=True, squeeze=False)[0]
        star: dict[str, Any] = {"marker": "*", "linestyle": "none", "markersize": 9, "mec": "black", "mew": 0.6}
        for axes, panel in zip(row, data.panels, strict=True):
            for line, colour in zip(panel.lines, ramp(len(panel.lines)), strict=True):
                axes.plot(panel.heads, line.bound, color=colour, label=f"$r = {line.rank}$", zorder=2)
                axes.plot(panel.dim / line.rank, line.bound_at_standard, color=colour, zorder=5, **star)
            means = mean_of_draws(panel.random_errors)
            axes.plot(panel.random_heads, means, "o", color="black", markersize=3.5, label="random, $r = 1$", zorder=4)
            axes.plot([], [], color="white", label="$H = d/r$", **star)
            label_level(axes, TRIVIAL_ERROR, "mean of the points: 1/2")
            label_level(axes, panel.plateau, rf"$(1-\eta_1^2)/2 = {panel.plateau:.3f}$")
            axes.set(xscale="log", xlabel="heads $H$", title=f"$d = {panel.dim}$", ylim=(0, 0.8))
            axes.legend(loc="upper right", ncols=2)
        row[0].set_ylabel("mean squared error")
        figure.suptitle(
            "Lines: no heads of rank $r$ err less (two orthogonal points, one layer, value matrices $a_h I$).\n"
            "Dots: random rank-1 heads with their best weights.",
            fontsize=10,
        )
        return figure

    def table(self, data: BoundPanels) -> list[tuple[str | int | float | None, ...]]:
        return [
            (panel.dim, line.rank, panel.plateau, line.bound_at_standard, line.log10_heads_required)
            for panel in data.panels
            for line in panel.lines
        ]

    def reading(self, data: BoundPanels) -> list[str]:
        drawn = sum(len(row) for panel in data.panels for row in panel.random_errors)
        closest = min(panel.closest for panel in data.panels)
        return [
            f"None of {drawn} sets of random rank-1 heads errs less than the bound.",
            f"The nearest errs {closest:.3g} more.",
            "The bound is our derivation, for isotropic data, one layer and value matrices a_h I.",
            "More heads than it names are necessary, not sufficient.",
        ]


FIGURE = _BoundFigure()
