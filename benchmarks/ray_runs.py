"""What the Ray engine costs: runs that do nothing, on a Ray of this machine, and the driver's memory as they pass.

Goals: under 50 ms a run on 2,000 runs; the driver's memory flat from 1,000 to 10,000 runs.
``python -m benchmarks.ray_runs 10000``
"""

from __future__ import annotations

import os
import sys
import tempfile
import time
from dataclasses import dataclass, field
from pathlib import Path

from benchmarks.sweeps import sweep_of_nothing
from rankwise.sweep import RayEngine, Silent, Tally, open_store, plan_sweep, run_plan

RUNS = 2000
MARKS = (1000, 2000, 5000, 10_000)


@dataclass
class Passage(Silent):
    """The driver's memory when so many runs are done."""

    memory: dict[int, float] = field(default_factory=dict)

    def update(self, tally: Tally) -> None:
        """Look at the memory whenever a mark is passed."""
        for mark in MARKS:
            if mark not in self.memory and tally.counts["done"] >= mark:
                self.memory[mark] = resident()


def resident() -> float:
    """Megabytes of this process in memory now."""
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") / 1e6


@dataclass(frozen=True, kw_only=True)
class Measured:
    """Seconds a run on the clock and of the driver's CPU, seconds to the first, and megabytes at each mark."""

    runs: int
    wall: float
    driver_cpu: float
    start: float
    memory: dict[int, float]


def measure(runs: int = RUNS) -> Measured:
    """Run ``runs`` runs that do nothing on a local Ray."""
    os.environ["PYTHONPATH"] = os.pathsep.join(path or str(Path.cwd()) for path in sys.path)
    plan = plan_sweep(sweep_of_nothing(runs))
    passage = Passage()
    with tempfile.TemporaryDirectory() as directory, open_store(Path(directory)) as store:
        engine = RayEngine(store.directory / "logs", entry="benchmarks.sweeps:nothing")
        began = time.perf_counter()
        assert engine.slots > 0  # starts Ray
        started = time.perf_counter()
        cpu = time.process_time()
        outcome = run_plan(plan, store, engine, watcher=passage)
        wall, cpu = time.perf_counter() - started, time.process_time() - cpu
    assert outcome.counts == {"done": runs}, outcome
    return Measured(runs=runs, wall=wall / runs, driver_cpu=cpu / runs, start=started - began, memory=passage.memory)


def main(runs: int = RUNS) -> Measured:
    """Measure and print."""
    found = measure(runs)
    print(f"Ray engine, {runs:,} runs that do nothing (goals: under 50 ms a run, memory flat)")
    print(f"  a run, from the first to the last {1000 * found.wall:9.2f} ms")
    print(f"  CPU time of the driver, a run     {1000 * found.driver_cpu:9.2f} ms")
    print(f"  starting Ray                      {found.start:9.2f} s")
    for mark, megabytes in found.memory.items():
        print(f"  driver's memory at {mark:6,} runs    {megabytes:9.1f} MB")
    return found


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
