"""The weights u with which rank-1 heads represent the target, and what they represent when cut off at a degree.

    rankwise reproduce representation --preset laptop        (smoke: 3 s; laptop: 20 s on one core)

Top: u(<q, k>) = sum_l (N/lambda_l) P_l (``feature_weight``, our derivation) against the angle of q and k, for the odd
degrees up to L. Bottom: the average of u(<q, k>) sgn<q, y> sgn<k, x> over uniform q and k, which is the sign of <x, y>
up to degree L; lines are the harmonic sum, points a simulation where its noise allows. The authors' picture weights
N times the polynomial of unit norm, which is sqrt(N) too much; sqrt(N) times that polynomial is N P_l, drawn here.

To expect: no limit. The root mean square of u, sqrt(sum N/lambda_l^2), grows with every degree (for L = 1, 3, 5: 4.7,
47, 172 in dimension 4 and 9.7, 327, 2958 in dimension 8). The average of H heads drawn at random leaves an error of its
square over H: the representation exists, and is out of reach by sampling.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from rankwise.recipes.computed_figure import ComputedFigure
from rankwise.recipes.presented import Say
from rankwise.report.figures import GUIDE, new_figure, ramp
from rankwise.theory.harmonics import feature_weight, gegenbauer, harmonic_dim, sign_eigenvalue, sign_energy

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_QUIET = 0.03
"""Standard error up to which a simulated point says something."""
_CHUNK = 100_000


@dataclass(frozen=True, kw_only=True)
class Settings:
    """Dimensions, largest degrees L, angles on the axes, and (q, k) pairs per simulated point."""

    dims: tuple[int, ...]
    degrees: tuple[int, ...]
    angles: int
    samples: int


@dataclass(frozen=True, kw_only=True)
class Line:
    """One dimension and largest degree. ``simulated`` is empty where noise would drown it."""

    dim: int
    degree: int
    weight: list[float]
    root_mean_square: float
    represented: list[float]
    energy: float
    simulated: list[float]
    standard_error: float


@dataclass(frozen=True, kw_only=True)
class Representation:
    """All lines, over ``angles`` between q and k (and x and y), in degrees; simulated at ``simulated_angles``."""

    angles: list[float]
    simulated_angles: list[float]
    lines: list[Line]


PRESETS = {
    "smoke": Settings(dims=(4, 6, 8), degrees=(1, 3, 5), angles=91, samples=200_000),
    "laptop": Settings(dims=(4, 6, 8), degrees=(1, 3, 5, 9, 15), angles=721, samples=10_000_000),
}


def truncated_sign(dim: int, degree: int, t: np.ndarray) -> np.ndarray:
    """sum_{odd l <= degree} lambda_l N P_l(t), the best approximation of sgn(t) of that degree on the sphere."""
    total = np.zeros_like(t)
    for of in range(1, degree + 1, 2):
        total += sign_eigenvalue(dim, of) * harmonic_dim(dim, of) * gegenbauer(dim, of, t)
    return total


def _average_of_heads(dim: int, degree: int, angles: np.ndarray, samples: int) -> list[float]:
    """The mean of u(<q, k>) sgn<q, y> sgn<k, x> over uniform q and k, for x at these angles from y."""
    random = np.random.default_rng(dim * 1000 + degree)
    radians = np.radians(angles)
    total = np.zeros(len(angles))
    for done in range(0, samples, _CHUNK):
        queries, keys = (random.standard_normal((min(_CHUNK, samples - done), dim)) for _ in range(2))
        for rows in (queries, keys):
            rows /= np.linalg.norm(rows, axis=1, keepdims=True)
        weight = feature_weight(dim, np.clip(np.sum(queries * keys, axis=1), -1, 1), degree)
        # y is the first axis, x turns from it towards the second
        seen = np.outer(keys[:, 0], np.cos(radians)) + np.outer(keys[:, 1], np.sin(radians))
        total += (weight * np.sign(queries[:, 0])) @ np.sign(seen)
    return (total / samples).tolist()


class _RepresentationFigure(ComputedFigure[Settings, Representation]):
    """u above what it represents, one column per dimension."""

    name = "representation"
    columns = ("dim", "degree L", "share of the sign's energy", "u at angle 0", "root mean square of u")
    presets = PRESETS

    def compute(self, settings: Settings, say: Say) -> Representation:
        angles = np.linspace(0, 180, settings.angles)
        points = np.array([0.0, 30.0, 60.0, 80.0, 100.0, 120.0, 150.0, 180.0])
        cosines = np.clip(np.cos(np.radians(angles)), -1, 1)
        lines = []
        for dim, degree in ((dim, degree) for dim in settings.dims for degree in settings.degrees):
            odd = range(1, degree + 1, 2)
            size = math.sqrt(sum(harmonic_dim(dim, of) / sign_eigenvalue(dim, of) ** 2 for of in odd))
            noise = size / math.sqrt(settings.samples)
            if noise <= _QUIET:
                say(f"dim {dim}, degree {degree}: {settings.samples} heads")
            lines.append(
                Line(
                    dim=dim,
                    degree=degree,
                    weight=feature_weight(dim, cosines, degree).tolist(),
                    root_mean_square=size,
                    represented=truncated_sign(dim, degree, cosines).tolist(),
                    energy=sum(sign_energy(dim, of) for of in odd),
                    simulated=_average_of_heads(dim, degree, points, settings.samples) if noise <= _QUIET else [],
                    standard_error=noise,
                )
            )
        return Representation(angles=angles.tolist(), simulated_angles=points.tolist(), lines=lines)

    def draw(self, data: Representation) -> Figure:
        dims = sorted({line.dim for line in data.lines})
        highest = max(abs(value) for line in data.lines for value in line.weight)
        powers = range(1, math.ceil(math.log10(highest)) + 1, 2)
        figure = new_figure(3.4 * len(dims), 6.0)
        grid = figure.subplots(2, len(dims), sharex=True, sharey="row", squeeze=False)
        for dim, above, below in zip(dims, *grid, strict=True):
            lines = [line for line in data.lines if line.dim == dim]
            for line, colour in zip(lines, ramp(len(lines)), strict=True):
                above.plot(data.angles, line.weight, color=colour, label=f"$L = {line.degree}$", linewidth=1.3)
                below.plot(data.angles, line.represented, color=colour, linewidth=1.3)
                if line.simulated:
                    below.plot(data.simulated_angles, line.simulated, "o", color=colour, zorder=3)
            below.plot([0, 90, 90, 180], [1, 1, -1, -1], color=GUIDE, linewidth=0.9, linestyle="--", label="sign")
            below.plot([], [], "o", color=GUIDE, label="average over heads")
            above.set_yscale("symlog", linthresh=10)
            above.set_yticks([sign * 10.0**power for sign in (-1, 1) for power in powers] + [0])
            above.set_title(f"$d = {dim}$")
            below.set(xlabel="angle in degrees", xticks=range(0, 181, 45), ylim=(-2.6, 2.6))
        grid[0][0].set_ylabel(r"weight $u(\langle q, k\rangle)$")
        grid[1][0].set_ylabel(r"represented function of $\langle x, y\rangle$")
        grid[0][0].legend(loc="upper right", ncols=2)
        grid[1][0].legend(loc="upper right")
        figure.suptitle(
            "Rank-1 heads weighted by $u$ represent the sign up to degree $L$. No limit exists.", fontsize=11
        )
        return figure

    def table(self, data: Representation) -> list[tuple[str | int | float | None, ...]]:
        return [(line.dim, line.degree, line.energy, line.weight[0], line.root_mean_square) for line in data.lines]

    def reading(self, data: Representation) -> list[str]:
        return [
            "The average over all (q, k) weighted by u is the target up to degree L.",
            "H random heads miss it by the square of the last column over H.",
            "Best weights for the heads at hand (figure features) do far better.",
        ]


FIGURE = _RepresentationFigure()
