"""From a sweep to its trained runs: train what is missing, then read everything from the store."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rankwise.spec import RunSpec, SweepSpec
from rankwise.sweep.database import database_file
from rankwise.sweep.engines.where import Where
from rankwise.sweep.plan import plan_sweep
from rankwise.sweep.session import raise_for_failures, run_here
from rankwise.sweep.store import Row, read_store


@dataclass(frozen=True, kw_only=True)
class TrainedRun:
    """A run and its result as the store keeps it (see ``train.result``); ``weights`` is where its last ones are."""

    run: RunSpec
    result: Mapping[str, Any]
    seconds: float
    weights: Path | None = None


def train_sweep(
    sweep: SweepSpec, store: Path, *, where: Where | None = None, workers: int | None = None, retry: bool = False
) -> tuple[TrainedRun, ...]:
    """Train what ``store`` does not hold yet and return every run of ``sweep``, in its order.

    Raises when runs failed or the sweep was stopped; the same call continues. A store that holds everything is only
    read, also while another command trains in it.
    """
    plan = plan_sweep(sweep)
    done = _done(store)
    if any(run.id not in done for run in plan.runs):
        raise_for_failures(plan, run_here(plan, store, where=where, workers=workers, retry=retry), store)
        done = _done(store)
    found = []
    for planned in plan.runs:
        row = done[planned.id]
        assert row.result is not None
        weights = store / row.checkpoint if row.checkpoint else None
        found.append(TrainedRun(run=planned.spec, result=row.result, seconds=row.seconds, weights=weights))
    return tuple(found)


def _done(store: Path) -> dict[str, Row]:
    if not database_file(store).exists():
        return {}
    with read_store(store) as reader:
        return {row.run_id: row for row in reader.rows("done")}
