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

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path

from rankwise.measure import first_crossing
from rankwise.recipes.cells import TWENTIETH, SphereSizes, cell_trainer, farthest
from rankwise.recipes.marks import Value, curve, lines_of
from rankwise.recipes.rows import Point
from rankwise.recipes.trained_figure import TrainedFigure
from rankwise.report import Panel, Picture, PlotAxis
from rankwise.spec import NeighborSpec, RunSpec, VectorFile
from rankwise.sweep import TrainedRun
from rankwise.tasks import linear_error

_HEADS = 4
_SAMPLES = 20_000
_LEVEL = 0.5  # of the best linear error: what "enough rank" means in the reading


@dataclass(frozen=True, kw_only=True)
class Sizes(SphereSizes):
    """The sizes of a preset; ranks are shares of the dimension, which a file of vectors brings with it."""

    alphas: tuple[float, ...]
    shares: tuple[float, ...] = (1 / 16, 1 / 8, 1 / 4, 3 / 8, 1 / 2, 5 / 8, 3 / 4, 7 / 8, 1.0)


PRESETS = {
    "smoke": Sizes(dim=16, points=8, alphas=(0.0, 1.0), shares=(1 / 4, 1 / 2, 1.0), sequences=32_000, seeds=1),
    "laptop": Sizes(dim=32, points=8, alphas=(0.0, 0.5, 1.0, 2.0), sequences=128_000),
    "full": Sizes(dim=64, points=16, alphas=(0.0, 0.5, 1.0, 1.5, 2.0), sequences=TWENTIETH, seeds=1),
}


class _Anisotropic(TrainedFigure[Sizes]):
    """Relative error against r/d and against r/d_eff, one curve per law of the data."""

    name = "anisotropic"
    keys = ("data", "rank")
    tabled = ("error", "of_linear", "effective_dim")
    presets = PRESETS

    def runs(self, settings: Sizes, *, sequences: int | None = None, vectors: Path | None = None) -> Iterable[RunSpec]:
        """Every rank on every law, by ``capacity``; ``vectors`` adds the points of a file."""
        train, base = cell_trainer(sequences, settings.sequences), farthest(settings.dim, settings.points)
        tasks = [replace(base, distribution="power_law", alpha=alpha) if alpha else base for alpha in settings.alphas]
        tasks += [] if vectors is None else [_task_of_file(vectors, settings.points)]
        for task in tasks:
            for rank in sorted({max(1, round(share * task.dim)) for share in settings.shares}):
                yield train(task, heads=_HEADS, rank=rank)

    def columns(self, run: RunSpec) -> Mapping[str, Value]:
        """What the data is called: its exponent, or its file."""
        task = run.neighbors
        return {"data": f"alpha = {task.alpha:g}" if task.vectors_from is None else Path(task.vectors_from.path).stem}

    def measured(self, trained: TrainedRun) -> Iterable[Mapping[str, Value]]:
        """The intrinsic dimension of the data, and the error relative to the best linear one on it."""
        effective, linear = describe_data(trained.run.neighbors)
        yield {"effective_dim": effective, "linear_error": linear, "of_linear": trained.result["error"] / linear}

    def reading(self, settings: Sizes, marks: Sequence[Point]) -> list[str]:
        """The needed rank as a share of d and of d_eff, and which of the two shares varies less."""
        lines, shares = [], []
        for data, own in _by_data(marks).items():
            dim, effective = own[0].row.dim, _effective(own[0])
            needed = first_crossing({point.row.rank: point.mean("of_linear") for point in own}, _LEVEL)
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

    def picture(self, settings: Sizes, marks: Sequence[Point]) -> Picture:
        """Relative errors against r/d, and the same against r/d_eff."""
        panels = []
        for name, unit, of, powers in (
            ("the dimension", "d", _of_dim, range(-4, 1)),
            ("the intrinsic dimension", "$d_{eff}$", _of_effective, range(-4, 4)),
        ):
            series = [
                curve(f"{data}, $d_{{eff}}$ = {_effective(own[0]):.3g}", own, x=of, y="of_linear")
                for data, own in _by_data(marks).items()
            ]
            ticks = {2.0**power: f"{2**power}" if power >= 0 else f"1/{2**-power}" for power in powers}
            panels.append(
                Panel(
                    title=f"against {name}",
                    x=PlotAxis(label=f"rank / {unit}", scale="log2", ticks=ticks),
                    y=PlotAxis(label="error / error of the best linear predictor", scale="log"),
                    series=series,
                    levels={"half the linear error" if of is _of_effective else "": _LEVEL},
                    verticals=[1],
                )
            )
        title = f"Anisotropic points: farthest of {settings.points}, one layer of {_HEADS} heads"
        return Picture(title=title, panels=[panels], legend="right")


def _task_of_file(path: Path, points: int) -> NeighborSpec:
    from rankwise.tasks import Rows, load_vectors

    file = VectorFile.of(path)
    vectors = load_vectors(file)
    Rows(vectors)  # a file that cannot be drawn from is better refused before training
    return NeighborSpec(name="farthest", dim=vectors.shape[1], points=points, distribution="rows", vectors_from=file)


@cache
def describe_data(task: NeighborSpec) -> tuple[float, float]:
    """Participation ratio of the points' covariance, and error of the best linear predictor."""
    import torch

    from rankwise.need import intrinsic_dimension
    from rankwise.tasks import build_neighbors

    sequences = _SAMPLES // task.points
    points = build_neighbors(task).sample(sequences, torch.Generator().manual_seed(1)).points.flatten(0, 1).double()
    return intrinsic_dimension(points), linear_error(task, 2, sequences)


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
