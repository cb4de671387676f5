"""Two laws for the head dimension that keeps up with the sequence: c log n, and c t^4 with t = Phi^-1(1 - 1/n).

    rankwise reproduce laws --preset laptop        (smoke: 3 s; laptop: half a minute on one core)

Left: the head dimension that reaches 90 % of the plateau (quadrature, Gaussian keys, full mask) with both laws matched
at 64 tokens. Right: the share of the plateau that heads keep which grow by either law, quadrature as lines and
simulation as points. To expect: c log n falls from .90 of the plateau at 64 tokens to .70 at 16,384 and .57 at a
million, c t^4 (about log^2 n) stays between .90 and .91. The paper's Omega(log n) is a lower bound and is not refuted:
log n is not enough. That t^4 is, is a heuristic with numbers beside it, not a proof.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from pathlib import Path

from rankwise.recipes.registry import Reproduced, Say, pick_preset, write_numbers
from rankwise.report.figures import COLOURS, MARKERS, house_style, new_figure, require_drawing, save_figure
from rankwise.theory.saturation import (
    expected_hardmax_rank,
    hardmax_rank_mean,
    saturation_dim,
    saturation_law,
    simulate_hardmax_rank,
)

START = 64
NAMES = ("c log n", "c t^4")


@dataclass(frozen=True, kw_only=True)
class Settings:
    """Lengths of the lines and of the simulated points, whose means are over about ``tokens`` / length trials."""

    lengths: tuple[int, ...]
    simulated_lengths: tuple[int, ...]
    tokens: int


PRESETS = {
    "smoke": Settings(lengths=tuple(4**k for k in range(3, 11)), simulated_lengths=(64, 256, 1024), tokens=8192),
    "laptop": Settings(
        lengths=tuple(2**k for k in range(6, 21)), simulated_lengths=(64, 256, 1024, 4096, 16_384), tokens=80_000
    ),
}


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


def head_dim_by(name: str, length: int, matched: int) -> int:
    """The head dimension at ``length`` of the law that gives ``matched`` at 64 tokens."""
    growth = math.log(length) / math.log(START) if name == NAMES[0] else saturation_law(length) / saturation_law(START)
    return max(2, round(matched * growth))


def compute(settings: Settings, say: Say = lambda line: None) -> Laws:
    """The numbers of the figure."""
    matched = saturation_dim(START).value
    laws = []
    for name in NAMES:
        sizes = [head_dim_by(name, length, matched) for length in settings.lengths]
        points = []
        for length in settings.simulated_lengths:
            size, trials = head_dim_by(name, length, matched), max(4, settings.tokens // length)
            say(f"{name}: {trials} heads of dimension {size} on {length} tokens")
            point = simulate_hardmax_rank(length, size, trials=trials, seed=length)
            plateau = hardmax_rank_mean(length)
            points.append((point.mean / plateau, point.standard_error / plateau))
        laws.append(
            Law(
                name=name,
                head_dims=sizes,
                kept=[
                    expected_hardmax_rank(length, size) / hardmax_rank_mean(length)
                    for length, size in zip(settings.lengths, sizes, strict=True)
                ],
                simulated=[mean for mean, _ in points],
                standard_error=[error for _, error in points],
            )
        )
    return Laws(
        lengths=list(settings.lengths),
        saturation_dims=[saturation_dim(length).value for length in settings.lengths],
        simulated_lengths=list(settings.simulated_lengths),
        laws=laws,
    )


def draw(data: Laws, stem: Path) -> tuple[Path, Path]:
    """Head dimension against length, and the share of the plateau kept."""
    texts = dict(zip(NAMES, (r"$c\,\log n$", r"$c\,t_n^4,\ t_n = \Phi^{-1}(1 - 1/n)$"), strict=True))
    with house_style():
        figure = new_figure(8.6, 3.7)
        left, right = figure.subplots(1, 2)
        left.plot(data.lengths, data.saturation_dims, "*", color="black", markersize=8, label="90 % of the plateau")
        for index, law in enumerate(data.laws):
            colour, marker = COLOURS[index], MARKERS[index]
            left.plot(data.lengths, law.head_dims, color=colour, label=texts[law.name])
            right.plot(data.lengths, law.kept, color=colour, label=texts[law.name])
            right.errorbar(
                data.simulated_lengths,
                law.simulated,
                yerr=[2 * error for error in law.standard_error],
                color=colour,
                marker=marker,
                linestyle="none",
                capsize=2,
            )
        left.set_yscale("log", base=2)
        ticks = [32, 64, 128, 256, 512]
        left.set_yticks(ticks, [str(tick) for tick in ticks])
        left.set(ylabel="head dimension", title="what 90 % of the plateau takes")
        right.set(ylim=(0.45, 1.0), ylabel="hardmax rank / plateau", title="what heads keep that grow by a law")
        for axes in (left, right):
            axes.set_xscale("log", base=2)
            axes.set_xlabel("tokens $n$")
        left.legend(loc="upper left")
        right.legend(loc="lower left")
        figure.suptitle("Two laws matched at 64 tokens: quadrature (lines), simulation (points)", fontsize=11)
    return save_figure(figure, stem)


def reproduce(preset: str, out: Path, say: Say) -> Reproduced:
    """Compute, write numbers and pictures, and tabulate both laws."""
    require_drawing()
    data = compute(pick_preset(PRESETS, preset), say)
    files = (*draw(data, out / "laws"), write_numbers(data, out / "laws"))
    log, power = data.laws
    rows = zip(data.lengths, data.saturation_dims, log.head_dims, log.kept, power.head_dims, power.kept, strict=True)
    return Reproduced(
        columns=("tokens", "needed", "c log n", "log n keeps", "c t^4", "t^4 keeps"),
        rows=tuple(rows),
        reading="A head dimension that grows like log n loses ground at every doubling; t^4, about log^2 n, does not. "
        "The first is what the measurements exclude, the second a heuristic that they support.",
        files=files,
    )
