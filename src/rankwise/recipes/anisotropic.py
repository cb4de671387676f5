"""Points that are not isotropic: does the needed rank follow d, or the participation ratio of the data?

    rankwise reproduce anisotropic
    rankwise reproduce anisotropic --vectors glove.npy

Farthest neighbour with one layer of four heads, for points whose covariance falls like i^-alpha, and for points drawn
from a file of vectors (.npy or .safetensors). The intrinsic dimension d_eff is the participation ratio of the points'
covariance, ``tr(C)^2 / tr(C^2)``, estimated from unit vectors; it is d for alpha = 0. Trivial predictors do better on
anisotropic points, so errors are shown relative to the best linear predictor's, against r/d and against r/d_eff.
A measurement: the question is open.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache, partial
from operator import itemgetter
from pathlib import Path

from rankwise.measure import first_crossing
from rankwise.recipes.cells import TWENTIETH, Sphere, cell_trainer, farthest
from rankwise.recipes.curves import curve, shares
from rankwise.recipes.points import Point, Value, lines_of
from rankwise.recipes.trained_figure import TrainedFigure
from rankwise.report import Panel, Picture, PlotAxis
from rankwise.spec import NeighborSpec, RunSpec, VectorFile
from rankwise.sweep import TrainedRun
from rankwise.tasks import linear_error

_HEADS = 4
_SAMPLES = 20_000
_LEVEL = 0.5  # of the best linear error: what "enough rank" means in the reading


@dataclass(frozen=True, kw_only=True)
class Sizes(Sphere):
    """Ranks are shares of the dimension, which a file of vectors brings with it."""

    alphas: tuple[float, ...]
    shares: tuple[float, ...] = (1 / 16, 1 / 8, 1 / 4, 3 / 8, 1 / 2, 5 / 8, 3 / 4, 7 / 8, 1.0)


class _Anisotropic(TrainedFigure[Sizes]):
    """Error relative to the best linear one, against r/d and against r/d_eff; one curve per law of the data."""

    name = "anisotropic"
    keys = ("data", "rank")
    tabled = ("error", "of_linear", "effective_dim")

    def runs(self, settings: Sizes, *, sequences: int | None = None, vectors: Path | None = None) -> Iterable[RunSpec]:
        """Every rank on every law, by ``capacity``; ``vectors`` adds the points of a file."""
        train, base = cell_trainer(sequences, settings.sequences), farthest(settings.dim, settings.points)
        tasks = [replace(base, distribution="power_law", alpha=alpha) if alpha else base for alpha in settings.alphas]
        tasks += [] if vectors is None else [_task_of_file(vectors, settings.points)]
        for task in tasks:
            for rank in sorted({max(1, round(share * task.dim)) for share in settings.shares}):
                yield train(task, heads=_HEADS, rank=rank)

    def columns(self, run: RunSpec) -> Mapping[str, Value]:
        task = run.neighbors
        return {"data": f"alpha = {task.alpha:g}" if task.vectors_from is None else Path(task.vectors_from.path).stem}

    def measured(self, trained: TrainedRun) -> Iterable[Mapping[str, Value]]:
        effective, linear = describe_data(trained.run.neighbors)
        yield {"effective_dim": effective, "linear_error": linear, "of_linear": trained.result["error"] / linear}

    def reading(self, settings: Sizes, points: Sequence[Point]) -> list[str]:
        """The needed rank as a share of the participation ratio, and whether it varies less than that of d."""
        lines, of_dim, of_effective = [], [], []
        for data, own in _by_data(points).items():
            needed = first_crossing({point["rank"]: point.mean("of_linear") for point in own}, _LEVEL)
            if needed is None:
                lines.append(f"{data}: half the linear error is not crossed at these ranks.")
                continue
            of_dim.append(needed / own[0]["dim"])
            of_effective.append(needed / _effective(own[0]))
            share = f"{of_effective[-1]:.2f} of the participation ratio"
            lines.append(f"{data}: rank {needed:.3g} has half the linear error, {share}.")
        if len(of_dim) > 1:
            by_dim, by_effective = (max(found) / min(found) for found in (of_dim, of_effective))
            nearer = "the participation ratio" if by_effective < by_dim else "d"
            lines.append(
                f"Over the data, rank / d varies by a factor {by_dim:.2g}, rank / participation ratio by "
                f"{by_effective:.2g}: by this measure the need follows {nearer} more closely."
            )
        return lines

    def picture(self, settings: Sizes, points: Sequence[Point]) -> Picture:
        panels = []
        for name, unit, of, powers in (
            ("the dimension", "d", itemgetter("dim"), range(-4, 1)),
            ("the intrinsic dimension", "$d_{eff}$", _effective, range(-4, 4)),
        ):
            series = [
                curve(f"{data}, $d_{{eff}}$ = {_effective(own[0]):.3g}", own, x=partial(_share, of), y="of_linear")
                for data, own in _by_data(points).items()
            ]
            panels.append(
                Panel(
                    title=f"against {name}",
                    x=PlotAxis(label=f"rank / {unit}", scale="log2", ticks=shares(2.0**power for power in powers)),
                    y=PlotAxis(label="error / error of the best linear predictor", scale="log"),
                    series=series,
                    levels={"half the linear error" if of is _effective else "": _LEVEL},
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


def _share(of: Callable[[Point], float], point: Point) -> float:
    return float(point["rank"] / of(point))


def _effective(point: Point) -> float:
    return point.mean("effective_dim")


FIGURE = _Anisotropic(
    smoke=Sizes(dim=16, points=8, alphas=(0.0, 1.0), shares=(1 / 4, 1 / 2, 1.0), sequences=32_000, seeds=1),
    laptop=Sizes(dim=32, points=8, alphas=(0.0, 0.5, 1.0, 2.0), sequences=128_000),
    full=Sizes(dim=64, points=16, alphas=(0.0, 0.5, 1.0, 1.5, 2.0), sequences=TWENTIETH, seeds=1),
)
