"""Barrier and saturation: mean hardmax rank of random attention against the head dimension.

    rankwise reproduce barrier --preset laptop        (smoke: 5 s; laptop: 1 minute on one core)

Three panels, full mask, causal mask, and full mask with unit-norm keys; one line a sequence length by quadrature
(``expected_hardmax_rank``), points by simulation, a star where 90 % of the plateau is reached. To expect: no line rises
above 1 - 1/e = .632 of the length (full) or .5 (causal); longer sequences need larger heads to come near (90 % at
head_dim 32, 68, 123, 197 for 64, 256, 1024, 4096 tokens; causal 16, 41, 80, 135); with unit keys a handful of
dimensions suffice at any length (3 for 90 %, 7 for 98 % at 1024 tokens), and two give 5/9.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from rankwise.recipes.computed_figure import ComputedFigure
from rankwise.recipes.presented import Say
from rankwise.report.figures import MARKERS, label_level, new_figure, ramp
from rankwise.theory.saturation import (
    expected_hardmax_rank,
    hardmax_rank_mean,
    saturation_dim,
    simulate_hardmax_rank,
)

if TYPE_CHECKING:
    from matplotlib.figure import Figure

PANELS = (
    ("full mask", "full", "gaussian"),
    ("causal mask", "causal", "gaussian"),
    ("unit keys, full mask", "full", "unit"),
)


@dataclass(frozen=True, kw_only=True)
class Settings:
    """Lengths and head dimensions; each simulated point is a mean over about ``tokens`` / length trials."""

    lengths: tuple[int, ...]
    head_dims: tuple[int, ...]
    simulated_dims: tuple[int, ...]
    tokens: int


@dataclass(frozen=True, kw_only=True)
class Line:
    """One length under one mask with one kind of keys; ranks are shares of the length."""

    panel: str
    """The title of its panel."""
    length: int
    plateau: float
    """The rank it approaches as the head dimension grows."""
    head_dims: list[int]
    """Where ``expected`` is known."""
    expected: list[float]
    """The mean rank by quadrature."""
    simulated_dims: list[int]
    """Where ``simulated`` is known."""
    simulated: list[float]
    """The mean rank of simulated heads."""
    standard_error: list[float]
    """Of ``simulated``."""
    saturation_dim: int
    """The head dimension that reaches 90 % of the plateau."""


@dataclass(frozen=True, kw_only=True)
class Barrier:
    """All lines of the figure."""

    lines: list[Line]


PRESETS = {
    "smoke": Settings(
        lengths=(64, 256, 1024),
        head_dims=(2, 3, 4, 6, 8, 12, 16, 32, 64, 128, 256),
        simulated_dims=(2, 8, 32, 128),
        tokens=4096,
    ),
    "laptop": Settings(
        lengths=(64, 256, 1024, 4096),
        head_dims=(2, 3, 4, 5, 6, 8, 10, 12, 16, 20, 24, 32, 40, 48, 64, 80, 96, 128, 160, 192, 256, 320, 384, 512),
        simulated_dims=(2, 3, 4, 8, 16, 32, 64, 128, 256, 512),
        tokens=40_000,
    ),
}


class _BarrierFigure(ComputedFigure[Settings, Barrier]):
    """Hardmax rank against the head dimension, for several lengths, under two masks and with unit keys."""

    name = "barrier"
    columns = ("panel", "length", "plateau / length", "90 % at head_dim", "at the largest head_dim")
    presets = PRESETS

    def compute(self, settings: Settings, say: Say) -> Barrier:
        """The numbers of the figure."""
        lines = []
        for panel, mask, keys in PANELS:
            for length in settings.lengths:
                trials = max(4, settings.tokens // length)
                say(f"{panel}, {length} tokens: {len(settings.simulated_dims)} x {trials} simulated heads")
                points = [
                    simulate_hardmax_rank(length, size, mask, keys=keys, trials=trials, seed=length + size)
                    for size in settings.simulated_dims
                ]
                # for Gaussian keys of 2 or 3 dimensions the quadrature's closure is off by up to 5 % of the plateau
                sizes = [size for size in settings.head_dims if size >= 4 or keys == "unit"]
                lines.append(
                    Line(
                        panel=panel,
                        length=length,
                        plateau=hardmax_rank_mean(length, mask) / length,
                        head_dims=sizes,
                        expected=[expected_hardmax_rank(length, size, mask, keys=keys) / length for size in sizes],
                        simulated_dims=list(settings.simulated_dims),
                        simulated=[point.mean / length for point in points],
                        standard_error=[point.standard_error / length for point in points],
                        saturation_dim=saturation_dim(length, mask=mask, keys=keys).value,
                    )
                )
        return Barrier(lines=lines)

    def draw(self, data: Barrier) -> Figure:
        """Three panels side by side on one vertical axis."""
        lengths = sorted({line.length for line in data.lines})
        colours = dict(zip(lengths, ramp(len(lengths)), strict=True))
        markers = dict(zip(lengths, MARKERS, strict=False))
        figure = new_figure(10.2, 3.8)
        panels = figure.subplots(1, len(PANELS), sharey=True)
        for axes, (panel, mask, _) in zip(panels, PANELS, strict=True):
            for line in data.lines:
                if line.panel != panel:
                    continue
                colour = colours[line.length]
                axes.plot(line.head_dims, line.expected, color=colour, label=f"$n = {line.length}$", zorder=2)
                axes.plot(
                    line.simulated_dims,
                    line.simulated,
                    color=colour,
                    marker=markers[line.length],
                    linestyle="none",
                    zorder=3,
                )
                axes.plot(line.saturation_dim, 0.9 * line.plateau, marker="*", markersize=11, color="black", zorder=4)
            label_level(axes, 0.5 if mask == "causal" else 0.6321, "0.5" if mask == "causal" else "0.632", at=0.01)
            axes.set_xscale("log", base=2)
            ticks = [2, 8, 32, 128, 512]
            axes.set_xticks(ticks, [str(tick) for tick in ticks])
            axes.set(xlabel="head dimension", title=panel, ylim=(0, 0.7), xlim=(1.8, 600))
        panels[0].set_ylabel("hardmax rank / length")
        panels[0].plot([], [], marker="*", markersize=9, color="black", linestyle="none", label="90 % of plateau")
        panels[0].legend(loc="lower right")
        figure.suptitle("Rank of random attention: quadrature (lines) and simulation (points)", fontsize=11)
        return figure

    def table(self, data: Barrier) -> list[tuple[str | int | float | None, ...]]:
        """Where each line saturates."""
        return [(line.panel, line.length, line.plateau, line.saturation_dim, line.expected[-1]) for line in data.lines]

    def reading(self, data: Barrier) -> list[str]:
        """What kind of numbers these are, and how far quadrature and simulation differ."""
        worst = max(
            abs(measured - line.expected[line.head_dims.index(size)]) / line.plateau
            for line in data.lines
            for size, measured in zip(line.simulated_dims, line.simulated, strict=True)
            if size in line.head_dims
        )
        return [
            "Means of random heads: single draws scatter around them, and trained heads are free of both levels.",
            f"Quadrature and simulation differ by at most {100 * worst:.1f} % of the plateau, noise included.",
        ]


FIGURE = _BarrierFigure()
