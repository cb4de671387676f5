"""Figure 2: what full-rank heads learn. One head alone learns the exact head, scores -beta <x, y>; of several not all.

    rankwise reproduce figure2 --preset laptop --seeds 3

The full-rank cells of figure 1 with one layer (the same runs, trained once if both use one store), and of every head,
from its weights: the angle between ``A = s W_Q^T W_K`` and -I, and its scale ``|A|_F / sqrt(d)``; angles are those of
the inner product ``tr(A^T B)``, and s is the factor of the scores, 1/sqrt(r) times the learned temperature. An exact
head ``-beta I`` has angle 0 and scale beta; a random matrix has an angle of about 90 degrees. Likewise ``W_O W_V`` and
I. The paper's picture has angle to +I and scale without s = 1/sqrt(d), of ``W_Q W_K^T`` (the same trace; the norm is
the same at -beta I): its medians stand beside ours as the angle to -I and with that factor.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from rankwise.errors import require_choice
from rankwise.recipes.cells import TWENTIETH, budget, seeded_sweep, trained_by
from rankwise.recipes.paper_figures import published_figure
from rankwise.recipes.registry import Reproduced
from rankwise.recipes.rows import ResultRow, result_row
from rankwise.recipes.trained import TrainedRun
from rankwise.report.figures import COLOURS, GUIDE, MARKERS, house_style, new_figure, save_figure
from rankwise.report.panels import share_legend
from rankwise.spec import SweepSpec, heads_for_budget
from rankwise.train.protocols import Cell

if TYPE_CHECKING:
    from matplotlib.figure import Figure
    from torch import Tensor

KEYS = ("head",)


@dataclass(frozen=True, kw_only=True)
class Settings:
    """One full-rank layer with ``dim**c / dim`` heads for every exponent c."""

    dim: int
    points: int
    exponents: tuple[float, ...]
    sequences: int
    full_size: bool = False


PRESETS: dict[str, Settings] = {
    "smoke": Settings(dim=16, points=8, exponents=(1.0, 1.5), sequences=64_000),
    "laptop": Settings(dim=16, points=8, exponents=(1.0, 1.5, 2.0), sequences=96_000),
    "paper": Settings(dim=64, points=16, exponents=(1.0, 1.5, 2.0), sequences=TWENTIETH, full_size=True),
}


def sweep(
    preset: str = "laptop", *, protocol: str = "capacity", seeds: int = 1, sequences: int | None = None
) -> SweepSpec:
    """The full-rank cells of one layer of figure 1."""
    require_choice("preset", preset, tuple(PRESETS))
    settings, train_as = PRESETS[preset], trained_by(protocol, later=False)
    own = budget(sequences, settings.sequences, full_size=settings.full_size, protocol=protocol, later=False)
    runs = [
        train_as(
            Cell(
                dim=settings.dim,
                points=settings.points,
                layers=1,
                heads=heads_for_budget(settings.dim, settings.dim, exponent),
                rank=settings.dim,
                sequences=own,
            )
        )
        for exponent in settings.exponents
    ]
    return seeded_sweep(f"figure2 ({preset}, {protocol})", runs, seeds, in_order=settings.full_size)


def rows(runs: Sequence[TrainedRun]) -> list[ResultRow]:
    """One row a head."""
    from rankwise.nn.attention import MultiheadAttention
    from rankwise.nn.transformer import Transformer
    from rankwise.recipes.weights import trained_model

    measured = []
    for trained in runs:
        model = trained_model(trained)
        assert isinstance(model, Transformer)
        (layer,) = model.attention_layers()
        assert isinstance(layer, MultiheadAttention)
        for head in range(layer.spec.heads):
            scores = layer.score_scale(head) * layer.qk(head).dense()
            qk_angle, qk_scale = angle_and_scale(scores, sign=-1)
            ov_angle, ov_scale = angle_and_scale(layer.ov(head).dense() / layer.spec.average, sign=1)
            extra = {
                "head": head,
                "qk_angle": qk_angle,
                "qk_scale": qk_scale,
                "ov_angle": ov_angle,
                "ov_scale": ov_scale,
            }
            measured.append(result_row("figure2", trained, extra))
    return measured


def angle_and_scale(matrix: Tensor, sign: int) -> tuple[float, float]:
    """Degrees between ``matrix`` [D, D] and ``sign * I``, and ``|matrix|_F / sqrt(D)``."""
    A = matrix.detach().double()
    size, root = float(A.norm()), math.sqrt(len(A))
    if size == 0:
        return 90.0, 0.0
    cosine = sign * float(A.trace()) / (size * root)
    return math.degrees(math.acos(max(-1.0, min(1.0, cosine)))), size / root


def published(dim: int, points: int) -> dict[int, tuple[float, float]]:
    """The authors' median angle to -I and scale, as ours are measured, by the number of heads; of their size alone."""
    if (dim, points) != (64, 16):
        return {}
    angles, scales = (published_figure("figure2").curve(measure=measure) for measure in ("angle", "scale"))
    assert angles is not None
    assert scales is not None
    return {
        heads: (180 - angle, scale / math.sqrt(dim))
        for (heads, angle), scale in zip(angles.points().items(), scales.values, strict=True)
    }


@dataclass(frozen=True, kw_only=True)
class Learned:
    """All heads of runs with one number of heads: means (of scales the median), and the extremes of the angles."""

    heads: int
    count: int
    error: float
    qk_angle: float
    least_angle: float
    largest_angle: float
    qk_scale: float
    ov_angle: float


def learned(rows: Sequence[ResultRow]) -> list[Learned]:
    """One entry for every number of heads."""
    found = []
    for heads in sorted({row.heads for row in rows}):
        own = [row for row in rows if row.heads == heads]
        angles = [float(row.extra["qk_angle"]) for row in own]
        found.append(
            Learned(
                heads=heads,
                count=len(own),
                error=_mean([row.error for row in own]),
                qk_angle=_mean(angles),
                least_angle=min(angles),
                largest_angle=max(angles),
                qk_scale=statistics.median(float(row.extra["qk_scale"]) for row in own),
                ov_angle=_mean([float(row.extra["ov_angle"]) for row in own]),
            )
        )
    return found


def _mean(values: Sequence[float]) -> float:
    return math.fsum(values) / len(values)


def reading(found: Sequence[Learned]) -> str:
    """One sentence for every number of heads."""
    return "\n".join(
        f"{one.heads} head{'s' * (one.heads > 1)}: {one.qk_angle:.1f} degrees from -I on average (from "
        f"{one.least_angle:.1f} to {one.largest_angle:.1f}; random matrices: 90), median scale {one.qk_scale:.3g}."
        for one in found
    )


def draw(rows: Sequence[ResultRow], title: str) -> Figure:
    """Every head a dot: angle against scale, left of the scores, right of what is written; few heads above many."""
    figure = new_figure(9.4, 3.9)
    panels = figure.subplots(1, 2)
    counts = sorted({row.heads for row in rows})
    authors = published(rows[0].dim, rows[0].points)
    names = (("qk", "scores: angle of $W_Q^T W_K$ to $-I$"), ("ov", "values: angle of $W_O W_V$ to $I$"))
    for axes, (part, name) in zip(panels, names, strict=True):
        for place, (colour, marker, heads) in enumerate(zip(COLOURS, MARKERS, counts, strict=False)):
            own = [row for row in rows if row.heads == heads]
            x, y = ([float(row.extra[f"{part}_{what}"]) for row in own] for what in ("angle", "scale"))
            label = f"{heads} head{'s' * (heads > 1)}"
            dots = {"color": colour, "marker": marker, "linestyle": "", "alpha": 0.7}
            axes.plot(x, y, label=label, zorder=3 - place / 10, **dots)
            if part == "qk" and heads in authors:
                angle, scale = authors[heads]
                axes.plot(angle, scale, color=colour, marker="x", markersize=9, zorder=4)
        axes.axvline(90, color=GUIDE, linewidth=0.9, linestyle="--")
        axes.set_xlim(-5, 185)  # an angle of 0 is the result: its dots must not be cut
        axes.set_xticks(range(0, 181, 30))
        axes.set_yscale("log")
        axes.set_xlabel(f"{name}, degrees")
        axes.set_ylabel(r"scale, Frobenius norm / $\sqrt{d}$")
    if authors:
        panels[0].plot([], [], color="0.3", marker="x", markersize=9, linestyle="", label="the authors' medians")
    panels[0].set_title("which point is chosen")
    panels[1].set_title("what is written")
    share_legend(figure, panels)
    figure.suptitle(title, fontsize=11)
    return figure


def present(preset: str, rows: Sequence[ResultRow], stem: Path) -> Reproduced:
    """Figure, table and reading of the rows."""
    settings, found = PRESETS[preset], learned(rows)
    authors = published(settings.dim, settings.points)
    with house_style():
        figure = draw(rows, f"Full-rank heads, farthest of {settings.points} points in {settings.dim} dimensions")
    return Reproduced(
        columns=(
            "heads",
            "heads seen",
            "error",
            "angle to -I",
            "least",
            "largest",
            "median scale",
            "values: angle to I",
            "the authors' angle",
            "the authors' scale",
        ),
        rows=tuple(
            (
                *(one.heads, one.count, one.error, one.qk_angle, one.least_angle, one.largest_angle),
                *(one.qk_scale, one.ov_angle, *authors.get(one.heads, (None, None))),
            )
            for one in found
        ),
        reading=reading(found),
        files=save_figure(figure, stem),
    )
