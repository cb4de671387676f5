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

from rankwise.recipes.cells import TWENTIETH, Sphere, sphere_trainer
from rankwise.recipes.curves import ERROR, curves, heads_of, ticked
from rankwise.recipes.points import Point, Value, lines_of, select
from rankwise.recipes.trained_figure import TrainedFigure
from rankwise.report import Panel, Picture
from rankwise.spec import RunSpec, heads_for_budget, vary
from rankwise.tasks import linear_scores_level


class _Values(TrainedFigure[Sphere]):
    """Error against query-key rank: one panel per budget of heads, one curve per value rank."""

    name = "values"
    keys = ("budget", "values", "rank")

    def runs(self, settings: Sphere, *, sequences: int | None = None) -> Iterable[RunSpec]:
        """Every rank twice."""
        train = sphere_trainer(settings, sequences)
        for exponent in settings.exponents:
            for rank in settings.ranks:
                run = train(heads=heads_for_budget(settings.dim, rank, exponent), rank=rank)
                yield run
                yield vary(run, {"model.value_rank": settings.dim})

    def columns(self, run: RunSpec) -> Mapping[str, Value]:
        model = run.model
        return {"budget": model.heads * model.rank, "values": "r" if model.value_rank is None else "d"}

    def reading(self, settings: Sphere, points: Sequence[Point]) -> list[str]:
        """What whole values gain, and what is left to query-key rank."""
        level = linear_scores_level(settings.dim, settings.points)
        lines = [f"Linear scores with whole values reach {level:.3g} at any query-key rank."]
        for own in lines_of(points, "budget").values():
            for rank in (min(settings.ranks), settings.dim // 2):
                for narrow, whole in zip(*(select(own, rank=rank, values=kind) for kind in "rd"), strict=False):
                    both = f"{narrow.error:.3g} with values of that rank, {whole.error:.3g} with whole values"
                    lines.append(f"{heads_of(narrow)}: {both}.")
        return lines

    def picture(self, settings: Sphere, points: Sequence[Point]) -> Picture:
        guides = {"linear scores, whole values": linear_scores_level(settings.dim, settings.points)}
        panels = [
            Panel(
                title=f"$H = {total}/r$",
                x=ticked(own, label="query-key rank of a head"),
                y=ERROR,
                series=curves(own, "values", "values of rank ${}$".format, x="rank"),
                levels=settings.levels,
                guides=guides,
            )
            for total, own in lines_of(points, "budget").items()
        ]
        return Picture(title=f"Values: {settings.place}, one layer", panels=[panels], legend="right")


FIGURE = _Values(
    smoke=Sphere(dim=16, points=8, exponents=(1.0,), ranks=(8, 16), sequences=32_000, seeds=1),
    laptop=Sphere(dim=16, points=8, exponents=(1.0, 1.5), ranks=(1, 2, 4, 8, 16), sequences=128_000),
    full=Sphere(dim=64, points=16, exponents=(1.0,), ranks=(64, 32, 16, 8, 4, 2, 1), sequences=TWENTIETH, seeds=1),
)
