"""What a run costs before it is run: operations counted from its spec, divided by a measured rate.

For one example of Q queries that attend to N points (N = Q in self-attention), width W, H heads over G key heads, ranks
R and V, feed-forward width F, a layer's forward pass costs::

    2 W (Q H R + N G R + N G V + Q H V)     projections
    2 Q N H (R + V)                         scores and weighted sums
    4 Q W F                                 feed-forward

floating-point operations, an output map 2 Q D^2, and nothing else counts. Generalised heads with scores of width S cost
2 H (N D R + N R S + Q D S) + 2 Q N H S + 2 Q N D. A training step is three forward passes of
its batch (the backward pass costs two), a validation one. Seconds = operations / rate.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from rankwise.spec import RunSpec, from_plain
from rankwise.sweep.store import Row

# The share of the matrix-multiplication peak that small models reach in training; only until runs have been measured.
ASSUMED_SHARE = 0.4


@dataclass(frozen=True, kw_only=True)
class Rate:
    """Operations a second of one worker, and where the number comes from."""

    flops: float
    source: str


def forward_flops(run: RunSpec) -> float:
    """Operations of one forward pass for one example."""
    model, a = run.model, run.model.attention
    Q, N, W, H, G, R, V = run.task.asked, run.task.points, a.dim, a.heads, a.key_heads, a.rank, a.value_dim
    if model.generalized is not None:
        S = model.generalized
        return float(2 * H * (N * W * R + N * R * S + Q * W * S) + 2 * Q * N * (H * S + W))
    projections = 2 * W * (Q * H + N * G) * (R + V)
    mixing = 2 * Q * N * H * (R + V)
    feedforward = 4 * Q * W * model.feedforward
    output = 2 * Q * model.dim**2 if model.output_map else 0
    return float(model.layers * (projections + mixing + feedforward) + output)


def run_flops(run: RunSpec) -> float:
    """Operations of the whole run, as if it never stopped early."""
    optim = run.optim
    validations = -(-optim.steps // optim.epoch_steps)
    validated = validations * optim.validation_batches * optim.validation_batch
    return forward_flops(run) * (3 * optim.steps * optim.batch + validated)


def wall_seconds(flops: Sequence[float], rate: Rate, workers: int) -> float:
    """How long ``workers`` need for runs of these costs: the work shared evenly, but at least the longest run."""
    return max(sum(flops) / workers, max(flops, default=0.0)) / rate.flops


def rate_of_finished(rows: Iterable[Row]) -> Rate | None:
    """The median rate of runs that made all their steps; None when there are none."""
    rates = []
    for row in rows:
        run = from_plain(RunSpec, row.spec)
        if row.status == "done" and row.seconds > 0 and (row.result or {}).get("steps") == run.optim.steps:
            rates.append(run_flops(run) / row.seconds)
    if not rates:
        return None
    return Rate(flops=statistics.median(rates), source=f"measured on {len(rates)} finished runs of this store")


def rate_of_machine(seconds: float = 0.3) -> Rate:
    """``ASSUMED_SHARE`` of the one-thread float32 matrix-multiplication peak, measured now."""
    import torch

    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        a, b = torch.ones(512, 512), torch.ones(512, 512)
        a @ b  # the first call sets the library up
        best, until = float("inf"), time.perf_counter() + seconds
        while time.perf_counter() < until:
            began = time.perf_counter()
            a @ b
            best = min(best, time.perf_counter() - began)
    finally:
        torch.set_num_threads(threads)
    peak = 2 * 512**3 / best
    source = f"{ASSUMED_SHARE:.0%} (assumed) of the one-thread matmul peak of {peak / 1e9:.0f} GFLOP/s, measured now"
    return Rate(flops=ASSUMED_SHARE * peak, source=source)
