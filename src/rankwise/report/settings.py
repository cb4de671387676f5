"""The runs of a store as a reader sees them: settings, and in each the cells whose error is one number.

A setting is a task, and whether its models are the bare layer that the lower bound is about. A cell is a set of runs
that differ in their seed alone; its error is their mean.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import PurePath
from typing import Any

from rankwise.errors import InvalidInputError
from rankwise.sweep.plan import flatten
from rankwise.sweep.printable import printable
from rankwise.theory.bounds import Values, error_lower_bound

# Keys of a spec that never tell two cells apart: the seed, where and how long a run was worked on, where its data lay.
_NOT_A_CELL = ("seed", "tags", "device", "time_limit", "task.path", "task.vectors_from.path")
_BARE: dict[str, tuple[object, ...]] = {
    "layers": (1,),
    "residual": ("none", False),  # False: as older versions stored it
    "norm": ("none",),
    "feedforward": (0,),
    "bias": (False,),
}
_UNITS = {
    **dict.fromkeys(("nearest", "farthest", "biased"), "squared error per query"),
    "in_context": "squared error over the function's variance",
    "text": "bits per byte",
    "images": "share of images misread",
    "match2": "share of positions answered wrongly",
    "match3": "share of positions answered wrongly",
}
_SOFTMAX, _GENERALISED = "softmax heads", "generalised heads"


@dataclass(frozen=True, kw_only=True)
class Cell:
    """Runs equal but for the seed; ``error`` is their mean.

    ``spread`` is its standard error: between seeds where there are several, else of the one validation.
    ``bound`` is the error no such layer goes below, where that is proved; else None.
    """

    facet: str
    protocol: str
    layers: int
    heads: int
    rank: int
    variant: str
    error: float
    spread: float | None
    parameters: int | None
    bound: float | None
    runs: tuple[int, ...]


@dataclass(frozen=True, kw_only=True)
class Setting:
    """One task; ``in_theorem`` says that its cells are held against the lower bound; ``spec`` is one of its runs'."""

    title: str
    dim: int
    unit: str
    spec: Mapping[str, Any]
    in_theorem: bool
    cells: tuple[Cell, ...]


def settings_of(specs: Sequence[Mapping[str, Any]], results: Sequence[Mapping[str, Any] | None]) -> list[Setting]:
    """The settings in the order their first run was planned; runs without a finite error belong to none."""
    groups: dict[str, list[int]] = {}
    for index, (spec, result) in enumerate(zip(specs, results, strict=True)):
        if finite((result or {}).get("error")) is not None and _has_shape(spec):
            groups.setdefault(_setting_key(spec), []).append(index)
    return [_setting([(index, specs[index], results[index] or {}) for index in group]) for group in groups.values()]


def finite(value: object) -> float | None:
    """``value`` as a float if it is a finite number."""
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
        return None
    return float(value)


def _has_shape(spec: Mapping[str, Any]) -> bool:
    model = spec.get("model") or {}
    return all(isinstance(model.get(name), int) for name in ("dim", "heads", "rank"))


def _setting_key(spec: Mapping[str, Any]) -> str:
    task = {key: value for key, value in flatten({"task": spec.get("task")}) if key not in _NOT_A_CELL}
    return json.dumps([task, spec["model"]["dim"], _in_theorem(spec)], sort_keys=True)


def _in_theorem(spec: Mapping[str, Any]) -> bool:
    """Whether the lower bound is about this run: two orthonormal points, one query, one bare layer of heads."""
    task, model = spec.get("task") or {}, spec["model"]
    about = (task.get("name"), task.get("points"), task.get("distribution")) == ("nearest", 2, "orthogonal")
    bare = all(model.get(name, values[0]) in values for name, values in _BARE.items())
    return about and task.get("queries") in (None, 1) and bare and model.get("positions", "none") == "none"


def _setting(runs: list[tuple[int, Mapping[str, Any], Mapping[str, Any]]]) -> Setting:
    first = runs[0][1]
    in_theorem = _in_theorem(first)
    task = {name: value for name, value in (first.get("task") or {}).items() if value not in (None, [], ())}
    grouped: dict[tuple[str, str], list[tuple[int, Mapping[str, Any], Mapping[str, Any]]]] = {}
    for run in runs:
        grouped.setdefault((_facet(run[1], in_theorem), str(run[1].get("protocol", "custom"))), []).append(run)
    cells = [
        cell for (facet, protocol), group in grouped.items() for cell in _cells(facet, protocol, group, in_theorem)
    ]
    order = sorted(cells, key=lambda cell: (cell.layers, cell.facet, cell.protocol, cell.heads * cell.rank, cell.rank))
    dim = first["model"]["dim"]
    unit = _UNITS.get(str(task.get("name")), "error")
    title = _title(task, dim) + (", one bare layer" if in_theorem else "")
    return Setting(title=title, dim=dim, unit=unit, spec=first, in_theorem=in_theorem, cells=tuple(order))


def _facet(spec: Mapping[str, Any], in_theorem: bool) -> str:
    """What a panel is called: the depth, and in the theorem's setting the kind of the heads."""
    layers = spec["model"].get("layers", 1)
    kind = _SOFTMAX if spec["model"].get("generalized") is None else _GENERALISED
    depth = f"{layers} layer" + "s" * (layers != 1)
    return kind if in_theorem else depth if kind == _SOFTMAX else f"{depth}, {kind}"


def _cells(
    facet: str,
    protocol: str,
    runs: Sequence[tuple[int, Mapping[str, Any], Mapping[str, Any]]],
    in_theorem: bool,
) -> Iterable[Cell]:
    flat = [dict(flatten(spec)) for _, spec, _ in runs]
    telling = _telling_keys(flat)
    groups: dict[tuple[Any, ...], list[int]] = {}
    for at, keys in enumerate(flat):
        variant = ", ".join(f"{key.rpartition('.')[2]} {_shown(keys.get(key))}" for key in telling)
        groups.setdefault((keys["model.heads"], keys["model.rank"], variant), []).append(at)
    for (heads, rank, variant), members in groups.items():
        errors = [float(runs[at][2]["error"]) for at in members]
        own = finite(runs[members[0]][2].get("error_se"))
        parameters = runs[members[0]][2].get("parameters")
        yield Cell(
            facet=facet,
            protocol=protocol,
            layers=flat[members[0]].get("model.layers", 1),
            heads=heads,
            rank=rank,
            variant=variant,
            error=math.fsum(errors) / len(errors),
            spread=_spread(errors) if len(errors) > 1 else own,
            parameters=parameters if isinstance(parameters, int) else None,
            bound=_bound(flat[members[0]]["model.dim"], rank, heads, facet) if in_theorem else None,
            runs=tuple(runs[at][0] for at in members),
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


def _spread(errors: Sequence[float]) -> float:
    mean = math.fsum(errors) / len(errors)
    return math.sqrt(math.fsum((error - mean) ** 2 for error in errors) / (len(errors) - 1) / len(errors))


def _bound(dim: int, rank: int, heads: int, facet: str) -> float | None:
    values: Values = "any" if facet == _SOFTMAX else "scaled_identity"
    try:
        return error_lower_bound(dim, min(rank, dim), heads, values=values).value
    except InvalidInputError:  # a dimension of 1, of which the theorem does not speak
        return None


def _title(task: Mapping[str, Any], dim: int) -> str:
    name, queries = task.get("name", "runs"), task.get("queries", 1)
    if name in ("nearest", "farthest") and task.get("points") is not None:
        asked = f", {queries} queries" if queries != 1 else ""
        return f"{name.capitalize()} of {task['points']} {_points(task)} in {dim} dimensions{asked}"
    rest = ", ".join(_told(key, value) for key, value in task.items() if key not in ("name", "dim"))
    return f"{str(name).replace('_', ' ').capitalize()} in {dim} dimensions" + (f" ({rest})" if rest else "")


def _told(key: str, value: object) -> str:
    """Files by their names, contents by as many digits as anyone compares."""
    if key == "path":
        return printable(PurePath(str(value)).name)
    return f"{key} {_shown(value):.8}" if key == "sha256" else f"{key} {_shown(value)}"


def _points(task: Mapping[str, Any]) -> str:
    """The points by the law they are drawn from."""
    law, file = task.get("distribution"), task.get("vectors_from")
    if isinstance(file, Mapping):
        tensor = f" ({file['tensor']})" if file.get("tensor") is not None else ""
        return printable(f"points of {PurePath(str(file.get('path'))).name}{tensor}")
    if law == "power_law":
        return f"power-law points (exponent {_shown(task.get('alpha'))})"
    return "orthogonal points" if law == "orthogonal" else "points"


def _shown(value: object) -> str:
    return f"{value:g}" if isinstance(value, float) else "none" if value is None else str(value)
