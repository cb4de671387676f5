"""Two laws for the head dimension that keeps up with the sequence: c log n, and c t^4 with t = Phi^-1(1 - 1/n).

    rankwise reproduce laws --preset laptop        (smoke: 3 s; laptop: half a minute on one core)

Left: the head dimension that reaches 90 % of the barrier (quadrature, Gaussian keys, full mask) with both laws matched
at 64 tokens. Right: the share of the barrier that heads keep when they grow by either law, quadrature as lines
and simulation as points. To expect: c log n falls from .90 of the barrier to .57 at a million tokens; c t^4 (about
log^2 n) stays. The paper's Omega(log n) is a lower bound and is not refuted: log n is not enough. That t^4 is enough is
a heuristic with numbers beside it, not a proof.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from rankwise.recipes.computed_figure import ComputedFigure
from rankwise.recipes.curves import curve
from rankwise.recipes.points import Point, Row, estimated, select
from rankwise.report import COLOURS, MARKERS, Panel, Picture, PlotAxis, dots, smooth
from rankwise.theory import saturation

_START = 64
NAMES = {"c log n": r"$c\,\log n$", "c t^4": r"$c\,t_n^4,\ t_n = \Phi^{-1}(1 - 1/n)$"}


@dataclass(frozen=True, kw_only=True)
class Settings:
    """Lengths of the lines and of the simulated points, whose means are over about ``tokens`` / length trials."""

    lengths: tuple[int, ...]
    simulated_lengths: tuple[int, ...]
    tokens: int


def _head_dim_by(name: str, length: int) -> int:
    """The head dimension at ``length`` of the law that gives what is needed at 64 tokens."""
    law = math.log if name == "c log n" else saturation.saturation_law
    return max(2, round(saturation.saturation_dim(_START).value * (law(length) / law(_START))))


class _Laws(ComputedFigure[Settings]):
    """Head dimension against length, and the share of the barrier kept.

    ``needed`` is the head dimension that reaches 90 % of the barrier, ``head_dim`` that of the law; ``kept`` and
    ``simulated`` are the shares of the barrier that the law keeps.
    """

    name = "laws"
    columns = ("law", "length", "needed", "head_dim", "kept")

    def parts(self, settings: Settings) -> Iterator[tuple[str, int]]:
        lengths = sorted({*settings.lengths, *settings.simulated_lengths})
        return ((name, length) for name in NAMES for length in lengths)

    def rows(self, settings: Settings, name: str, length: int) -> Iterator[Row]:
        size, barrier = _head_dim_by(name, length), saturation.hardmax_rank_mean(length)
        kept, needed = saturation.expected_hardmax_rank(length, size) / barrier, saturation.saturation_dim(length).value
        measured = {}
        if length in settings.simulated_lengths:
            trials = max(4, settings.tokens // length)
            found = saturation.simulate_hardmax_rank(length, size, trials=trials, seed=length)
            measured = estimated("simulated", found, unit=barrier)
        yield {"law": name, "length": length, "needed": needed, "head_dim": size, "kept": kept, **measured}

    def picture(self, settings: Settings, points: Sequence[Point]) -> Picture:
        first, star = select(points, law=next(iter(NAMES))), dots("black", "*", markersize=8)
        left, right = [curve("90 % of the barrier", first, x="length", y="needed", **star)], []
        for (name, label), colour, marker in zip(NAMES.items(), COLOURS, MARKERS, strict=False):
            line = select(points, law=name)
            left.append(curve(label, line, x="length", y="head_dim", **smooth(colour)))
            right.append(curve(label, line, x="length", y="kept", **smooth(colour)))
            right.append(curve("", line, x="length", y="simulated", **dots(colour, marker)))
        x = PlotAxis(label="tokens $n$", scale="log2")
        size = PlotAxis(label="head dimension", scale="log2", ticks=(32, 64, 128, 256, 512))
        share = PlotAxis(label="hardmax rank / barrier", low=0.45, high=1.0)
        names = ("head dimension for 90 % of the barrier", "share of the barrier kept by growing heads")
        panels = [
            Panel(title=names[0], x=x, y=size, series=left, legend="upper left"),
            Panel(title=names[1], x=x, y=share, series=right, legend="lower left"),
        ]
        title = "Two laws matched at 64 tokens: quadrature (lines), simulation (points)"
        return Picture(title=title, panels=[panels], share_y=False, size=(4.3, 3.7))

    def reading(self, settings: Settings, points: Sequence[Point]) -> list[str]:
        return [
            "A head dimension that grows like log n loses ground at every doubling; the measurements exclude it.",
            "One that grows like t^4, about log^2 n, does not; it is a heuristic that the measurements support.",
        ]


FIGURE = _Laws(
    smoke=Settings(lengths=tuple(4**k for k in range(3, 11)), simulated_lengths=(64, 256, 1024), tokens=8192),
    laptop=Settings(
        lengths=tuple(2**k for k in range(6, 21)), simulated_lengths=(64, 256, 1024, 4096, 16_384), tokens=80_000
    ),
)
