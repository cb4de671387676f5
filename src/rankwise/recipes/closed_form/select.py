"""Select or search: the smallest rank that finds the right one of N codes in 99 % of the queries.

    rankwise reproduce select --preset laptop        (smoke: 4 s; laptop: 90 s on one core)

A query is a code plus noise of length s. Points are hand-built heads of rank r (``selecting_head``) that are to choose
what a head of full rank chooses, the nearest code; bars are standard errors. Lines are the
exact rank that chooses the code which was copied (``selection_rank``). While the noise is small both are one, and rank
grows like log N. At a noise s* (dotted) not even full rank can tell which code was copied; beyond it the nearest code
is search among vectors that have nothing to do with the query, and takes nearly all d coordinates.

The third panel has fixed codes, which a head may know: projections on random directions beside the best linear
discriminant.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor

from rankwise.nn import choices_by_rank, discriminant_directions
from rankwise.recipes.computed_figure import ComputedFigure
from rankwise.recipes.curves import curve
from rankwise.recipes.points import Point, Row, Value, select
from rankwise.report import MARKERS, Panel, Picture, PlotAxis, Series, dots, ramp, smooth
from rankwise.spec import SelectSpec
from rankwise.tasks import Select
from rankwise.theory import search_noise, selection_rank, sufficient_rank

_TARGET = 0.99
_NUMBERS_AT_ONCE = 2**21
_FIXED = ("random", "discriminant")


@dataclass(frozen=True, kw_only=True)
class Settings:
    """Every number of codes with every noise, ``samples`` queries each; fixed codes with ``fixed_noise``."""

    dim: int
    codes: tuple[int, ...]
    noises: tuple[float, ...]
    samples: int
    fixed_noise: float = 0.5


def rank_needed(right: Float[Tensor, " D"]) -> int:
    """The first rank from which on a share of .99 is ``right``."""
    wrong = (right < _TARGET).nonzero()
    return int(wrong.max()) + 2 if len(wrong) else 1


class _Select(ComputedFigure[Settings]):
    """Rank against codes, rank against noise, and fixed codes.

    ``kind`` is "new" codes in every example, "search" by queries that know nothing of them, or "random" and
    "discriminant" directions for fixed codes. ``measured`` is the smallest rank that finds the nearest code in 99 %,
    ``measured_se`` a quarter of the range of ranks that two standard errors of the accuracy allow. ``exact`` is the
    smallest rank that finds the copied one of new codes, ``sufficient`` the same by the union bound for Gaussian codes.
    """

    name = "select"
    columns = ("codes", "kind", "noise", "measured", "exact", "sufficient")

    def parts(self, settings: Settings) -> Iterator[tuple[int]]:
        yield from ((codes,) for codes in settings.codes)

    def rows(self, settings: Settings, codes: int) -> Iterator[Row]:
        for noise in settings.noises:
            closed = {"exact": selection_rank(settings.dim, codes, noise), "sufficient": sufficient_rank(codes, noise)}
            yield {**_measured(settings, codes, "new", noise), **closed}
        yield _measured(settings, codes, "search", None)
        for kind in _FIXED:
            yield _measured(settings, codes, kind, settings.fixed_noise)

    def reading(self, settings: Settings, points: Sequence[Point]) -> list[str]:
        first, last = min(settings.codes), max(settings.codes)
        new, search = select(points, kind="new"), [point["measured"] for point in select(points, kind="search")]
        low, high = (select(new, codes=codes, noise=0.0)[0]["measured"] for codes in (first, last))
        limits = {codes: search_noise(settings.dim, codes) for codes in settings.codes}
        below = [point for point in new if point["noise"] < 0.8 * limits[point["codes"]]]
        off = max(abs(point["measured"] - (point["exact"] or point["dim"])) for point in below)
        return [
            f"Without noise, every doubling of the codes takes {(high - low) / math.log2(last / first):.2f} more rank.",
            f"{first} codes take rank {low}; {last} codes take rank {high} of {settings.dim}.",
            f"Search among vectors that know nothing of the query takes rank {min(search)} at least.",
            f"Even full rank loses the copied one of {first} codes from noise {limits[first]:.2f} on, "
            f"and one of {last} from {limits[last]:.2f}.",
            f"Below .8 of that noise measured and exact rank differ by at most {off}.",
            "The exact rank and the union bound are our derivations; that selection becomes search at s* is measured.",
        ]

    def picture(self, settings: Settings, points: Sequence[Point]) -> Picture:
        rank = PlotAxis(label="smallest rank for 99 % top-1", low=0, high=1.12 * settings.dim)
        codes = PlotAxis(label="codes $N$", scale="log2", ticks=settings.codes)
        shown: dict[str, Any] = {"y": rank, "levels": {"full rank": settings.dim}, "legend": "below"}
        wanted = [noise for noise in settings.noises if noise in (0.0, 0.5, 1.0, 1.5)]
        some = settings.codes[:: max(1, len(settings.codes) // 3)]
        new = select(points, kind="new")
        by_codes = _series({f"noise {noise:g}": select(new, noise=noise) for noise in wanted}, "codes")
        by_codes.append(curve("search", select(points, kind="search"), x="codes", y="measured", **dots("black", "x")))
        by_noise = _series({f"$N = {count}$": select(new, codes=count) for count in some}, "noise")
        limits = [search_noise(settings.dim, count) for count in some]
        fixed = _series({f"{kind} directions": select(points, kind=kind) for kind in _FIXED}, "codes")
        noise = PlotAxis(label="length of the noise / length of a code")
        panels = [
            Panel(title="rank grows like log $N$", x=codes, series=by_codes, legend_columns=3, **shown),
            Panel(title="search from $s^*$ on", x=noise, series=by_noise, verticals=limits, legend_columns=4, **shown),
            Panel(title="fixed codes that the head knows", x=codes, series=fixed, legend_columns=2, **shown),
        ]
        title = f"Select or search among codes in {settings.dim} dimensions: hand-built heads (points), exact (lines)"
        return Picture(title=title, panels=[panels], size=(4.2, 4.1))


def _measured(settings: Settings, codes: int, kind: str, noise: float | None) -> dict[str, Value | None]:
    dim, samples, generator = settings.dim, settings.samples, torch.Generator().manual_seed(codes)
    task = Select(SelectSpec(dim=dim, points=codes, noise=noise or 0.0, codebook=0 if kind in _FIXED else None))
    turn = discriminant_directions(task.codes).float().mT if kind == "discriminant" and task.codes is not None else None
    right, left = torch.zeros(dim), samples
    while left:
        batch = task.sample(min(left, max(1, _NUMBERS_AT_ONCE // (codes * dim))), generator)
        assert batch.queries is not None
        queries = torch.randn(len(batch), dim, generator=generator) if kind == "search" else batch.queries[:, 0]
        chosen = (
            choices_by_rank(batch.points, queries)
            if turn is None
            else choices_by_rank(batch.points @ turn, queries @ turn)
        )
        right += (chosen == chosen[:, -1:]).float().sum(dim=0)
        left -= len(batch)
    right /= samples
    errors = 2 * (right * (1 - right) / samples).sqrt()
    spread = (rank_needed(right - errors) - rank_needed(right + errors)) / 4
    found = {"measured": rank_needed(right), "measured_se": spread}
    return {"dim": dim, "codes": codes, "kind": kind, "noise": noise, **found}


def _series(groups: dict[str, list[Point]], x: str) -> list[Series]:
    """Points of every group, and their closed form, if any, as a line."""
    series = []
    for (label, own), colour, marker in zip(groups.items(), ramp(len(groups)), MARKERS, strict=False):
        series.append(curve(label, own, x=x, y="measured", **dots(colour, marker)))
        closed = curve("", own, x=x, y="exact", **smooth(colour))
        series += [closed] if closed.x else []
    return series


_NOISES = (0.0, 0.25, 0.5, 0.75, 1.0, 1.25, 1.5, 2.0, 3.0, 4.0)
FIGURE = _Select(
    smoke=Settings(dim=32, codes=(8, 64), noises=(0.0, 1.0, 4.0), samples=1000),
    laptop=Settings(dim=64, codes=tuple(2**k for k in range(3, 13)), noises=_NOISES, samples=2000),
    full=Settings(dim=256, codes=tuple(2**k for k in range(3, 13)), noises=(*_NOISES, 6.0, 8.0), samples=20_000),
)
