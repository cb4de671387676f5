"""Sequences a second of a training step, and what share of this machine's matmul peak that is.

The paper's experiment: batch 256, dim 64, 16 points, feed-forward 2048, one layer, farthest neighbour. As a sweep does,
every core trains its own run in a one-thread process; the peak is measured by the same processes at the same time,
as float32 products of 1024 x 1024 matrices. Operations are counted unmerged: three times (forward, backward by inputs,
backward by weights) the multiplications of projections, scores, mixing and feed-forward, two operations each.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable
from statistics import median

SHAPES = [(1, 64), (64, 8), (64, 64)]
BATCH, POINTS, DIM, FEEDFORWARD = 256, 16, 64, 2048
ROUNDS = 15


def operations_per_sequence(heads: int, rank: int) -> int:
    projections, attention = 4 * DIM * heads * rank, 2 * POINTS * heads * rank
    return 3 * 2 * POINTS * (projections + attention + 2 * DIM * FEEDFORWARD)


def training_step(heads: int, rank: int) -> Callable[[], None]:
    """One whole step: fresh data, forward, backward, AdamW."""
    import torch

    from rankwise.nn import Transformer
    from rankwise.spec import ModelSpec
    from rankwise.tasks import FarthestNeighbor

    average = heads * rank // DIM
    model = Transformer(
        ModelSpec(dim=DIM, heads=heads, rank=rank, average=average, feedforward=FEEDFORWARD, norm="unit", init="paper")
    )
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3, betas=(0.9, 0.95), weight_decay=0.0, fused=True)
    task, generator = FarthestNeighbor(DIM, POINTS), torch.Generator().manual_seed(0)

    def step() -> None:
        batch = task.sample(BATCH, generator)
        optimizer.zero_grad()
        task.error(model(batch.points), batch).mean().backward()
        optimizer.step()

    return step


def per_second(work: Callable[[], object], seconds: float) -> float:
    done, start = 0, time.perf_counter()
    while time.perf_counter() - start < seconds:
        work()
        done += 1
    return done / (time.perf_counter() - start)


def worker(seconds: float) -> None:
    """Peak and speeds of one process in short turns, so that a noisy neighbour slows a step and the peak alike."""
    import torch

    from rankwise.train import keep_freed_memory

    torch.set_num_threads(1)
    keep_freed_memory()
    a, b = torch.randn(1024, 1024), torch.randn(1024, 1024)
    steps = [training_step(*shape) for shape in SHAPES]
    for step in steps:
        step()
    rounds = []
    for _ in range(ROUNDS):
        turn = seconds / ROUNDS / (len(SHAPES) + 1)
        peak = per_second(lambda: a @ b, turn) * 2 * 1024**3
        rounds.append({"peak": peak, "speed": [per_second(step, turn) * BATCH for step in steps]})
    print(json.dumps(rounds))


def main(seconds: float = 60.0) -> None:
    """Start one process a core and print one table."""
    from rich.console import Console
    from rich.table import Table

    cores = os.cpu_count() or 1
    command = [sys.executable, "-c", f"from benchmarks.training import worker; worker({seconds})"]
    environment = os.environ | {"OMP_NUM_THREADS": "1"}
    workers = [subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment) for _ in range(cores)]
    results = [json.loads(process.communicate()[0]) for process in workers]
    # Medians over rounds of the sum over processes.
    rounds = list(zip(*results, strict=True))
    peaks = [sum(one["peak"] for one in processes) for processes in rounds]
    table = Table("heads", "rank", "sequences / s", "share of peak", title=f"peak {median(peaks) / 1e9:.0f} GFLOP/s")
    for index, (heads, rank) in enumerate(SHAPES):
        speeds = [sum(one["speed"][index] for one in processes) for processes in rounds]
        shares = [speed * operations_per_sequence(heads, rank) / top for speed, top in zip(speeds, peaks, strict=True)]
        table.add_row(str(heads), str(rank), f"{median(speeds):.0f}", f"{median(shares):.2f}")
    Console().print(table)


if __name__ == "__main__":
    main()
