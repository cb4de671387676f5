"""Figure 2: what full-rank heads learn. One head alone learns the exact head, scores -beta <x, y>; of several not all.

    rankwise reproduce figure2

The full-rank cells of figure 1 with one layer (the same runs, trained once if both use one store), and of every head,
from its weights: the angle between ``A = s W_Q^T W_K`` and -I, and its scale ``|A|_F / sqrt(d)``; angles are those of
the inner product ``tr(A^T B)``, and s is the factor of the scores, 1/sqrt(r) times the learned temperature. An exact
head ``-beta I`` has angle 0 and scale beta; a random matrix has an angle of about 90 degrees. Likewise ``W_O W_V`` and
I. The paper's picture has the angle to +I and the scale without s = 1/sqrt(d); its medians are converted.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from rankwise.recipes.cells import TWENTIETH, budget, counted, farthest, train_as
from rankwise.recipes.curves import titled
from rankwise.recipes.paper_figures import published
from rankwise.recipes.rows import Point, Value, lines_of
from rankwise.recipes.trained_figure import Settings, TrainedFigure
from rankwise.report.figures import COLOURS, GUIDE, MARKERS, new_figure
from rankwise.spec import RunSpec, heads_for_budget
from rankwise.sweep.trained import TrainedRun
from rankwise.train.protocols import Cell

if TYPE_CHECKING:
    from matplotlib.figure import Figure
    from torch import Tensor

_PANELS = (
    ("qk", "which point is chosen", "scores: angle of $W_Q^T W_K$ to $-I$"),
    ("ov", "what is answered", "values: angle of $W_O W_V$ to $I$"),
)


@dataclass(frozen=True, kw_only=True)
class Sizes(Settings):
    """One full-rank layer with ``dim**c / dim`` heads for every exponent c."""

    dim: int
    points: int
    exponents: tuple[float, ...] = (1.0, 1.5, 2.0)
    sequences: int


PRESETS = {
    "smoke": Sizes(dim=16, points=8, exponents=(1.0, 1.5), sequences=32_000, seeds=1),
    "laptop": Sizes(dim=16, points=8, sequences=128_000),
    "paper": Sizes(dim=64, points=16, sequences=TWENTIETH, seeds=1),
}


class _Figure2(TrainedFigure[Sizes]):
    """Angle against scale, a dot per head."""

    name = "figure2"
    keys = ("heads", "seed", "head")
    tabled = ("error", "qk_angle", "qk_scale", "ov_angle")
    presets = PRESETS

    def runs(self, settings: Sizes, *, protocol: str = "capacity", sequences: int | None = None) -> Iterable[RunSpec]:
        """The full-rank cells of one layer of figure 1."""
        task, seen = farthest(settings.dim, settings.points), budget(sequences, settings.sequences)
        for exponent in settings.exponents:
            heads = heads_for_budget(settings.dim, settings.dim, exponent)
            yield train_as(protocol, Cell(task=task, heads=heads, rank=settings.dim, sequences=seen))

    def measured(self, trained: TrainedRun) -> Iterable[Mapping[str, Value]]:
        """One row per head."""
        from rankwise.nn.attention import MultiheadAttention
        from rankwise.nn.transformer import Transformer
        from rankwise.sweep.trained_weights import trained_model

        model = trained_model(trained)
        assert isinstance(model, Transformer)
        (layer,) = model.attention_layers()
        assert isinstance(layer, MultiheadAttention)
        for head in range(layer.spec.heads):
            scores = layer.score_scale(head) * layer.qk(head).dense()
            qk_angle, qk_scale = angle_and_scale(scores, sign=-1)
            ov_angle, ov_scale = angle_and_scale(layer.ov(head).dense() / layer.spec.average, sign=1)
            yield {
                "head": head,
                "qk_angle": qk_angle,
                "qk_scale": qk_scale,
                "ov_angle": ov_angle,
                "ov_scale": ov_scale,
            }

    def reading(self, settings: Sizes, points: Sequence[Point]) -> list[str]:
        """A line for every number of heads."""
        lines = []
        for heads, own in lines_of(points, "heads").items():
            angles = [point.mean("qk_angle") for point in own]
            scale = statistics.median(point.mean("qk_scale") for point in own)
            lines.append(
                f"{counted(int(heads), 'head')}: {statistics.fmean(angles):.1f} degrees from -I on average (from "
                f"{min(angles):.1f} to {max(angles):.1f}; random matrices: 90), median scale {scale:.3g}."
            )
        return lines

    def draw(self, settings: Sizes, points: Sequence[Point]) -> Figure:
        """Left the scores, right the values; few heads above many."""
        figure = new_figure(9.4, 3.9)
        panels = figure.subplots(1, 2)
        authors = published_medians(settings.dim, settings.points)
        for axes, (part, title, name) in zip(panels, _PANELS, strict=True):
            for place, (heads, own) in enumerate(lines_of(points, "heads").items()):
                x, y = ([point.mean(f"{part}_{what}") for point in own] for what in ("angle", "scale"))
                dots = {"color": COLOURS[place], "marker": MARKERS[place], "linestyle": "", "alpha": 0.7}
                axes.plot(x, y, label=counted(int(heads), "head"), zorder=3 - place / 10, **dots)
                if part == "qk" and heads in authors:
                    axes.plot(*authors[int(heads)], color=COLOURS[place], marker="x", markersize=9, zorder=4)
            axes.axvline(90, color=GUIDE, linewidth=0.9, linestyle="--")
            axes.set_xlim(-5, 185)  # an angle of 0 is the result: its dots must not be cut
            axes.set_xticks(range(0, 181, 30))
            axes.set_yscale("log")
            axes.set_xlabel(f"{name}, degrees")
            axes.set_ylabel(r"scale, Frobenius norm / $\sqrt{d}$")
            axes.set_title(title)
        if authors:
            panels[0].plot([], [], color="0.3", marker="x", markersize=9, linestyle="", label="paper (medians)")
        title = f"Full-rank heads, farthest of {settings.points} points in {settings.dim} dimensions"
        return titled(figure, panels, title)


def angle_and_scale(matrix: Tensor, sign: int) -> tuple[float, float]:
    """Degrees between ``matrix`` [D, D] and ``sign * I``, and ``|matrix|_F / sqrt(D)``."""
    A = matrix.detach().double()
    size, root = float(A.norm()), math.sqrt(len(A))
    if size == 0:
        return 90.0, 0.0
    cosine = sign * float(A.trace()) / (size * root)
    return math.degrees(math.acos(max(-1.0, min(1.0, cosine)))), size / root


def published_medians(dim: int, points: int) -> dict[int, tuple[float, float]]:
    """The paper's median angle to -I and scale, as ours are measured, by the number of heads; at its size alone."""
    angles, scales = (published("figure2", dim=dim, points=points, measure=what) for what in ("angle", "scale"))
    return {heads: (180 - angle, scales[heads] / math.sqrt(dim)) for heads, angle in angles.items()}


FIGURE = _Figure2()
