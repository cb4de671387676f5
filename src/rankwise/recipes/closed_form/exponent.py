"""How many heads an error takes: the bound turned around, the informal statement, and our law.

    rankwise reproduce exponent --preset laptop        (smoke: 3 s; laptop: 20 s on one core)

Lines are log10 of the largest H that cannot reach an error (``heads_required_log10``, our derivation, scaled-identity
values). Beside them (d/r)^(1/error), as the slides say it informally: an order of the exponent, no constant is given;
with constant 1 it asks for far too many heads at errors above .06 and, in large dimensions, for too few below. Theorem
2 itself has constants nobody has named, so it has no line. On the right the exponent log_d H for rank 1: as d grows it
approaches stairs (our derivation), one step an odd degree, which follow 2/pi^3/error^2 = .0645/error^2 at small
errors. To expect: in dimension 64, rank 1, errors .15 / .1 / .05 are out of reach of 2.5e4 / 2.3e7 / 1.6e18 heads where
the informal law has 1.1e12 / 1.2e18 / 1.3e36; at fixed d and small errors H grows only like error^-(d-2).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from rankwise.recipes.registry import Reproduced, Say, pick_preset, write_numbers
from rankwise.report.figures import COLOURS, GUIDE, house_style, new_figure, ramp, require_drawing, save_figure
from rankwise.theory.bounds import heads_required_log10

LAW = 2 / math.pi**3
TABULATED = (0.15, 0.1, 0.05)


@dataclass(frozen=True, kw_only=True)
class Settings:
    """(dim, rank) of the left panel, dimensions of the right one, and the range of errors."""

    shapes: tuple[tuple[int, int], ...]
    dims: tuple[int, ...]
    largest_error: float
    smallest_error: float
    steps: int


PRESETS = {
    "smoke": Settings(
        shapes=((64, 1), (64, 8), (64, 32)), dims=(8, 64, 1024), largest_error=0.4, smallest_error=0.02, steps=10
    ),
    "laptop": Settings(
        shapes=((16, 1), (64, 1), (64, 8), (64, 32), (768, 64)),
        dims=(8, 64, 1024, 2**20),
        largest_error=0.45,
        smallest_error=0.01,
        steps=120,
    ),
}


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


def compute(settings: Settings, say: Say = lambda line: None) -> Exponent:
    """The numbers of the figure."""
    ratio = settings.smallest_error / settings.largest_error
    errors = [settings.largest_error * ratio ** (step / (settings.steps - 1)) for step in range(settings.steps)]

    @cache
    def line(dim: int, rank: int) -> Line:
        say(f"dim {dim}, rank {rank}: {len(errors)} errors")
        return Line(
            dim=dim,
            rank=rank,
            log10_heads=[heads_required_log10(dim, rank, error) for error in errors],
            log10_informal=[math.log10(dim / rank) / error for error in errors],
        )

    return Exponent(
        errors=errors,
        by_shape=[line(dim, rank) for dim, rank in settings.shapes],
        by_dim=[line(dim, 1) for dim in settings.dims],
        limit=[limit_exponent(error) for error in errors],
        law=[LAW / error**2 for error in errors],
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


def draw(data: Exponent, stem: Path) -> tuple[Path, Path]:
    """Orders of magnitude against the error, and the exponent to base d for rank 1."""
    with house_style():
        figure = new_figure(9.4, 4.2)
        left, right = figure.subplots(1, 2)
        for line, colour in zip(data.by_shape, COLOURS, strict=False):
            left.plot(data.errors, line.log10_heads, color=colour, label=f"$d = {line.dim},\\ r = {line.rank}$")
            left.plot(data.errors, line.log10_informal, color=colour, linestyle=":", linewidth=1.1)
        left.plot([], [], color=GUIDE, linestyle=":", linewidth=1.1, label=r"$(d/r)^{1/\varepsilon}$, informal")
        for line, colour in zip(data.by_dim, ramp(len(data.by_dim)), strict=True):
            exponents = [value / math.log10(line.dim) for value in line.log10_heads]
            power = math.log2(line.dim)
            name = f"2^{{{power:.0f}}}" if line.dim > 10_000 and power.is_integer() else str(line.dim)
            right.plot(data.errors, exponents, color=colour, label=f"bound, $d = {name}$")
        right.step(data.errors, data.limit, where="mid", color="black", linewidth=1.0, label=r"bound, $d \to \infty$")
        right.plot(
            data.errors,
            data.law,
            color="black",
            linestyle="--",
            linewidth=1.1,
            label=r"$2/\pi^3\varepsilon^2$, our law",
        )
        informal = [1 / error for error in data.errors]
        right.plot(data.errors, informal, color=GUIDE, linestyle=":", label=r"$1/\varepsilon$, informal")
        left.set(
            yscale="log",
            ylim=(0.5, None),
            ylabel=r"$\log_{10} H$",
            title=r"heads that cannot reach error $\varepsilon$",
        )
        right.set(yscale="log", ylim=(0.5, None), ylabel=r"$\log_d H$", title="the exponent for rank 1")
        ticks = [tick for tick in (0.01, 0.02, 0.05, 0.1, 0.2, 0.4) if min(data.errors) <= tick <= max(data.errors)]
        for axes in (left, right):
            axes.set_xscale("log")
            axes.set_xticks(ticks, [f"{tick:g}" for tick in ticks])
            axes.minorticks_off()
            axes.set_xlabel(r"mean squared error $\varepsilon$")
            axes.legend(loc="upper right")
        figure.suptitle(
            "Solid, dashed: our derivation. Dotted: the slides, informal, an order only. "
            "Theorem 2: constants unspecified, no line.",
            fontsize=10,
        )
    return save_figure(figure, stem)


def reproduce(preset: str, out: Path, say: Say) -> Reproduced:
    """Compute, write numbers and pictures, and tabulate log10 of the heads for three errors."""
    require_drawing()
    data = compute(pick_preset(PRESETS, preset), say)
    files = (*draw(data, out / "exponent"), write_numbers(data, out / "exponent"))
    return Reproduced(
        columns=(
            "dim",
            "rank",
            *(f"log10 H at {error}" for error in TABULATED),
            *(f"informal at {error}" for error in TABULATED),
        ),
        rows=tuple(
            (
                line.dim,
                line.rank,
                *(heads_required_log10(line.dim, line.rank, error) for error in TABULATED),
                *(math.log10(line.dim / line.rank) / error for error in TABULATED),
            )
            for line in data.by_shape
        ),
        reading="H: so many heads still cannot reach the error (our derivation, value matrices a_h I; more are "
        "necessary, not sufficient). Informal: (d/r)^(1/error) of the slides, an order of the exponent. The theorem "
        "cannot be tabulated: its constants are not known.",
        files=files,
    )
