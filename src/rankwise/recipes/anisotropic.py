"""Points that are not isotropic: does the needed rank follow d, or the intrinsic dimension of the data?

    rankwise reproduce anisotropic
    rankwise reproduce anisotropic --vectors glove.npy

Farthest neighbour with one layer of four heads, for points whose covariance falls like i^-alpha, and for points drawn
from a file of vectors (.npy or .safetensors). The intrinsic dimension d_eff is the participation ratio of the points'
covariance, ``tr(C)^2 / tr(C^2)``, estimated from unit vectors; it is d for alpha = 0. Trivial predictors do better on
anisotropic points, so errors are shown relative to the best linear predictor's, against r/d and against r/d_eff.
A measurement: the question is open.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

from rankwise.recipes.cells import TWENTIETH, budget
from rankwise.recipes.curves import curve, titled
from rankwise.recipes.rows import Point, Value, lines_of
from rankwise.recipes.trained_figure import Settings, TrainedFigure
from rankwise.report.figures import new_figure
from rankwise.report.panels import draw_levels, draw_series, rank_axes
from rankwise.spec import NeighborSpec, RunSpec, VectorFile
from rankwise.sweep.trained import TrainedRun
from rankwise.train.protocols import Cell, capacity

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_HEADS = 4
_SAMPLES = 20_000
_LEVEL = 0.5  # of the best linear error: what "enough rank" means in the reading


@dataclass(frozen=True, kw_only=True)
class Sizes(Settings):
    """The sizes of a preset; ranks are shares of the dimension, which a file of vectors brings with it."""

    dim: int
    points: int
    alphas: tuple[float, ...]
    shares: tuple[float, ...] = (1 / 16, 1 / 8, 1 / 4, 3 / 8, 1 / 2, 5 / 8, 3 / 4, 7 / 8, 1.0)
    sequences: int


PRESETS = {
    "smoke": Sizes(dim=16, points=8, alphas=(0.0, 1.0), shares=(1 / 4, 1 / 2, 1.0), sequences=32_000, seeds=1),
    "laptop": Sizes(dim=32, points=8, alphas=(0.0, 0.5, 1.0, 2.0), sequences=128_000),
    "paper": Sizes(dim=64, points=16, alphas=(0.0, 0.5, 1.0, 1.5, 2.0), sequences=TWENTIETH, seeds=1),
}


class _Anisotropic(TrainedFigure[Sizes]):
    """Relative error against r/d and against r/d_eff, one curve per law of the data."""

    name = "anisotropic"
    keys = ("data", "rank")
    tabled = ("error", "of_linear", "effective_dim")
    presets = PRESETS

    def runs(self, settings: Sizes, *, sequences: int | None = None, vectors: Path | None = None) -> Iterable[RunSpec]:
        """Every rank on every law, by ``capacity``; ``vectors`` adds the points of a file."""
        tasks = [
            NeighborSpec(
                name="farthest",
                dim=settings.dim,
                points=settings.points,
                distribution="power_law" if alpha else "uniform",
                alpha=alpha,
            )
            for alpha in settings.alphas
        ]
        tasks += [] if vectors is None else [_task_of_file(vectors, settings.points)]
        seen = budget(sequences, settings.sequences)
        for task in tasks:
            for rank in sorted({max(1, round(share * task.dim)) for share in settings.shares}):
                yield capacity(Cell(task=task, heads=_HEADS, rank=rank, sequences=seen))

    def columns(self, run: RunSpec) -> Mapping[str, Value]:
        """What the data is called: its exponent, or its file."""
        task = run.neighbors
        return {"data": f"alpha = {task.alpha:g}" if task.vectors_from is None else Path(task.vectors_from.path).stem}

    def measured(self, trained: TrainedRun) -> Iterable[Mapping[str, Value]]:
        """The intrinsic dimension of the data, and the error relative to the best linear one on it."""
        effective, linear = describe_data(trained.run.neighbors)
        yield {
            "effective_dim": effective,
            "linear_error": linear,
            "of_linear": trained.result["error"] / linear,
        }

    def reading(self, settings: Sizes, points: Sequence[Point]) -> list[str]:
        """The needed rank as a share of d and of d_eff, and which of the two shares varies less."""
        lines, shares = [], []
        for data, own in _by_data(points).items():
            dim, effective = own[0].row.dim, _effective(own[0])
            needed = needed_rank({point.row.rank: point.mean("of_linear") for point in own})
            if needed is None:
                lines.append(f"{data} (d_eff = {effective:.3g}): half the linear error is not crossed at these ranks.")
                continue
            shares.append((needed / dim, needed / effective))
            lines.append(
                f"{data} (d = {dim}, d_eff = {effective:.3g}): half the linear error takes rank {needed:.3g}, "
                f"{needed / dim:.2f} d or {needed / effective:.2f} d_eff."
            )
        if len(shares) > 1:
            of_d, of_effective = (max(column) / min(column) for column in zip(*shares, strict=True))
            nearer = "d_eff" if of_effective < of_d else "d"
            lines.append(
                f"Over the data, rank / d varies by a factor {of_d:.2g} and rank / d_eff by {of_effective:.2g}: "
                f"by this measure the need follows {nearer} more closely."
            )
        return lines

    def draw(self, settings: Sizes, points: Sequence[Point]) -> Figure:
        """Relative errors against r/d, and the same against r/d_eff."""
        figure = new_figure(10.4, 3.9)
        left, right = figure.subplots(1, 2, sharey=True)
        for axes, name, x, powers in (
            (left, "the dimension", _of_dim, range(-4, 1)),
            (right, "the intrinsic dimension", _of_effective, range(-4, 4)),
        ):
            lines = [
                curve(f"{data}, $d_{{eff}}$ = {_effective(own[0]):.3g}", own, x=x, y="of_linear")
                for data, own in _by_data(points).items()
            ]
            draw_series(axes, lines)
            draw_levels(axes, {"half the linear error" if axes is right else "": _LEVEL})
            ticks = [2.0**power for power in powers]
            rank_axes(axes, ticks, f"against {name}", "rank / d" if axes is left else "rank / $d_{eff}$")
            axes.set_xticks(ticks, [f"{tick:g}" if tick >= 1 else f"1/{1 / tick:g}" for tick in ticks])
            axes.axvline(1, color="0.7", linewidth=0.8, linestyle=":")
        left.set_ylabel("error / error of the best linear predictor")
        right.set_ylabel("")
        title = f"Anisotropic points: farthest of {settings.points}, one layer of {_HEADS} heads"
        return titled(figure, [left, right], title)


def _task_of_file(path: Path, points: int) -> NeighborSpec:
    from rankwise.tasks import Rows
    from rankwise.tasks.vector_file import load_vectors

    file = VectorFile.of(path)
    vectors = load_vectors(file)
    Rows(vectors)  # a file that cannot be drawn from is better refused before training
    return NeighborSpec(name="farthest", dim=vectors.shape[1], points=points, distribution="rows", vectors_from=file)


@cache
def describe_data(task: NeighborSpec) -> tuple[float, float]:
    """Participation ratio of the points' covariance, and error of the best linear predictor."""
    import torch

    from rankwise.measure import participation_ratio
    from rankwise.tasks.from_spec import build_neighbors

    built = build_neighbors(task)
    points = built.sample(_SAMPLES // task.points, torch.Generator().manual_seed(1)).points.flatten(0, 1).double()
    centred = points - points.mean(dim=0)
    # eigenvalues of the covariance are squared singular values: their roots stand for the long matrix
    spectrum = torch.linalg.eigvalsh(centred.T @ centred).clamp(min=0).sqrt()
    linear = built.baselines(torch.Generator().manual_seed(2), _SAMPLES // task.points).linear.mean
    return float(participation_ratio(singular_values=spectrum)), linear


def needed_rank(line: Mapping[int, float], level: float = _LEVEL) -> float | None:
    """Where relative errors by rank first fall to ``level``, interpolated; None where they do not cross it."""
    for low, high in itertools.pairwise(sorted(line)):
        if line[low] > level >= line[high]:
            return low + (high - low) * (line[low] - level) / (line[low] - line[high])
    return None


def _by_data(points: Sequence[Point]) -> dict[Value, list[Point]]:
    """The most isotropic first."""
    return dict(sorted(lines_of(points, "data").items(), key=lambda line: -_effective(line[1][0])))


def _effective(point: Point) -> float:
    return point.mean("effective_dim")


def _of_dim(point: Point) -> float:
    return point.row.rank / point.row.dim


def _of_effective(point: Point) -> float:
    return point.row.rank / _effective(point)


FIGURE = _Anisotropic()
