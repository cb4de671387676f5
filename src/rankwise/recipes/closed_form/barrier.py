"""Barrier and saturation: mean hardmax rank of random attention against the head dimension.

    rankwise reproduce barrier --preset laptop        (smoke: 5 s; laptop: 1 minute on one core)

Three panels, full mask, causal mask, and full mask with unit-norm keys; one line per sequence length by quadrature
(``expected_hardmax_rank``), points by simulation, a star where 90 % of the barrier is reached. To expect: no line rises
above 1 - 1/e of the length (full) or 1/2 (causal); longer sequences need larger heads to come near; with unit keys a
handful of dimensions suffice at any length.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from rankwise.recipes.computed_figure import ComputedFigure
from rankwise.recipes.curves import curves
from rankwise.recipes.points import Point, Row, Value, estimated, lines_of, select
from rankwise.report import Panel, Picture, PlotAxis, Series, dots
from rankwise.theory import expected_hardmax_rank, hardmax_rank_mean, saturation_dim, simulate_hardmax_rank

PANELS = {
    "full mask": ("full", "gaussian"),
    "causal mask": ("causal", "gaussian"),
    "unit keys, full mask": ("full", "unit"),
}


@dataclass(frozen=True, kw_only=True)
class Settings:
    """Lengths and head dimensions; each simulated point is a mean over about ``tokens`` / length trials."""

    lengths: tuple[int, ...]
    head_dims: tuple[int, ...]
    simulated_dims: tuple[int, ...]
    tokens: int


class _Barrier(ComputedFigure[Settings]):
    """Hardmax rank against the head dimension, for several lengths, under two masks and with unit keys.

    Ranks are shares of the length: ``expected`` by quadrature, ``simulated``, and their ``barrier`` at large head
    dimensions; ``saturation_dim`` is the head dimension that reaches 90 % of it.
    """

    name = "barrier"
    columns = ("panel", "length", "barrier", "saturation_dim", "expected")

    def parts(self, settings: Settings) -> Iterator[tuple[str, int]]:
        return ((panel, length) for panel in PANELS for length in settings.lengths)

    def rows(self, settings: Settings, panel: str, length: int) -> Iterator[Row]:
        mask, keys = PANELS[panel]
        enough, barrier = saturation_dim(length, mask=mask, keys=keys).value, hardmax_rank_mean(length, mask) / length
        trials = max(4, settings.tokens // length)
        for size in sorted({*settings.head_dims, *settings.simulated_dims}):
            ranks: dict[str, Value] = {}
            # for Gaussian keys of 2 or 3 dimensions the quadrature's closure is off by up to 5 % of the barrier
            if size >= 4 or keys == "unit":
                ranks["expected"] = expected_hardmax_rank(length, size, mask, keys=keys) / length
            if size in settings.simulated_dims:
                found = simulate_hardmax_rank(length, size, mask, keys=keys, trials=trials, seed=length + size)
                ranks |= estimated("simulated", found, unit=length)
            known: dict[str, Value] = {"barrier": barrier, "saturation_dim": enough}
            yield {"panel": panel, "length": length, "head_dim": size, **known, **ranks}

    def tabled(self, points: Sequence[Point]) -> list[Point]:
        return select(points, head_dim=max(point["head_dim"] for point in points))

    def picture(self, settings: Settings, points: Sequence[Point]) -> Picture:
        panels = []
        for panel, (mask, _) in PANELS.items():
            own = select(points, panel=panel)
            series = curves(own, "length", "$n = {}$".format, shades=True, x="head_dim", y="expected", marker="")
            series += curves(own, "length", "".format, shades=True, x="head_dim", y="simulated", linestyle="")
            ends, star = (
                [line[0] for line in lines_of(own, "length").values()],
                dots("black", "*", markersize=10, zorder=4),
            )
            enough, ninety = [end["saturation_dim"] for end in ends], [0.9 * end["barrier"] for end in ends]
            series.append(Series(label="90 % of barrier", x=enough, y=ninety, style=star))
            panels.append(
                Panel(
                    title=panel,
                    x=PlotAxis(label="head dimension", scale="log2", ticks=(2, 8, 32, 128, 512), low=1.8, high=600),
                    y=PlotAxis(label="hardmax rank / length", low=0, high=0.7),
                    series=series,
                    levels={"0.5": 0.5} if mask == "causal" else {"0.632": 0.6321},
                    level_side="left",
                )
            )
        title = "Rank of random attention: quadrature (lines) and simulation (points)"
        return Picture(title=title, panels=[panels], legend="right", size=(3.2, 3.8))

    def reading(self, settings: Settings, points: Sequence[Point]) -> list[str]:
        both = [point for point in points if "simulated" in point and "expected" in point]
        worst = max(abs(point["simulated"] - point["expected"]) / point["barrier"] for point in both)
        return [
            "Means of random heads: single draws scatter around them, and trained heads are free of both levels.",
            f"Quadrature and simulation differ by at most {100 * worst:.1f} % of the barrier, noise included.",
        ]


FIGURE = _Barrier(
    smoke=Settings(
        lengths=(64, 256, 1024),
        head_dims=(2, 3, 4, 6, 8, 12, 16, 32, 64, 128, 256),
        simulated_dims=(2, 8, 32, 128),
        tokens=4096,
    ),
    laptop=Settings(
        lengths=(64, 256, 1024, 4096),
        head_dims=(2, 3, 4, 5, 6, 8, 10, 12, 16, 20, 24, 32, 40, 48, 64, 80, 96, 128, 160, 192, 256, 320, 384, 512),
        simulated_dims=(2, 3, 4, 8, 16, 32, 64, 128, 256, 512),
        tokens=40_000,
    ),
)
