"""docs/scale.md: what a study costs on 8, 64 and 512 workers, from costs and overheads measured here and now.

``python -m benchmarks.scale`` (minutes). Measured: CPU time of training steps, to which the cost formulas are fitted;
the time per run of the Ray engine, the share of its driver, and the CPU time until a worker has loaded torch.
Computed: every run's seconds by those formulas, a longest-first schedule on W workers, and the rates the driver sees.
"""

from __future__ import annotations

import heapq
import subprocess
import sys
import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from benchmarks import ray_runs
from rankwise.recipes import figure1
from rankwise.spec import NeighborSpec, RunSpec, heads_for_budget
from rankwise.sweep import Rate, duration, run_calls, run_flops, run_scores, run_seconds
from rankwise.train import PAPER_SEQUENCES, Cell, capacity, paper

PAGE = Path(__file__).parent.parent / "docs" / "scale.md"
WORKERS = (8, 64, 512)
SEEDS = range(5)
STUDY_RUNS = 100_000
CHECKPOINT_SECONDS = 30.0
PRICE = 0.04  # dollars per core and hour, an assumption: what clouds ask for a shared core
_SMALL, _LARGE = (NeighborSpec(name="farthest", dim=dim, points=points) for dim, points in ((16, 8), (64, 16)))
MEASURED = (
    capacity(Cell(task=_SMALL, layers=1, heads=1, rank=16, sequences=96_000)),
    capacity(Cell(task=_SMALL, layers=3, heads=8, rank=8, sequences=128_000)),
    capacity(Cell(task=_LARGE, layers=1, heads=512, rank=1, sequences=1_280_000)),
    capacity(Cell(task=_LARGE, layers=3, heads=64, rank=8, sequences=1_280_000)),
    capacity(Cell(task=_LARGE, layers=1, heads=64, rank=64, sequences=1_280_000)),
    paper(Cell(task=_LARGE, layers=3, heads=8, rank=8, sequences=1_280_000)),
)


@dataclass(frozen=True, kw_only=True)
class Overheads:
    """Seconds per run on the clock, of the driver's CPU, and until a new worker is ready."""

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
    checkpoints: float  # megabytes per second to the driver, without a shared directory

    @property
    def bottleneck(self) -> str:
        """What to change to be faster."""
        if self.driver_share > 0.9:
            return "the driver"
        return "the longest run" if self.longest_share > 0.9 else "the workers' cores"


def measure_rate(steps: int = 8) -> Rate:
    """The three rates of the cost formulas, fitted to the CPU time of real steps, small and large, in one thread."""
    import torch
    from scipy.optimize import nnls

    from rankwise.train import Training

    torch.set_num_threads(1)
    rows, took = [], []
    for run in MEASURED:
        training = Training(run)
        training.advance()
        began = time.process_time()
        for _ in range(steps):
            training.advance()
        took.append((time.process_time() - began) / steps)
        one_step = replace(run, optim=replace(run.optim, steps=1, warmup=0, epoch_steps=1, validation_batches=1))
        without = replace(one_step, optim=replace(one_step.optim, validation_batch=1))
        rows.append((run_flops(without), run_calls(without), run_scores(without)))
    relative = np.array(rows) / np.array(took)[:, None]
    (inverse, call, score), _ = nnls(relative, np.ones(len(took)))
    worst = max(abs(float(fit) - 1) for fit in relative @ (inverse, call, score))
    source = f"fitted to steps of {len(MEASURED)} shapes, off by at most {100 * worst:.0f} %"
    return Rate(flops=1 / inverse, call_seconds=float(call), score_seconds=float(score), source=source)


def measure_overheads() -> Overheads:
    """The Ray engine's on runs that do nothing, and a process that loads the training."""
    found = ray_runs.measure()
    load = "import time, rankwise.train.loop; print(time.process_time())"
    loaded = subprocess.run([sys.executable, "-c", load], check=True, capture_output=True, text=True)
    return Overheads(wall=found.wall, driver=found.driver_cpu, worker_start=float(loaded.stdout))


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
    full = [paper(cell) for cell in _grid(PAPER_SEQUENCES)]
    short = [capacity(cell) for cell in _grid(PAPER_SEQUENCES // 20)]
    small = list(figure1.FIGURE.sweep("laptop", seeds=1).expand())
    return {
        f"The paper's grid, its protocol ({len(full) * len(SEEDS)} runs of 25.6 million sequences)": (full, len(SEEDS)),
        f"The paper's grid, `capacity` ({len(short) * len(SEEDS)} runs of a twentieth)": (short, len(SEEDS)),
        f"A study of {STUDY_RUNS:,} runs of laptop size (d = 16)": (small, STUDY_RUNS // len(small)),
    }


def _grid(sequences: int) -> list[Cell]:
    """All of the paper's Figure 1: every depth, budget and rank."""
    return [
        Cell(task=_LARGE, layers=layers, heads=heads_for_budget(64, rank, exponent), rank=rank, sequences=sequences)
        for layers in (1, 3, 5)
        for exponent in (1.0, 1.5, 2.0)
        for rank in (1, 2, 4, 8, 16, 32, 64)
    ]


def page(rate: Rate, overheads: Overheads) -> str:
    """The document."""
    most = overheads.driver
    lines = [
        "# What a study costs",
        "",
        "Written by `python -m benchmarks.scale` from what it measured on one machine.",
        "",
        "| measured | value | unit |",
        "|---|---|---|",
        f"| arithmetic of one thread | {rate.flops / 1e9:.1f} | GFLOP/s |",
        f"| overhead per call | {rate.call_seconds * 1e6:.1f} | us |",
        f"| time per score | {rate.score_seconds * 1e9:.1f} | ns |",
        f"| Ray engine per empty run, on the clock | {1000 * overheads.wall:.1f} | ms |",
        f"| the driver's CPU per empty run | {1000 * overheads.driver:.1f} | ms |",
        f"| loading torch in a new worker | {overheads.worker_start:.1f} | s |",
        "",
        f"The first three are CPU time, {rate.source}. The engine had 2,000 runs and two workers. "
        f"Assumed: a core costs ${PRICE:.2f} per hour, and all cores are like this one.",
        "",
    ]
    for name, (runs, copies) in studies().items():
        core_hours = copies * sum(run_seconds(run, rate) for run in runs) / 3600
        longest = max(run_seconds(run, rate) for run in runs)
        lines += [
            f"## {name}",
            "",
            f"{core_hours:,.0f} core-hours, about ${core_hours * PRICE:,.0f}; the longest run: {duration(longest)}.",
            "",
            "| workers | wall time | driver busy | checkpoints to the driver | bottleneck |",
            "|---|---|---|---|---|",
        ]
        for workers in WORKERS:
            found = estimate(runs, copies, workers, rate, overheads)
            busy = f"{found.driver_share:.1%}" if found.driver_share >= 0.001 else "under 0.1%"
            wall, traffic = duration(3600 * found.hours), f"{found.checkpoints:.1f} MB/s"
            lines.append(f"| {workers} | {wall} | {busy} | {traffic} | {found.bottleneck} |")
        lines.append("")
    lines += [
        f"- The driver is the only process that writes to the store. It can finish at most {1 / most:,.0f} runs "
        f"per second, so runs shorter than {512 * most:.1f} s would leave some of 512 workers idle.",
        "- Checkpoints go through it only where workers do not share its directory ([cluster.md](cluster.md)).",
        "- Failures are left out: a lost worker costs at most the half minute since its last checkpoint.",
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
