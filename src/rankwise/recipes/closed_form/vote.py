"""How many rank-1 voters it takes: accuracy of the two-layer majority vote against the number of heads.

    rankwise reproduce vote --preset laptop        (smoke: 5 s; laptop: 1 minute on one core)

Lines are the quadrature of ``majority_accuracy``. Points are the hand-built two-layer network ``majority_vote`` on
fresh data with several draws of its random heads, bars two standard errors between draws. To expect: one random head
in dimension d is right with probability 1/2 + .254/sqrt d; for H >> d the wrong answers fall like sqrt(d/H)/2, so
accuracy .9 / .95 / .99 takes 153 / 641 / 16,287 heads in dimension 8 and 1,461 / 6,147 / 156,153 in dimension 64.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from statistics import fmean, stdev
from typing import TYPE_CHECKING, Any

import torch

from rankwise.nn.constructions import majority_vote
from rankwise.recipes.computed_figure import ComputedFigure
from rankwise.recipes.presented import Say
from rankwise.report.figures import COLOURS, GUIDE, MARKERS, new_figure
from rankwise.tasks import NearestNeighbor
from rankwise.theory.depth import majority_accuracy, majority_heads_required

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_TARGETS = (0.9, 0.95, 0.99)


@dataclass(frozen=True, kw_only=True)
class Settings:
    """Sizes of the figure; ``draws`` of the heads are measured on ``samples`` examples each."""

    dims: tuple[int, ...]
    most_heads: int
    simulated_heads: tuple[int, ...]
    draws: int
    samples: int


@dataclass(frozen=True, kw_only=True)
class Line:
    """One dimension: quadrature at ``heads``, simulation at ``simulated_heads``."""

    dim: int
    heads: list[int]
    accuracy: list[float]
    simulated_heads: list[int]
    simulated: list[float]
    standard_error: list[float]
    required: list[int]
    """Heads needed for an accuracy of .9, .95 and .99."""


@dataclass(frozen=True, kw_only=True)
class Vote:
    """All lines of the figure."""

    lines: list[Line]


PRESETS = {
    "smoke": Settings(dims=(8, 64), most_heads=10**5, simulated_heads=(1, 9, 101), draws=8, samples=500),
    "laptop": Settings(
        dims=(8, 16, 64), most_heads=10**6, simulated_heads=(1, 3, 9, 31, 101, 317, 1001, 3163), draws=24, samples=2000
    ),
}


def _simulated(dim: int, heads: int, settings: Settings) -> tuple[float, float]:
    """Accuracy of the network and its standard error.

    The squared error is 2 when the network picks the wrong one of two orthogonal points.
    """
    generator = torch.Generator().manual_seed(heads + 7919 * dim)
    task = NearestNeighbor(dim, 2, distribution="orthogonal")
    right = []
    for _ in range(settings.draws):
        network = majority_vote(dim, heads, generator)
        batch = task.sample(settings.samples, generator)
        with torch.no_grad():
            error = task.error(network(batch.queries, batch.points), batch)
        right.append((error < 1).double().mean().item())
    return fmean(right), stdev(right) / math.sqrt(len(right))


class _VoteFigure(ComputedFigure[Settings, Vote]):
    """Accuracy against heads, and the wrong answers in logarithms beside their law."""

    name = "vote"
    columns = ("dim", "one head", *(f"heads for {target:g}" for target in _TARGETS))
    presets = PRESETS

    def compute(self, settings: Settings, say: Say) -> Vote:
        octaves = int(2 * math.log2(settings.most_heads))
        heads = sorted({2 * (round(2 ** (step / 2)) // 2) + 1 for step in range(octaves + 1)})
        lines = []
        for dim in settings.dims:
            say(f"dim {dim}: {settings.draws} draws of up to {max(settings.simulated_heads)} heads")
            measured = [_simulated(dim, count, settings) for count in settings.simulated_heads]
            lines.append(
                Line(
                    dim=dim,
                    heads=heads,
                    accuracy=[majority_accuracy(dim, count) for count in heads],
                    simulated_heads=list(settings.simulated_heads),
                    simulated=[mean for mean, _ in measured],
                    standard_error=[error for _, error in measured],
                    required=[majority_heads_required(dim, target) for target in _TARGETS],
                )
            )
        return Vote(lines=lines)

    def draw(self, data: Vote) -> Figure:
        figure = new_figure(8.6, 3.7)
        left, right = figure.subplots(1, 2)
        for line, colour, marker in zip(data.lines, COLOURS, MARKERS, strict=False):
            points: dict[str, Any] = {"color": colour, "marker": marker, "linestyle": "none"}
            bars = [2 * error for error in line.standard_error]
            left.plot(line.heads, line.accuracy, color=colour, label=f"$d = {line.dim}$")
            left.errorbar(line.simulated_heads, line.simulated, yerr=bars, capsize=2, **points)
            right.plot(line.heads, [1 - value for value in line.accuracy], color=colour, label=f"$d = {line.dim}$")
            right.plot(line.simulated_heads, [1 - value for value in line.simulated], **points)
            far = [count for count in line.heads if count >= 4 * line.dim]
            law = [0.5 * math.sqrt(line.dim / count) for count in far]
            right.plot(far, law, color=GUIDE, linestyle=":", linewidth=1.1)
        right.plot([], [], color=GUIDE, linestyle=":", linewidth=1.1, label=r"$\frac{1}{2}\sqrt{d/H}$")
        for target in _TARGETS:
            left.axhline(target, color=GUIDE, linewidth=0.7, linestyle="--")
            above: dict[str, Any] = {"xytext": (0, 2), "textcoords": "offset points", "fontsize": 7, "color": GUIDE}
            left.annotate(f"{target:g}", (1.1, target), **above)
        left.set(xscale="log", ylim=(0.48, 1.01), xlabel="heads $H$", ylabel="probability to pick the nearer point")
        right.set(xscale="log", yscale="log", xlabel="heads $H$", ylabel="probability to pick the other point")
        left.set_title("accuracy: quadrature (lines), network (points)")
        right.set_title("wrong answers and their law")
        left.legend(loc="lower right")
        right.legend(loc="lower left")
        figure.suptitle("Majority vote of random rank-1 heads, two layers, two orthogonal points", fontsize=11)
        return figure

    def table(self, data: Vote) -> list[tuple[str | int | float | None, ...]]:
        return [(line.dim, majority_accuracy(line.dim, 1), *line.required) for line in data.lines]

    def reading(self, data: Vote) -> list[str]:
        worst = max(
            abs(measured - majority_accuracy(line.dim, heads)) / error
            for line in data.lines
            for heads, measured, error in zip(line.simulated_heads, line.simulated, line.standard_error, strict=True)
        )
        return [
            "Two rank-1 layers do what one cannot, at the price of many heads.",
            "A share e of wrong answers takes about d / (4 e^2) heads.",
            f"Network and quadrature differ by at most {worst:.1f} standard errors here.",
        ]


FIGURE = _VoteFigure()
