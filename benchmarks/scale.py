"""docs/scale.md: what a study costs on 8, 64 and 512 workers, from costs and overheads measured here and now.

``python -m benchmarks.scale`` (minutes). Measured: CPU time of training steps of the paper's size, against what the
cost formulas say; the Ray engine's time a run, the driver's share of it, and the time until a worker has loaded torch.
Computed: every run's seconds by those formulas, a longest-first schedule on W workers, and the rates the driver sees.
"""

from __future__ import annotations

import heapq
import statistics
import subprocess
import sys
import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from benchmarks import ray_runs
from rankwise.recipes import figure1
from rankwise.spec import RunSpec, SweepSpec
from rankwise.sweep.cost import Rate, measured_rate, run_seconds
from rankwise.sweep.plan import plan_sweep
from rankwise.train.protocols import PAPER_SEQUENCES, Cell, paper

PAGE = Path(__file__).parent.parent / "docs" / "scale.md"
WORKERS = (8, 64, 512)
SEEDS = range(5)
STUDY_RUNS = 100_000
CHECKPOINT_SECONDS = 30.0
PRICE = 0.04  # dollars a core and hour, an assumption: what clouds ask for a shared core
CELLS = ((1, 64), (8, 8), (64, 8))


@dataclass(frozen=True, kw_only=True)
class Overheads:
    """Seconds a run on the clock, of the driver's CPU, and until a new worker is ready."""

    wall: float
    driver: float
    worker_start: float


@dataclass(frozen=True, kw_only=True)
class Estimate:
    """One study on so many workers."""

    workers: int
    hours: float
    driver_share: float  # of the wall time that the driver is busy
    longest_share: float  # of the wall time that the longest run takes
    checkpoints: float  # megabytes a second to the driver, without a shared directory

    @property
    def bottleneck(self) -> str:
        """What to change to be faster."""
        if self.driver_share > 0.9:
            return "the driver"
        return "the longest run" if self.longest_share > 0.9 else "the workers' cores"


def measure_rate(steps: int = 6) -> Rate:
    """The cost formulas' rate, corrected by the CPU time of real training steps in one thread."""
    import torch

    from rankwise.train.loop import Training

    torch.set_num_threads(1)
    rate, ratios = measured_rate(), []
    for heads, rank in CELLS:
        run = paper(Cell(dim=64, points=16, layers=1, heads=heads, rank=rank, sequences=25_600))
        short = replace(run, optim=replace(run.optim, steps=steps + 2, epoch_steps=steps + 2, patience=None))
        training = Training(short)
        training.advance()
        began = time.process_time()
        for _ in range(steps):
            training.advance()
        took = (time.process_time() - began) / steps
        one_step = replace(short, optim=replace(short.optim, steps=1, epoch_steps=1, validation_batches=1))
        ratios.append(took / run_seconds(one_step, rate))
    factor = statistics.median(ratios)
    return Rate(flops=rate.flops / factor, call_seconds=rate.call_seconds * factor, source="training steps timed here")


def measure_overheads() -> Overheads:
    """The Ray engine's on runs that do nothing, and a process that loads the training."""
    found = ray_runs.measure()
    began = time.perf_counter()
    subprocess.run([sys.executable, "-c", "import rankwise.train.loop"], check=True)
    return Overheads(wall=found.wall, driver=found.driver_cpu, worker_start=time.perf_counter() - began)


def schedule(seconds: Iterable[float], workers: int) -> float:
    """When the last worker is done, if each takes the longest run left."""
    free = [0.0] * workers
    for length in sorted(seconds, reverse=True):
        heapq.heappush(free, heapq.heappop(free) + length)
    return max(free)


def checkpoint_bytes(run: RunSpec) -> float:
    """Weights and AdamW's two moments in four bytes each."""
    return 12.0 * run.model.parameters()


def estimate(runs: Sequence[RunSpec], copies: int, workers: int, rate: Rate, overheads: Overheads) -> Estimate:
    """``copies`` of every run on ``workers``; a checkpoint every half minute and one at the end."""
    lengths = [run_seconds(run, rate) for run in runs]
    worked = schedule([length + overheads.driver for length in lengths for _ in range(copies)], workers)
    driver = overheads.driver * len(runs) * copies
    wall = max(worked, driver) + overheads.worker_start
    written = sum(
        copies * (1 + length / CHECKPOINT_SECONDS) * checkpoint_bytes(run)
        for run, length in zip(runs, lengths, strict=True)
    )
    return Estimate(
        workers=workers,
        hours=wall / 3600,
        driver_share=driver / wall,
        longest_share=max(lengths) / wall,
        checkpoints=written / wall / 1e6,
    )


def studies() -> dict[str, tuple[list[RunSpec], int]]:
    """Name, runs, and how often each is repeated (seeds)."""
    twentieth = PAPER_SEQUENCES // 20
    full = _distinct(figure1.sweep("paper-whole", protocol="paper"))
    short = _distinct(figure1.sweep("paper-whole", protocol="capacity", sequences=twentieth))
    small = _distinct(figure1.sweep("laptop"))
    return {
        f"The paper's grid, its protocol ({len(full) * len(SEEDS)} runs of 25.6 million sequences)": (full, len(SEEDS)),
        f"The paper's grid, `capacity` ({len(short) * len(SEEDS)} runs of a twentieth)": (short, len(SEEDS)),
        f"A study of {STUDY_RUNS:,} runs of laptop size (d = 16)": (small, STUDY_RUNS // len(small)),
    }


def _distinct(sweep: SweepSpec) -> list[RunSpec]:
    return [run.spec for run in plan_sweep(sweep).runs]


def page(rate: Rate, overheads: Overheads) -> str:
    """The document."""
    most = overheads.driver
    lines = [
        "# What a study costs",
        "",
        "Written by `python -m benchmarks.scale` from what it measured on one machine.",
        "",
        f"Measured (CPU time where others could disturb): {rate.flops / 1e9:.1f} GFLOP/s and "
        f"{rate.call_seconds * 1e6:.1f} us a call in one thread ({rate.source}); the Ray engine needs "
        f"{1000 * overheads.wall:.1f} ms a run on the clock (2,000 runs that do nothing, two workers), of which "
        f"{1000 * overheads.driver:.1f} ms is the driver's CPU; a new worker loads torch in "
        f"{overheads.worker_start:.1f} s. Assumed: a core costs ${PRICE:.2f} an hour; all cores are like this one.",
        "",
    ]
    for name, (runs, copies) in studies().items():
        core_hours = copies * sum(run_seconds(run, rate) for run in runs) / 3600
        longest = max(run_seconds(run, rate) for run in runs) / 3600
        lines += [
            f"## {name}",
            "",
            f"{core_hours:,.0f} core-hours, about ${core_hours * PRICE:,.0f}; the longest run takes {longest:.2f} h.",
            "",
            "| workers | wall time | driver busy | checkpoints to the driver | bottleneck |",
            "|---|---|---|---|---|",
        ]
        for workers in WORKERS:
            found = estimate(runs, copies, workers, rate, overheads)
            wall = f"{found.hours / 24:.1f} days" if found.hours > 72 else f"{found.hours:.1f} h"
            traffic = f"{found.checkpoints:.2g} MB/s" if found.checkpoints >= 0.01 else "under 0.01 MB/s"
            lines.append(f"| {workers} | {wall} | {100 * found.driver_share:.2g} % | {traffic} | {found.bottleneck} |")
        lines.append("")
    lines += [
        f"The driver is the one writer: it can finish at most {1 / most:,.0f} runs a second, so that runs shorter than "
        f"{512 * most:.1f} s would leave some of 512 workers idle. Checkpoints go through it only where workers do not "
        "share its directory ([cluster.md](cluster.md)). The wall times leave out failures: a lost worker costs "
        "at most the half minute since its last checkpoint.",
        "",
    ]
    return "\n".join(lines)


def main() -> None:
    """Measure, compute, write."""
    rate = measure_rate()
    PAGE.write_text(page(rate, measure_overheads()), encoding="utf-8")
    print(PAGE.read_text(encoding="utf-8"))


if __name__ == "__main__":
    main()
