"""From a sweep to its trained runs: train what is missing, then read everything from the store."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rankwise.spec import RunSpec, SweepSpec
from rankwise.sweep.engines.where import Where
from rankwise.sweep.plan import plan_sweep
from rankwise.sweep.session import raise_for_failures, run_here
from rankwise.sweep.store import read_store


@dataclass(frozen=True, kw_only=True)
class TrainedRun:
    """A run and what it reached; ``seconds`` of work, all attempts together; ``weights`` is where its last ones are.

    ``details`` and ``attention`` are what the task and the probes add (see ``train.result``).
    """

    run: RunSpec
    error: float
    error_se: float
    train_min: float
    sequences: int
    seconds: float
    weights: Path | None = None
    details: Mapping[str, Any] | None = None
    attention: Mapping[str, Any] | None = None


def train_sweep(
    sweep: SweepSpec, store: Path, *, where: Where | None = None, workers: int | None = None, retry: bool = False
) -> tuple[TrainedRun, ...]:
    """Train what ``store`` does not hold yet and return every run of ``sweep``, in its order.

    Raises when runs failed or the sweep was stopped; the same call continues.
    """
    plan = plan_sweep(sweep)
    raise_for_failures(plan, run_here(plan, store, where=where, workers=workers, retry=retry), store)
    return trained_runs(sweep, store)


def trained_runs(sweep: SweepSpec, store: Path) -> tuple[TrainedRun, ...]:
    """The runs of ``sweep`` that ``store`` holds results of."""
    with read_store(store) as reader:
        done = {row.run_id: row for row in reader.rows("done")}
    found = []
    for planned in plan_sweep(sweep).runs:
        row = done.get(planned.id)
        if row is None or row.result is None:
            continue
        numbers: dict[str, Any] = {name: float(row.result[name]) for name in ("error", "error_se", "train_min")}
        sequences = int(row.result["sequences"])
        weights = store / row.checkpoint if row.checkpoint else None
        numbers |= {"details": row.result.get("details"), "attention": row.result.get("attention")}
        found.append(TrainedRun(run=planned.spec, sequences=sequences, seconds=row.seconds, weights=weights, **numbers))
    return tuple(found)
