"""How many heads an error takes: the bound turned around, the informal statement, and our law.

    rankwise reproduce exponent --preset laptop        (smoke: 3 s; laptop: 20 s on one core)

Left: log10 of the largest H that cannot reach an error (``heads_required_log10``, our derivation, scaled-identity
values), beside (d/r)^(1/error), as the slides say it informally: an order of the exponent, without a constant. Theorem
2 itself has constants nobody has named, so it has no line. Right: the exponent log_d H for rank 1. To expect: in
dimension 64, rank 1, errors .15 / .1 / .05 are out of reach of 2.5e4 / 2.3e7 / 1.6e18 heads where the informal law has
1.1e12 / 1.2e18 / 1.3e36. With constant 1 that law asks for far too many heads at errors above .06 and, in large
dimensions, for too few below. As d grows, log_d H approaches stairs (our derivation), one step per odd degree, which
follow 2/pi^3/error^2 = .0645/error^2. At fixed d and small errors H grows only like error^-(d-2).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Any

from rankwise.recipes.computed_figure import ComputedFigure
from rankwise.recipes.presented import Say
from rankwise.report.figures import COLOURS, GUIDE, new_figure, ramp
from rankwise.theory.bounds import heads_required_log10

if TYPE_CHECKING:
    from matplotlib.figure import Figure

LAW = 2 / math.pi**3
_TABULATED = (0.15, 0.1, 0.05)


@dataclass(frozen=True, kw_only=True)
class Settings:
    """(dim, rank) of the left panel, dimensions of the right one, and the range of errors."""

    shapes: tuple[tuple[int, int], ...]
    dims: tuple[int, ...]
    largest_error: float = 0.45
    smallest_error: float = 0.01
    steps: int = 120


@dataclass(frozen=True, kw_only=True)
class Line:
    """One (dim, rank): log10 of the heads that cannot reach ``Exponent.errors``, and of (d/r)^(1/error)."""

    dim: int
    rank: int
    log10_heads: list[float]
    log10_informal: list[float]


@dataclass(frozen=True, kw_only=True)
class Exponent:
    """Both panels; ``limit`` is log_d H for rank 1 and d to infinity, ``law`` is .0645/error^2."""

    errors: list[float]
    by_shape: list[Line]
    by_dim: list[Line]
    limit: list[int]
    law: list[float]


PRESETS = {
    "smoke": Settings(
        shapes=((64, 1), (64, 8), (64, 32)), dims=(8, 64, 1024), largest_error=0.4, smallest_error=0.02, steps=10
    ),
    "laptop": Settings(shapes=((16, 1), (64, 1), (64, 8), (64, 32), (768, 64)), dims=(8, 64, 1024, 2**20)),
}


def _line_at(dim: int, rank: int, errors: list[float] | tuple[float, ...]) -> Line:
    """The bound turned around and the informal statement at ``errors``."""
    return Line(
        dim=dim,
        rank=rank,
        log10_heads=[heads_required_log10(dim, rank, error) for error in errors],
        log10_informal=[math.log10(dim / rank) / error for error in errors],
    )


def limit_exponent(error: float) -> int:
    """lim log_d H for rank 1: the odd degree l whose energy takes what is left below 2 ``error``.

    d^c heads cover the degrees below c, N(d, l) being of order d^l; in the limit eta_l^2 = (2/pi) C(2k, k) / 4^k / l,
    l = 2k+1. What is left beyond l falls like sqrt(8 / (pi^3 l)), whence the law 2/pi^3/error^2.
    """
    degree, left, term = 1, 1.0, 2 / math.pi
    while left - term / degree >= 2 * error:
        left -= term / degree
        term *= degree / (degree + 1)
        degree += 2
    return degree


class _ExponentFigure(ComputedFigure[Settings, Exponent]):
    """Orders of magnitude against the error, and the exponent to base d for rank 1."""

    name = "exponent"
    columns = (
        *("dim", "rank"),
        *(f"log10 H at {error}" for error in _TABULATED),
        *(f"informal at {error}" for error in _TABULATED),
    )
    presets = PRESETS

    def compute(self, settings: Settings, say: Say) -> Exponent:
        ratio = settings.smallest_error / settings.largest_error
        errors = [settings.largest_error * ratio ** (step / (settings.steps - 1)) for step in range(settings.steps)]

        @cache
        def line(dim: int, rank: int) -> Line:
            say(f"dim {dim}, rank {rank}: {len(errors)} errors")
            return _line_at(dim, rank, errors)

        return Exponent(
            errors=errors,
            by_shape=[line(dim, rank) for dim, rank in settings.shapes],
            by_dim=[line(dim, 1) for dim in settings.dims],
            limit=[limit_exponent(error) for error in errors],
            law=[LAW / error**2 for error in errors],
        )

    def draw(self, data: Exponent) -> Figure:
        figure = new_figure(9.4, 4.2)
        left, right = figure.subplots(1, 2)
        dotted: dict[str, Any] = {"linestyle": ":", "linewidth": 1.1}
        for line, colour in zip(data.by_shape, COLOURS, strict=False):
            left.plot(data.errors, line.log10_heads, color=colour, label=f"$d = {line.dim},\\ r = {line.rank}$")
            left.plot(data.errors, line.log10_informal, color=colour, **dotted)
        left.plot([], [], color=GUIDE, label=r"$(d/r)^{1/\varepsilon}$, informal", **dotted)
        for line, colour in zip(data.by_dim, ramp(len(data.by_dim)), strict=True):
            exponents = [value / math.log10(line.dim) for value in line.log10_heads]
            power = math.log2(line.dim)
            name = f"2^{{{power:.0f}}}" if line.dim > 10_000 and power.is_integer() else str(line.dim)
            right.plot(data.errors, exponents, color=colour, label=f"bound, $d = {name}$")
        right.step(data.errors, data.limit, where="mid", color="black", linewidth=1.0, label=r"bound, $d \to \infty$")
        right.plot(data.errors, data.law, "--", color="black", linewidth=1.1, label=r"$2/\pi^3\varepsilon^2$, our law")
        informal = [1 / error for error in data.errors]
        right.plot(data.errors, informal, color=GUIDE, label=r"$1/\varepsilon$, informal", **dotted)
        left.set(ylabel=r"$\log_{10} H$", title=r"heads that cannot reach error $\varepsilon$")
        right.set(ylabel=r"$\log_d H$", title="the exponent for rank 1")
        ticks = [tick for tick in (0.01, 0.02, 0.05, 0.1, 0.2, 0.4) if min(data.errors) <= tick <= max(data.errors)]
        for axes in (left, right):
            axes.set(xscale="log", yscale="log", ylim=(0.5, None), xlabel=r"mean squared error $\varepsilon$")
            axes.set_xticks(ticks, [f"{tick:g}" for tick in ticks])
            axes.minorticks_off()
            axes.legend(loc="upper right")
        figure.suptitle(
            "Solid, dashed: our derivation. Dotted: the slides, informal, an order only. "
            "Theorem 2: constants unspecified, no line.",
            fontsize=10,
        )
        return figure

    def table(self, data: Exponent) -> list[tuple[str | int | float | None, ...]]:
        lines = [_line_at(line.dim, line.rank, _TABULATED) for line in data.by_shape]
        return [(line.dim, line.rank, *line.log10_heads, *line.log10_informal) for line in lines]

    def reading(self, data: Exponent) -> list[str]:
        return [
            "H: so many heads still cannot reach the error (our derivation, value matrices a_h I); more are necessary, "
            "not sufficient.",
            "Informal: (d/r)^(1/error) of the slides, an order of the exponent.",
            "The theorem cannot be tabulated: its constants are not known.",
        ]


FIGURE = _ExponentFigure()
