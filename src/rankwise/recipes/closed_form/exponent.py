"""How many heads an error takes: the bound turned around, the informal statement, and our law.

    rankwise reproduce exponent --preset laptop        (smoke: 3 s; laptop: 20 s on one core)

Left: log10 of the largest H that cannot reach an error (``heads_required_log10``, our derivation, scaled-identity
values), beside (d/r)^(1/error), as the slides say it informally: an order of the exponent, without a constant. Theorem
2 itself has constants nobody has named, so it has no line. Right: the exponent log_d H for rank 1.

To expect: with constant 1 the informal law asks for far too many heads at errors above .06 and, in large dimensions,
for too few below. As d grows, log_d H approaches stairs (our derivation), one step per odd degree, which follow
2/pi^3/error^2. At fixed d and small errors H grows only like error^-(d-2).
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from rankwise.recipes.computed_figure import ComputedFigure
from rankwise.recipes.curves import curve
from rankwise.recipes.points import Point, Row, select
from rankwise.report import COLOURS, GUIDE, Panel, Picture, PlotAxis, Series, legend_entry, ramp, smooth
from rankwise.theory import LAW, heads_required_log10, limit_exponent

_TABULATED = (0.15, 0.1, 0.05)


@dataclass(frozen=True, kw_only=True)
class Settings:
    """(dim, rank) of the left panel, dimensions of the right one, and the range of errors."""

    shapes: tuple[tuple[int, int], ...]
    dims: tuple[int, ...]
    largest_error: float = 0.45
    smallest_error: float = 0.01
    steps: int = 120


class _Exponent(ComputedFigure[Settings]):
    """Orders of magnitude against the error, and the exponent to base d for rank 1."""

    name = "exponent"
    columns = ("dim", "rank", "error", "log10_heads", "log10_informal")

    def parts(self, settings: Settings) -> list[tuple[int, int]]:
        return sorted({*settings.shapes, *((dim, 1) for dim in settings.dims)})

    def rows(self, settings: Settings, dim: int, rank: int) -> Iterator[Row]:
        ratio = settings.smallest_error / settings.largest_error
        fine = (settings.largest_error * ratio ** (step / (settings.steps - 1)) for step in range(settings.steps))
        for error in sorted({*fine, *_TABULATED}, reverse=True):
            heads, informal = heads_required_log10(dim, rank, error), math.log10(dim / rank) / error
            logs = {"log10_heads": heads, "log10_informal": informal, "exponent": heads / math.log10(dim)}
            yield {"dim": dim, "rank": rank, "error": error, **logs}

    def tabled(self, points: Sequence[Point]) -> list[Point]:
        return [point for point in points if point["error"] in _TABULATED]

    def picture(self, settings: Settings, points: Sequence[Point]) -> Picture:
        left, right = [], []
        for (dim, rank), colour in zip(settings.shapes, COLOURS, strict=False):
            line = select(points, dim=dim, rank=rank)
            label = f"$d = {dim},\\ r = {rank}$"
            left.append(curve(label, line, x="error", y="log10_heads", **smooth(colour)))
            left.append(curve("", line, x="error", y="log10_informal", **smooth(colour, ":", 1.1)))
        left.append(legend_entry(r"$(d/r)^{1/\varepsilon}$, informal", **smooth(GUIDE, ":", 1.1)))
        for dim, colour in zip(settings.dims, ramp(len(settings.dims)), strict=True):
            power = math.log2(dim)
            name = f"2^{{{power:.0f}}}" if dim > 10_000 and power.is_integer() else str(dim)
            line = select(points, dim=dim, rank=1)
            right.append(curve(f"bound, $d = {name}$", line, x="error", y="exponent", **smooth(colour)))
        errors = [point["error"] for point in line]
        for label, of, style in (
            (r"bound, $d \to \infty$", limit_exponent, {**smooth("black", "-", 1.0), "drawstyle": "steps-mid"}),
            (r"$2/\pi^3\varepsilon^2$, our law", lambda error: LAW / error**2, smooth("black", "--", 1.1)),
            (r"$1/\varepsilon$, informal", lambda error: 1 / error, smooth(GUIDE, ":", 1.1)),
        ):
            right.append(Series(label=label, x=errors, y=[of(error) for error in errors], style=style))
        ticks = [tick for tick in (0.01, 0.02, 0.05, 0.1, 0.2, 0.4) if min(errors) <= tick <= max(errors)]
        x = PlotAxis(label=r"mean squared error $\varepsilon$", scale="log", ticks=ticks)
        panels = [
            Panel(title=title, x=x, y=PlotAxis(label=label, scale="log", low=0.5), series=series, legend="upper right")
            for title, label, series in (
                (r"heads that cannot reach error $\varepsilon$", r"$\log_{10} H$", left),
                ("the exponent for rank 1", r"$\log_d H$", right),
            )
        ]
        title = "Solid, dashed: our derivation. Dotted: the slides, informal, an order only. "
        title += "Theorem 2: constants unspecified, no line."
        return Picture(title=title, panels=[panels], share_y=False, size=(4.7, 4.2))

    def reading(self, settings: Settings, points: Sequence[Point]) -> list[str]:
        return [
            "H: so many heads still cannot reach the error (our derivation, value matrices a_h I); more are necessary, "
            "not sufficient.",
            "Informal: (d/r)^(1/error) of the slides, an order of the exponent.",
            "The theorem cannot be tabulated: its constants are not known.",
        ]


FIGURE = _Exponent(
    smoke=Settings(
        shapes=((64, 1), (64, 8), (64, 32)), dims=(8, 64, 1024), largest_error=0.4, smallest_error=0.02, steps=10
    ),
    laptop=Settings(shapes=((16, 1), (64, 1), (64, 8), (64, 32), (768, 64)), dims=(8, 64, 1024, 2**20)),
)
