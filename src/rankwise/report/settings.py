"""The runs of a store as a reader sees them: settings, and in each the cells whose error is one number.

A setting is a task, and whether its models are the bare layer that the lower bound is about. A cell is a set of runs
that differ in their seed alone; its error is their mean.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from rankwise.errors import InvalidInputError
from rankwise.estimate import Estimate
from rankwise.spec import NeighborSpec, RunSpec, TaskSpec, canonical_json, plain
from rankwise.sweep import flatten, printable
from rankwise.theory import Values, error_lower_bound

# Keys of a spec that never tell two cells apart: the seed, where and how long a run was worked on, where its data lay.
_NOT_A_CELL = ("seed", "tags", "device", "time_limit", "task.path", "task.vectors_from.path")
_BARE = {"layers": 1, "residual": "none", "norm": "none", "feedforward": 0, "bias": False, "positions": "none"}
_SOFTMAX, _GENERALISED = "softmax heads", "generalised heads"


@dataclass(frozen=True, kw_only=True)
class CellOfRuns:
    """Runs that differ in their seed alone."""

    facet: str
    """The panel it belongs to: its depth, or its kind of heads (see ``Setting.in_theorem``)."""
    protocol: str
    """The training protocol."""
    layers: int
    """Layers."""
    heads: int
    """Query heads."""
    rank: int
    """Coordinates of a query or key of one head."""
    variant: str
    """What else tells it apart from cells of the same rank and heads, as in "lr 0.01"; empty where nothing does."""
    error: float
    """The mean over runs."""
    spread: float | None
    """Standard error of ``error``: between seeds where there are several, else of the one validation; None where
    unknown."""
    parameters: int
    """Trainable numbers."""
    bound: float | None
    """The error that no such layer goes below; None where none is proved."""
    runs: tuple[int, ...]
    """Their places in the store."""


@dataclass(frozen=True, kw_only=True)
class Setting:
    """One task; ``in_theorem`` says that its cells are held against the lower bound."""

    title: str
    dim: int
    task: TaskSpec
    in_theorem: bool
    cells: tuple[CellOfRuns, ...]


_Run = tuple[int, RunSpec, Mapping[str, Any]]
"""The place of a run in its store, its spec, its result."""


def settings_of(runs: Sequence[RunSpec | None], results: Sequence[Mapping[str, Any] | None]) -> list[Setting]:
    """The settings in the order their first run was planned; runs without a finite error belong to none, nor do those
    of another version, whose spec this one cannot read (None)."""
    groups: dict[tuple[str, int, bool], list[_Run]] = {}
    for place, (run, result) in enumerate(zip(runs, results, strict=True)):
        if run is not None and result is not None and finite(result.get("error")) is not None:
            key = (canonical_json(run.task), run.model.dim, _in_theorem(run))
            groups.setdefault(key, []).append((place, run, result))
    return [_setting(group) for group in groups.values()]


def finite(value: object) -> float | None:
    """``value`` as a float if it is a finite number."""
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
        return None
    return float(value)


def _in_theorem(run: RunSpec) -> bool:
    """Whether the lower bound is about this run: two orthonormal points, one query, one bare layer of heads."""
    task, model = run.task, run.model
    about = isinstance(task, NeighborSpec) and task.name == "nearest" and task.distribution == "orthogonal"
    return about and (task.tokens, task.asked) == (2, 1) and all(getattr(model, name) == v for name, v in _BARE.items())


def _setting(runs: Sequence[_Run]) -> Setting:
    _, first, _ = runs[0]
    in_theorem = _in_theorem(first)
    grouped: dict[tuple[str, str], list[_Run]] = {}
    for run in runs:
        grouped.setdefault((_facet(run[1], in_theorem), run[1].protocol), []).append(run)
    cells = [
        cell for (facet, protocol), group in grouped.items() for cell in _cells(facet, protocol, group, in_theorem)
    ]
    order = sorted(cells, key=lambda cell: (cell.layers, cell.facet, cell.protocol, cell.heads * cell.rank, cell.rank))
    title = printable(first.task.title) + (", one bare layer" if in_theorem else "")
    return Setting(title=title, dim=first.model.dim, task=first.task, in_theorem=in_theorem, cells=tuple(order))


def _facet(run: RunSpec, in_theorem: bool) -> str:
    """What a panel is called: the depth, and in the theorem's setting the kind of the heads."""
    kind = _SOFTMAX if run.model.generalized is None else _GENERALISED
    depth = f"{run.model.layers} layer" + "s" * (run.model.layers != 1)
    return kind if in_theorem else depth if kind == _SOFTMAX else f"{depth}, {kind}"


def _cells(facet: str, protocol: str, runs: Sequence[_Run], in_theorem: bool) -> Iterable[CellOfRuns]:
    flat = [dict(flatten(plain(run))) for _, run, _ in runs]
    telling = _telling_keys(flat)
    groups: dict[tuple[int, int, str], list[_Run]] = {}
    for one, keys in zip(runs, flat, strict=True):
        variant = ", ".join(f"{key.rpartition('.')[2]} {_shown(keys.get(key))}" for key in telling)
        groups.setdefault((one[1].model.heads, one[1].model.rank, variant), []).append(one)
    for (heads, rank, variant), members in groups.items():
        _, run, result = members[0]
        alone = finite(result.get("error_se"))
        error = Estimate.over([float(own["error"]) for _, _, own in members], alone=alone or 0.0)
        yield CellOfRuns(
            facet=facet,
            protocol=protocol,
            layers=run.model.layers,
            heads=heads,
            rank=rank,
            variant=variant,
            error=error.mean,
            spread=None if len(members) == 1 and alone is None else error.standard_error,
            parameters=run.parameters(),
            bound=_bound(run.model.dim, rank, heads, facet) if in_theorem else None,
            runs=tuple(place for place, _, _ in members),
        )


def _telling_keys(flat: Sequence[Mapping[str, Any]]) -> list[str]:
    """The keys that tell cells apart beyond rank and heads: they differ between runs of equal rank and heads."""
    seen: dict[tuple[int, int], Mapping[str, Any]] = {}
    telling: dict[str, None] = {}
    for keys in flat:
        other = seen.setdefault((keys["model.heads"], keys["model.rank"]), keys)
        for key in (*keys, *other):
            if key not in _NOT_A_CELL and keys.get(key) != other.get(key):
                telling[key] = None
    return list(telling)


def _bound(dim: int, rank: int, heads: int, facet: str) -> float | None:
    values: Values = "any" if facet == _SOFTMAX else "scaled_identity"
    try:
        return error_lower_bound(dim, min(rank, dim), heads, values=values).value
    except InvalidInputError:  # a dimension of 1, of which the theorem does not speak
        return None


def _shown(value: object) -> str:
    return f"{value:g}" if isinstance(value, float) else "none" if value is None else str(value)
