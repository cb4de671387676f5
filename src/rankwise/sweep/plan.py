"""From a sweep to its runs: equal ones merged, each with its size, its cost and a short name."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any, Literal

from rankwise.spec import RunSpec, SweepSpec, plain
from rankwise.sweep.run_time import NOMINAL, run_flops, run_seconds

_KEYS_READ = 6


@dataclass(frozen=True, kw_only=True)
class PlannedRun:
    """A run and what is known beforehand; ``label`` tells it from the others of its plan, ``work`` compares costs."""

    id: str
    spec: RunSpec
    label: str
    parameters: int
    flops: float
    work: float


@dataclass(frozen=True, kw_only=True)
class Plan:
    """The runs of a sweep in its own order; ``merged`` counts those that were equal to an earlier one."""

    name: str
    runs: tuple[PlannedRun, ...]
    merged: int
    as_listed: bool = False

    def queue(self) -> list[PlannedRun]:
        """The order to run them in: the longest first, so that none is left to one worker at the end, or as listed."""
        return list(self.runs) if self.as_listed else sorted(self.runs, key=lambda run: -run.work)


def plan_sweep(sweep: SweepSpec) -> Plan:
    """Every distinct run of ``sweep``, once. The whole grid is checked before anything is started."""
    runs: dict[str, RunSpec] = {}
    for run in sweep.expand():
        runs.setdefault(run.id, run)
    flat = {run_id: dict(flatten(plain(run))) for run_id, run in runs.items()}
    varying = varying_keys(list(flat.values()))
    named = varying if len(varying) <= _KEYS_READ else telling_keys(list(flat.values()))
    planned = tuple(
        PlannedRun(
            id=run_id,
            spec=run,
            label=_label(flat[run_id], named) or run_id,
            parameters=run.parameters(),
            flops=run_flops(run),
            work=run_seconds(run, NOMINAL),
        )
        for run_id, run in runs.items()
    )
    merged = sweep.size() - len(planned)
    return Plan(name=sweep.name, runs=planned, merged=merged, as_listed=sweep.order == "listed")


def on_device(plan: Plan, device: Literal["cpu", "cuda", "auto"]) -> Plan:
    """``plan`` with every run on ``device``, which is no part of a run's id."""
    return replace(plan, runs=tuple(replace(run, spec=replace(run.spec, device=device)) for run in plan.runs))


def flatten(table: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    """``{"model": {"rank": 4}}`` as pairs ``("model.rank", 4)``."""
    for key, value in table.items():
        if isinstance(value, Mapping):
            yield from flatten(value, f"{prefix}{key}.")
        else:
            yield f"{prefix}{key}", value


def varying_keys(tables: list[dict[str, Any]]) -> list[str]:
    """The keys whose value is not the same in all flat tables, in the order they come."""
    keys = dict.fromkeys(key for table in tables for key in table)
    first = tables[0] if tables else {}
    return [key for key in keys if any(table.get(key) != first.get(key) for table in tables)]


def telling_keys(tables: list[dict[str, Any]]) -> list[str]:
    """Of the varying keys those that tell tables apart which the keys before them do not.

    Each key of a grid is needed; where whole settings differ (two tasks, say), a few of their keys are enough.
    """
    told = 1
    keys: list[str] = []
    for key in varying_keys(tables):
        now = len({tuple(repr(table.get(known)) for known in (*keys, key)) for table in tables})
        if now > told:
            told, keys = now, [*keys, key]
    return keys


def _label(table: Mapping[str, Any], keys: list[str]) -> str:
    return " ".join(f"{key.rpartition('.')[2]}={table[key]}" for key in keys if table.get(key) is not None)
