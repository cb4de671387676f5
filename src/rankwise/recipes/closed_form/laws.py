"""Two laws for the head dimension that keeps up with the sequence: c log n, and c t^4 with t = Phi^-1(1 - 1/n).

    rankwise reproduce laws --preset laptop        (smoke: 3 s; laptop: half a minute on one core)

Left: the head dimension that reaches 90 % of the plateau (quadrature, Gaussian keys, full mask) with both laws matched
at 64 tokens. Right: the share of the plateau that heads keep when they grow by either law, quadrature as lines
and simulation as points. To expect: c log n falls from .90 of the plateau at 64 tokens to .70 at 16,384 and .57 at a
million; c t^4 (about log^2 n) stays between .90 and .91. The paper's Omega(log n) is a lower bound and is not refuted:
log n is not enough. That t^4 is enough is a heuristic with numbers beside it, not a proof.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

from rankwise.recipes.computed_figure import ComputedFigure
from rankwise.recipes.presented import Say
from rankwise.report.figures import COLOURS, MARKERS, new_figure
from rankwise.theory import saturation

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_START = 64
NAMES = {"c log n": r"$c\,\log n$", "c t^4": r"$c\,t_n^4,\ t_n = \Phi^{-1}(1 - 1/n)$"}


@dataclass(frozen=True, kw_only=True)
class Settings:
    """Lengths of the lines and of the simulated points, whose means are over about ``tokens`` / length trials."""

    lengths: tuple[int, ...]
    simulated_lengths: tuple[int, ...]
    tokens: int


@dataclass(frozen=True, kw_only=True)
class Law:
    """Heads that grow by one law: their dimension and the share of the plateau they keep."""

    name: str
    head_dims: list[int]
    kept: list[float]
    simulated: list[float]
    standard_error: list[float]


@dataclass(frozen=True, kw_only=True)
class Laws:
    """The needed head dimension and both laws, at ``lengths``."""

    lengths: list[int]
    saturation_dims: list[int]
    simulated_lengths: list[int]
    laws: list[Law]


PRESETS = {
    "smoke": Settings(lengths=tuple(4**k for k in range(3, 11)), simulated_lengths=(64, 256, 1024), tokens=8192),
    "laptop": Settings(
        lengths=tuple(2**k for k in range(6, 21)), simulated_lengths=(64, 256, 1024, 4096, 16_384), tokens=80_000
    ),
}


def _head_dim_by(name: str, length: int, matched: int) -> int:
    """The head dimension at ``length`` of the law that gives ``matched`` at 64 tokens."""
    law = math.log if name == "c log n" else saturation.saturation_law
    return max(2, round(matched * (law(length) / law(_START))))


class _LawsFigure(ComputedFigure[Settings, Laws]):
    """Head dimension against length, and the share of the plateau kept."""

    name = "laws"
    columns = ("tokens", "needed", "c log n", "log n keeps", "c t^4", "t^4 keeps")
    presets = PRESETS

    def compute(self, settings: Settings, say: Say) -> Laws:
        matched = saturation.saturation_dim(_START).value
        laws = []
        for name in NAMES:
            points = []
            for length in settings.simulated_lengths:
                size, trials = _head_dim_by(name, length, matched), max(4, settings.tokens // length)
                say(f"{name}: {trials} heads of dimension {size} on {length} tokens")
                point = saturation.simulate_hardmax_rank(length, size, trials=trials, seed=length)
                plateau = saturation.hardmax_rank_mean(length)
                points.append((point.mean / plateau, point.standard_error / plateau))
            sizes = [_head_dim_by(name, length, matched) for length in settings.lengths]
            laws.append(
                Law(
                    name=name,
                    head_dims=sizes,
                    kept=[
                        saturation.expected_hardmax_rank(length, size) / saturation.hardmax_rank_mean(length)
                        for length, size in zip(settings.lengths, sizes, strict=True)
                    ],
                    simulated=[mean for mean, _ in points],
                    standard_error=[error for _, error in points],
                )
            )
        return Laws(
            lengths=list(settings.lengths),
            saturation_dims=[saturation.saturation_dim(length).value for length in settings.lengths],
            simulated_lengths=list(settings.simulated_lengths),
            laws=laws,
        )

    def draw(self, data: Laws) -> Figure:
        figure = new_figure(8.6, 3.7)
        left, right = figure.subplots(1, 2)
        left.plot(data.lengths, data.saturation_dims, "*", color="black", markersize=8, label="90 % of the plateau")
        for law, colour, marker in zip(data.laws, COLOURS, MARKERS, strict=False):
            left.plot(data.lengths, law.head_dims, color=colour, label=NAMES[law.name])
            right.plot(data.lengths, law.kept, color=colour, label=NAMES[law.name])
            bars = [2 * error for error in law.standard_error]
            right.errorbar(data.simulated_lengths, law.simulated, bars, color=colour, fmt=marker, capsize=2)
        left.set_yscale("log", base=2)
        ticks = [32, 64, 128, 256, 512]
        left.set_yticks(ticks, [str(tick) for tick in ticks])
        left.set(ylabel="head dimension", title="head dimension for 90 % of the plateau")
        right.set(ylim=(0.45, 1.0), ylabel="hardmax rank / plateau", title="share of the plateau kept by growing heads")
        for axes, corner in ((left, "upper left"), (right, "lower left")):
            axes.set_xscale("log", base=2)
            axes.set_xlabel("tokens $n$")
            axes.legend(loc=corner)
        figure.suptitle("Two laws matched at 64 tokens: quadrature (lines), simulation (points)", fontsize=11)
        return figure

    def table(self, data: Laws) -> list[tuple[str | int | float | None, ...]]:
        lines = [values for law in data.laws for values in (law.head_dims, law.kept)]
        return list(zip(data.lengths, data.saturation_dims, *lines, strict=True))

    def reading(self, data: Laws) -> list[str]:
        return [
            "A head dimension that grows like log n loses ground at every doubling; the measurements exclude it.",
            "One that grows like t^4, about log^2 n, does not; it is a heuristic that the measurements support.",
        ]


FIGURE = _LawsFigure()
