"""Points that are not isotropic: does the needed rank follow d, or the intrinsic dimension of the data?

    rankwise reproduce anisotropic --preset laptop --seeds 3
    rankwise reproduce anisotropic --preset laptop --vectors glove.npy

Farthest neighbour with one layer of four heads, for points whose covariance falls like i^-alpha, and for points drawn
from a file of vectors (.npy or .safetensors). The intrinsic dimension d_eff is the participation ratio of the points'
covariance, ``tr(C)^2 / tr(C^2)``, estimated from unit vectors; it is d for alpha = 0. Trivial predictors do better on
anisotropic points, so errors are shown relative to the best linear predictor's, against r/d and against r/d_eff.
A measurement: the question is open.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rankwise.errors import require_choice
from rankwise.recipes.cells import TWENTIETH, budget, seeded_sweep, trained_by
from rankwise.recipes.registry import Reproduced
from rankwise.recipes.rows import Mean, ResultRow, mean_over_seeds, result_row
from rankwise.recipes.trained import TrainedRun
from rankwise.report.figures import house_style, new_figure, save_figure
from rankwise.report.panels import Series, draw_levels, draw_series, rank_axes, share_legend
from rankwise.spec import RunSpec, SweepSpec, TaskSpec, VectorFile, vary
from rankwise.train.protocols import Cell

if TYPE_CHECKING:
    from matplotlib.figure import Figure

KEYS = ("data",)
_HEADS = 4
_SAMPLES = 20_000
_LEVEL = 0.5  # of the best linear error: what "enough rank" means in the reading


@dataclass(frozen=True, kw_only=True)
class Settings:
    """The sizes of a preset; ranks are shares of the dimension, which a file of vectors brings with it."""

    dim: int
    points: int
    alphas: tuple[float, ...]
    shares: tuple[float, ...]
    sequences: int
    full_size: bool = False


_SHARES = (1 / 16, 1 / 8, 1 / 4, 3 / 8, 1 / 2, 5 / 8, 3 / 4, 7 / 8, 1.0)
PRESETS: dict[str, Settings] = {
    "smoke": Settings(dim=16, points=8, alphas=(0.0, 1.0), shares=(1 / 4, 1 / 2, 1.0), sequences=32_000),
    "laptop": Settings(dim=32, points=8, alphas=(0.0, 0.5, 1.0, 2.0), shares=_SHARES, sequences=96_000),
    "paper": Settings(
        dim=64, points=16, alphas=(0.0, 0.5, 1.0, 1.5, 2.0), shares=_SHARES, sequences=TWENTIETH, full_size=True
    ),
}


def sweep(
    preset: str = "laptop", *, seeds: int = 1, sequences: int | None = None, vectors: Path | None = None
) -> SweepSpec:
    """The runs of the figure, trained by ``capacity``; ``vectors`` adds those on the points of a file."""
    require_choice("preset", preset, tuple(PRESETS))
    settings = PRESETS[preset]
    laws: list[tuple[int, dict[str, Any]]] = [
        (settings.dim, {"task.distribution": "power_law", "task.alpha": alpha} if alpha else {})
        for alpha in settings.alphas
    ]
    if vectors is not None:
        laws.append(_law_of_file(vectors))
    own = budget(sequences, settings.sequences, full_size=settings.full_size, protocol="capacity")
    runs = [
        _run(dim, settings.points, rank, own, changes)
        for dim, changes in laws
        for rank in sorted({max(1, round(share * dim)) for share in settings.shares})
    ]
    return seeded_sweep(f"anisotropic ({preset})", runs, seeds, in_order=settings.full_size)


def _law_of_file(path: Path) -> tuple[int, dict[str, Any]]:
    from rankwise.tasks import Rows
    from rankwise.tasks.vector_file import load_vectors

    file = VectorFile.of(path)
    dim = load_vectors(file).shape[1]
    Rows(load_vectors(file))  # a file that cannot be drawn from is better refused before training
    return dim, {"task.distribution": "rows", "task.vectors_from": file}


def _run(dim: int, points: int, rank: int, sequences: int, changes: dict[str, Any]) -> RunSpec:
    cell = Cell(dim=dim, points=points, layers=1, heads=_HEADS, rank=rank, sequences=sequences)
    return vary(trained_by("capacity")(cell), changes)


def data_name(task: TaskSpec) -> str:
    """What the data is called in tables: its exponent, or its file."""
    return f"alpha = {task.alpha:g}" if task.vectors_from is None else Path(task.vectors_from.path).stem


def rows(runs: Sequence[TrainedRun]) -> list[ResultRow]:
    """One row a run, with the intrinsic dimension of its data and the best linear error on it."""
    from rankwise.recipes.weights import with_progress

    known: dict[TaskSpec, dict[str, Any]] = {}
    found = []
    for trained in with_progress(runs, "measuring the data"):
        task = trained.run.neighbors
        if task not in known:
            known[task] = describe_data(task)
        found.append(result_row("anisotropic", trained, known[task]))
    return found


def describe_data(task: TaskSpec) -> dict[str, Any]:
    """Name, participation ratio of the points' covariance, and error of the best linear predictor."""
    import torch

    from rankwise.measure import participation_ratio
    from rankwise.train.build import build_neighbors

    built = build_neighbors(task)
    points = built.sample(_SAMPLES // task.points, torch.Generator().manual_seed(1)).points.flatten(0, 1).double()
    centred = points - points.mean(dim=0)
    # eigenvalues of the covariance are squared singular values: their roots stand for the long matrix
    spectrum = torch.linalg.eigvalsh(centred.T @ centred).clamp(min=0).sqrt()
    linear = built.baselines(torch.Generator().manual_seed(2), _SAMPLES // task.points).linear.mean
    d_eff = float(participation_ratio(singular_values=spectrum))
    return {"data": data_name(task), "effective_dim": d_eff, "linear_error": linear}


def lines_of(rows: Sequence[ResultRow]) -> dict[str, dict[int, Mean]]:
    """For every kind of data the errors by rank, seeds averaged; the most isotropic first."""
    lines: dict[str, dict[int, Mean]] = {}
    for (data, rank), mean in mean_over_seeds(rows, lambda row: (str(row.extra["data"]), row.rank)).items():
        lines.setdefault(data, {})[rank] = mean
    return dict(sorted(lines.items(), key=lambda line: -max(map(_effective, line[1].values()))))


def _relative(mean: Mean) -> float:
    return mean.error / float(mean.row.extra["linear_error"])


def _effective(mean: Mean) -> float:
    return float(mean.row.extra["effective_dim"])


def needed_rank(line: dict[int, Mean], level: float = _LEVEL) -> float | None:
    """The rank at which the error falls to ``level`` of the best linear one, between two ranks by a straight line."""
    ranks = sorted(line)
    for low, high in itertools.pairwise(ranks):
        above, below = _relative(line[low]), _relative(line[high])
        if above > level >= below:
            return low + (high - low) * (above - level) / (above - below)
    return None


def reading(lines: dict[str, dict[int, Mean]]) -> str:
    """The needed rank as a share of d and of d_eff, and which of the two shares varies less."""
    said, shares = [], []
    for data, line in lines.items():
        first = next(iter(line.values()))
        needed = needed_rank(line)
        if needed is None:
            lowest, highest = min(line), max(line)
            where = (
                f"rank {lowest} has less than half the linear error already"
                if _relative(line[lowest]) <= _LEVEL
                else f"no rank up to {highest} reaches half the linear error"
            )
            said.append(f"{data} (d_eff = {_effective(first):.3g}): {where}.")
            continue
        shares.append((needed / first.row.dim, needed / _effective(first)))
        of_d, of_effective = shares[-1]
        said.append(
            f"{data} (d = {first.row.dim}, d_eff = {_effective(first):.3g}): half the linear error takes rank "
            f"{needed:.3g}, {of_d:.2f} d or {of_effective:.2f} d_eff."
        )
    if len(shares) > 1:
        spread_d, spread_effective = (max(column) / min(column) for column in zip(*shares, strict=True))
        nearer = "d_eff" if spread_effective < spread_d else "d"
        said.append(
            f"Over the data, rank / d varies by a factor {spread_d:.2g} and rank / d_eff by {spread_effective:.2g}: "
            f"by this measure the need follows {nearer} more closely."
        )
    return "\n".join(said)


def draw(lines: dict[str, dict[int, Mean]], title: str) -> Figure:
    """Relative errors against r/d, and the same against r/d_eff."""
    figure = new_figure(10.4, 3.9)
    panels = figure.subplots(1, 2, sharey=True)
    for axes, effective in zip(panels, (False, True), strict=True):
        series = []
        for data, line in lines.items():
            scales = [1 / float(mean.row.extra["linear_error"]) for mean in line.values()]
            of = [_effective(mean) if effective else mean.row.dim for mean in line.values()]
            d_eff = _effective(next(iter(line.values())))
            series.append(
                Series(
                    label=f"{data}, $d_{{eff}}$ = {d_eff:.3g}",
                    x=[rank / one for rank, one in zip(line, of, strict=True)],
                    y=[_relative(mean) for mean in line.values()],
                    spread=[mean.spread * scale for mean, scale in zip(line.values(), scales, strict=True)],
                )
            )
        draw_series(axes, series)
        draw_levels(axes, {"half the linear error": _LEVEL})
        ticks = [2.0**power for power in (range(-4, 4) if effective else range(-4, 1))]
        rank_axes(axes, ticks, "", "rank / $d_{eff}$" if effective else "rank / d")
        axes.set_xticks(ticks, [f"{tick:g}" if tick >= 1 else f"1/{1 / tick:g}" for tick in ticks])
        axes.axvline(1, color="0.7", linewidth=0.8, linestyle=":")
    panels[0].set_title("against the dimension")
    panels[1].set_title("against the intrinsic dimension")
    panels[0].set_ylabel("error / error of the best linear predictor")
    panels[1].set_ylabel("")
    share_legend(figure, panels)
    figure.suptitle(title, fontsize=11)
    return figure


def present(preset: str, rows: Sequence[ResultRow], stem: Path) -> Reproduced:
    """Figure, table and reading of the rows."""
    settings, lines = PRESETS[preset], lines_of(rows)
    with house_style():
        figure = draw(lines, f"Anisotropic points: farthest of {settings.points}, one layer of {_HEADS} heads")
    return Reproduced(
        columns=("data", "d", "d_eff", "rank", "error", "standard error", "seeds", "of linear"),
        rows=tuple(
            (
                *(data, mean.row.dim, _effective(mean), rank, mean.error, mean.spread, mean.seeds),
                _relative(mean),
            )
            for data, line in lines.items()
            for rank, mean in line.items()
        ),
        reading=reading(lines),
        files=save_figure(figure, stem),
    )
