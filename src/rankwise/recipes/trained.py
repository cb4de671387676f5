"""From a sweep to its trained runs: train what is missing, then read everything from the store."""

from __future__ import annotations

import csv
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from rankwise.spec import RunSpec, SweepSpec
from rankwise.sweep.plan import plan_sweep
from rankwise.sweep.session import raise_for_failures, run_here
from rankwise.sweep.store import read_store

_CSV_COLUMNS = (
    *("figure", "protocol", "dim", "points", "layers", "heads", "rank", "seed", "sequences"),
    *("error", "error_se", "train_min", "parameters", "seconds", "run_id"),
)


@dataclass(frozen=True, kw_only=True)
class TrainedRun:
    """A run and what it reached; ``seconds`` of work, all attempts together."""

    run: RunSpec
    error: float
    error_se: float
    train_min: float
    sequences: int
    seconds: float


def train_sweep(
    sweep: SweepSpec, store: Path, *, workers: int | None = None, retry: bool = False
) -> tuple[TrainedRun, ...]:
    """Train what ``store`` does not hold yet and return every run of ``sweep``, in its order.

    Raises when runs failed or the sweep was stopped; the same call continues.
    """
    plan = plan_sweep(sweep)
    raise_for_failures(plan, run_here(plan, store, workers=workers, retry=retry), store)
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
        numbers = {name: float(row.result[name]) for name in ("error", "error_se", "train_min")}
        sequences = int(row.result["sequences"])
        found.append(TrainedRun(run=planned.spec, sequences=sequences, seconds=row.seconds, **numbers))
    return tuple(found)


def write_csv(figure: str, runs: Sequence[TrainedRun], path: Path) -> Path:
    """One row a run: what it was, what it reached, and the id that leads back to its spec."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(_CSV_COLUMNS)
        for trained in runs:
            run, model = trained.run, trained.run.model
            shape = (model.dim, run.task.tokens, model.layers, model.heads, model.rank, run.seed)
            reached = (trained.sequences, trained.error, trained.error_se, trained.train_min)
            cost = (run.parameters(), round(trained.seconds, 3))
            writer.writerow((figure, run.protocol, *shape, *reached, *cost, run.id))
    return path
