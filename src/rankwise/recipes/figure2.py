"""Figure 2: what full-rank heads learn. One head alone learns the exact head, scores -beta <x, y>; of several not all.

    rankwise reproduce figure2

The full-rank cells of figure 1 with one layer (the same runs, trained once if both use one store), and of every head,
from its weights: the angle between ``A = s W_Q^T W_K`` and -I, and its scale ``|A|_F / sqrt(d)``; angles are those of
the inner product ``tr(A^T B)``, and s is the factor of the scores, 1/sqrt(r) times the learned temperature. An exact
head ``-beta I`` has angle 0 and scale beta; a random matrix has an angle of about 90 degrees. So are ``W_O W_V`` and
I compared. The paper's picture has the angle to +I and the scale without s = 1/sqrt(d); its medians are converted.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterable, Mapping, Sequence

from rankwise.measure import angle_and_scale
from rankwise.recipes.cells import TWENTIETH, Sphere, sphere_trainer
from rankwise.recipes.curves import counted, curve
from rankwise.recipes.paper_figures import published
from rankwise.recipes.points import Point, Value, lines_of
from rankwise.recipes.trained_figure import TrainedFigure
from rankwise.report import COLOURS, MARKERS, Panel, Picture, PlotAxis, Series, dots
from rankwise.spec import RunSpec, heads_for_budget
from rankwise.sweep import TrainedRun

_PANELS = (
    ("qk", "which point is chosen", "scores: angle of $W_Q^T W_K$ to $-I$"),
    ("ov", "what is answered", "values: angle of $W_O W_V$ to $I$"),
)


class _Figure2(TrainedFigure[Sphere]):
    """Angle against scale, a dot per head; left the scores, right the values; few heads above many."""

    name = "figure2"
    keys = ("heads", "seed", "head")
    tabled = ("error", "qk_angle", "qk_scale", "ov_angle")

    def runs(self, settings: Sphere, *, protocol: str = "capacity", sequences: int | None = None) -> Iterable[RunSpec]:
        """The full-rank cells of one layer of figure 1."""
        train = sphere_trainer(settings, sequences, protocol=protocol)
        for exponent in settings.exponents:
            yield train(heads=heads_for_budget(settings.dim, settings.dim, exponent), rank=settings.dim)

    def measured(self, trained: TrainedRun) -> Iterable[Mapping[str, Value]]:
        """One row per head."""
        from rankwise.nn import MultiheadAttention, Transformer
        from rankwise.sweep import trained_model

        model = trained_model(trained)
        assert isinstance(model, Transformer)
        (layer,) = model.attention_layers()
        assert isinstance(layer, MultiheadAttention)
        for head in range(layer.spec.heads):
            scores = layer.score_scale(head) * layer.qk(head).dense()
            qk_angle, qk_scale = angle_and_scale(scores, sign=-1)
            ov_angle, ov_scale = angle_and_scale(layer.ov(head).dense() / layer.spec.average, sign=1)
            yield {"head": head, "qk_angle": qk_angle, "qk_scale": qk_scale, "ov_angle": ov_angle, "ov_scale": ov_scale}

    def reading(self, settings: Sphere, points: Sequence[Point]) -> list[str]:
        lines = []
        for heads, own in lines_of(points, "heads").items():
            angles = [point.mean("qk_angle") for point in own]
            mean, most = statistics.fmean(angles), max(angles)
            lines.append(f"{counted(heads, 'head')}: {mean:.1f} degrees from -I on average, {most:.1f} at most.")
        return [*lines, "Random matrices are about 90 degrees away."]

    def picture(self, settings: Sphere, points: Sequence[Point]) -> Picture:
        authors, panels = published_medians(settings.dim, settings.points), []
        for part, title, name in _PANELS:
            series = []
            for place, (heads, own) in enumerate(lines_of(points, "heads").items()):
                look = dots(COLOURS[place], MARKERS[place], alpha=0.7, zorder=3 - place / 10)
                series.append(curve(counted(heads, "head"), own, x=f"{part}_angle", y=f"{part}_scale", **look))
            for place, (angle, scale) in enumerate(authors.values() if part == "qk" else ()):
                cross = dots(COLOURS[place], "x", markersize=9, zorder=4)
                series.append(Series(label="paper (medians)", x=[angle], y=[scale], style=cross))
            # an angle of 0 is the result: its dots must not be cut
            x = PlotAxis(label=f"{name}, degrees", ticks=range(0, 181, 30), low=-5, high=185)
            y = PlotAxis(label=r"scale, Frobenius norm / $\sqrt{d}$", scale="log")
            panels.append(Panel(title=title, x=x, y=y, series=series, verticals=[90]))
        title = f"Full-rank heads, {settings.place}"
        return Picture(title=title, panels=[panels], legend="right", share_y=False)


def published_medians(dim: int, points: int) -> dict[int, tuple[float, float]]:
    """The paper's median angle to -I and scale, as ours are measured, by the number of heads; at its size alone."""
    angles, scales = (published("figure2", dim=dim, points=points, measure=what) for what in ("angle", "scale"))
    return {heads: (180 - angle, scales[heads] / math.sqrt(dim)) for heads, angle in angles.items()}


FIGURE = _Figure2(
    smoke=Sphere(dim=16, points=8, exponents=(1.0, 1.5), sequences=32_000, seeds=1),
    laptop=Sphere(dim=16, points=8, sequences=128_000),
    full=Sphere(dim=64, points=16, sequences=TWENTIETH, seeds=1),
)
