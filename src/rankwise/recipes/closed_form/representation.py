"""The weights u with which rank-1 heads represent the target, and what they represent when cut off at a degree.

    rankwise reproduce representation --preset laptop        (smoke: 3 s; laptop: 20 s on one core)

Top: u(<q, k>) = sum_l (N/lambda_l) P_l (``feature_weight``, our derivation) against the angle of q and k, for the odd
degrees up to L. Bottom: the average of u(<q, k>) sgn<q, y> sgn<k, x> over uniform q and k, which is the sign of <x, y>
up to degree L; lines are the harmonic sum, points a simulation where its noise allows. The authors' picture weights
N times the polynomial of unit norm, which is sqrt(N) too much; sqrt(N) times that polynomial is N P_l, drawn here.

To expect: no limit. The root mean square of u, sqrt(sum N/lambda_l^2), grows with every degree. The average of H heads
drawn at random leaves an error of its square over H: the representation exists, and is out of reach by sampling.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from rankwise.recipes.computed_figure import ComputedFigure
from rankwise.recipes.curves import curves
from rankwise.recipes.points import Point, Row, lines_of
from rankwise.report import GUIDE, Panel, Picture, PlotAxis, Series, dots, legend_entry, smooth
from rankwise.theory import average_of_heads, feature_weight, harmonic_dim, sign_eigenvalue, sign_energy, truncated_sign

_QUIET = 0.03  # standard error up to which a simulated point says something
_SIMULATED_ANGLES = (0.0, 30.0, 60.0, 80.0, 100.0, 120.0, 150.0, 180.0)


@dataclass(frozen=True, kw_only=True)
class Settings:
    """Dimensions, largest degrees L, angles on the axes, and (q, k) pairs per simulated point."""

    dims: tuple[int, ...]
    degrees: tuple[int, ...]
    angles: int
    samples: int


class _Representation(ComputedFigure[Settings]):
    """u above what it represents, one column per dimension.

    ``weight`` is u at an angle of q and k; ``represented`` is the sum of the sign's harmonics up to ``degree`` at that
    angle of x and y, ``simulated`` the same over random heads, with the standard error ``noise``. ``energy`` is the
    share of the sign's energy in these degrees.
    """

    name = "representation"
    columns = ("dim", "degree", "energy", "weight", "root_mean_square")

    def parts(self, settings: Settings) -> Iterator[tuple[int, int]]:
        return ((dim, degree) for dim in settings.dims for degree in settings.degrees)

    def rows(self, settings: Settings, dim: int, degree: int) -> Iterator[Row]:
        angles = sorted({*np.linspace(0, 180, settings.angles).tolist(), *_SIMULATED_ANGLES})
        cosines = np.clip(np.cos(np.radians(angles)), -1, 1)
        odd = range(1, degree + 1, 2)
        size = math.sqrt(sum(harmonic_dim(dim, of) / sign_eigenvalue(dim, of) ** 2 for of in odd))
        noise, energy, simulated = size / math.sqrt(settings.samples), sum(sign_energy(dim, of) for of in odd), {}
        if noise <= _QUIET:
            found = average_of_heads(dim, degree, np.array(_SIMULATED_ANGLES), settings.samples)
            simulated = dict(zip(_SIMULATED_ANGLES, found, strict=True))
        weights, represented = feature_weight(dim, cosines, degree), truncated_sign(dim, degree, cosines)
        for angle, weight, value in zip(angles, weights.tolist(), represented.tolist(), strict=True):
            at = {"weight": weight, "represented": value, "simulated": simulated.get(angle), "noise": noise}
            yield {"dim": dim, "degree": degree, "angle": angle, **at, "root_mean_square": size, "energy": energy}

    def tabled(self, points: Sequence[Point]) -> list[Point]:
        return [point for point in points if point["angle"] == 0]

    def picture(self, settings: Settings, points: Sequence[Point]) -> Picture:
        powers = range(1, math.ceil(math.log10(max(abs(point["weight"]) for point in points))) + 1, 2)
        ticks = {sign * 10.0**power: f"${'-' * (sign < 0)}10^{{{power}}}$" for sign in (-1, 1) for power in powers}
        x = PlotAxis(label="angle in degrees", ticks=range(0, 181, 45))
        u = PlotAxis(label=r"weight $u(\langle q, k\rangle)$", scale="symlog", ticks={**ticks, 0: "0"})
        f = PlotAxis(label=r"represented function of $\langle x, y\rangle$", low=-2.6, high=2.6)
        above, below = [], []
        at: dict[str, Any] = {"shades": True, "x": "angle"}
        for dim, own in lines_of(points, "dim").items():
            weights = curves(own, "degree", "$L = {}$".format, y="weight", marker="", **at)
            functions = curves(own, "degree", "".format, y="represented", marker="", **at)
            functions += curves(own, "degree", "".format, y="simulated", marker="o", linestyle="", **at)
            sign = Series(label="sign", x=[0, 90, 90, 180], y=[1, 1, -1, -1], style=smooth(GUIDE, "--", 0.9))
            functions += [sign, legend_entry("average over heads", **dots(GUIDE))]
            above.append(Panel(title=f"$d = {dim}$", x=x, y=u, series=weights))
            below.append(Panel(x=x, y=f, series=functions))
        title = "Rank-1 heads weighted by $u$ represent the sign up to degree $L$. No limit exists."
        return Picture(title=title, panels=[above, below], share_y="row", legend="right", size=(3.0, 3.0))

    def reading(self, settings: Settings, points: Sequence[Point]) -> list[str]:
        return [
            "The average over all (q, k) weighted by u is the target up to degree L.",
            "H random heads miss it by the square of the last column over H.",
            "Best weights for the heads at hand (figure features) do far better.",
        ]


FIGURE = _Representation(
    smoke=Settings(dims=(4, 6, 8), degrees=(1, 3, 5), angles=91, samples=200_000),
    laptop=Settings(dims=(4, 6, 8), degrees=(1, 3, 5, 9, 15), angles=721, samples=10_000_000),
)
