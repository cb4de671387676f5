"""What the machinery costs: 5,000 runs that do nothing, from the grid to the table.

Goals: under 20 ms a run from start to finish, ``rankwise status`` on them under 2 s.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from rankwise.spec import Axis, ModelSpec, NeighborSpec, OptimSpec, RunSpec, SweepSpec
from rankwise.sweep import LocalEngine, open_store, plan_sweep, read_store, result_table, run_plan, to_csv

RUNS = 5000


def nothing(spec: Mapping[str, Any], context: object) -> dict[str, Any]:
    """A run of about 0 ms."""
    return {"error": 0.0, "steps": 0}


def sweep_of_nothing(runs: int) -> SweepSpec:
    """As many specs of the paper's size, for runs that do not train them."""
    run = RunSpec(
        task=NeighborSpec(name="nearest", dim=64, points=16),
        model=ModelSpec(dim=64, heads=8, rank=8, feedforward=2048),
        optim=OptimSpec(lr=0.01, steps=100_000, batch=256),
    )
    return SweepSpec(name="nothing", base=run, axes=(Axis.of({"seed": range(runs)}),))


def main() -> dict[str, float]:
    """Measure, print one line a number, and return the numbers in seconds."""
    sweep = sweep_of_nothing(RUNS)
    took: dict[str, float] = {}
    with tempfile.TemporaryDirectory() as directory:
        began = time.perf_counter()
        plan = plan_sweep(sweep)
        took["plan, a run"] = (time.perf_counter() - began) / RUNS
        with open_store(Path(directory)) as store:
            began = time.perf_counter()
            outcome = run_plan(plan, store, LocalEngine(store.directory / "logs", entry=f"{__name__}:nothing"))
            took["run and store, a run"] = (time.perf_counter() - began) / RUNS
        assert outcome.counts == {"done": RUNS}, outcome
        began = time.perf_counter()
        with read_store(Path(directory)) as reader:
            to_csv(result_table(reader.rows()))
        took["table of all runs"] = time.perf_counter() - began
        began = time.perf_counter()
        subprocess.run(
            [sys.executable, "-m", "rankwise", "status", "--store", directory], check=True, capture_output=True
        )
        took["rankwise status, whole process"] = time.perf_counter() - began
    print(f"sweep of {RUNS:,} runs that do nothing (goals: under 20 ms a run, status under 2 s)")
    for name, seconds in took.items():
        print(f"  {name:32} {1000 * seconds:9.2f} ms")
    return took
