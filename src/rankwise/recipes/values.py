"""Values: what does low query-key rank alone limit? The same heads with values of their rank, and with whole values.

    rankwise reproduce values

The heads of Figure 1 have values of their rank r, so that low rank limits two things: which point a head can find, and
how many coordinates of it the head can pass on. The theorem limits the first alone: its value matrices are d x d. Here
one layer of H = d^c / r heads of rank r is trained twice, with value rank r and with value rank d, by one protocol.
The level "linear scores" is what heads of any query-key rank reach together if their values are whole
(``nn.constructions.linear_scores``): an error above it is not the fault of query-key rank.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from rankwise.recipes.cells import TWENTIETH, SphereSizes, sphere_trainer
from rankwise.recipes.marks import ERROR, Value, curve, lines_of, select, ticked
from rankwise.recipes.rows import Point
from rankwise.recipes.trained_figure import TrainedFigure
from rankwise.report import Panel, Picture
from rankwise.spec import RunSpec, heads_for_budget, vary
from rankwise.tasks import linear_scores_level, trivial_errors

_LABELS = {"r": "values of rank $r$", "d": "values of rank $d$"}


@dataclass(frozen=True, kw_only=True)
class Sizes(SphereSizes):
    """The sizes of a preset: H = d^c / r heads for every exponent c."""

    exponents: tuple[float, ...]


PRESETS = {
    "smoke": Sizes(dim=16, points=8, exponents=(1.0,), ranks=(8, 16), sequences=32_000, seeds=1),
    "laptop": Sizes(dim=16, points=8, exponents=(1.0, 1.5), ranks=(1, 2, 4, 8, 16), sequences=128_000),
    "full": Sizes(dim=64, points=16, exponents=(1.0,), ranks=(64, 32, 16, 8, 4, 2, 1), sequences=TWENTIETH, seeds=1),
}


class _Values(TrainedFigure[Sizes]):
    """Error against query-key rank: one panel per budget of heads, one curve per value rank."""

    name = "values"
    keys = ("budget", "values", "rank")
    presets = PRESETS

    def runs(self, settings: Sizes, *, sequences: int | None = None) -> Iterable[RunSpec]:
        """Every rank twice."""
        train = sphere_trainer(settings, sequences)
        for exponent in settings.exponents:
            for rank in settings.ranks:
                run = train(heads=heads_for_budget(settings.dim, rank, exponent), rank=rank)
                yield run
                yield vary(run, {"model.value_rank": settings.dim})

    def columns(self, run: RunSpec) -> Mapping[str, Value]:
        """Which values a head has, and how many heads there are."""
        model = run.model
        return {"budget": model.heads * model.rank, "values": "r" if model.value_rank is None else "d"}

    def reading(self, settings: Sizes, marks: Sequence[Point]) -> list[str]:
        """What whole values gain, and what is left to query-key rank."""
        level = linear_scores_level(settings.dim, settings.points)
        lines = [f"Linear scores with whole values reach {level:.3g} at any query-key rank."]
        for total, own in lines_of(marks, "budget").items():
            for rank in (min(settings.ranks), settings.dim // 2):
                both = [select(own, rank=rank, values=kind) for kind in ("r", "d")]
                if all(both):
                    narrow, whole = (found[0].error for found in both)
                    lines.append(
                        f"{total // rank} heads of rank {rank}: {narrow:.3g} with values of rank {rank}, "
                        f"{whole:.3g} with whole values."
                    )
        return lines

    def picture(self, settings: Sizes, marks: Sequence[Point]) -> Picture:
        """One panel per budget."""
        levels = trivial_errors(settings.dim, settings.points)
        guides = {"linear scores, whole values": linear_scores_level(settings.dim, settings.points)}
        panels = []
        for total, own in lines_of(marks, "budget").items():
            series = [curve(_LABELS[kind], line, x="rank") for kind, line in lines_of(own, "values").items()]
            x = ticked(own, label="query-key rank of a head")
            panels.append(Panel(title=f"$H = {total}/r$", x=x, y=ERROR, series=series, levels=levels, guides=guides))
        title = f"Values: farthest of {settings.points} points in {settings.dim} dimensions, one layer"
        return Picture(title=title, panels=[panels], legend="right")


FIGURE = _Values()
