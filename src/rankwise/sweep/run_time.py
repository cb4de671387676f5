"""What a run costs before it is run: operations counted from its spec, divided by a measured rate.

For one example of Q queries that attend to N points (N = Q in self-attention), width W, H heads over G key heads, ranks
R and V, feed-forward width F, a layer's forward pass costs::

    2 W (Q H R + N G R + N G V + Q H V)     projections
    2 Q N H (R + V)                         scores and weighted sums
    4 Q W F                                 feed-forward

floating-point operations. Other layers:

- output map: 2 Q D^2; read-in of F features and read-out of O numbers: 2 N D (F + O);
- structured score form: its number of weights for W H R and W G R, its score dimension for R;
- latent attention, latent of L coordinates: 2 N W (H S + L + rope) + 2 N L H (nope + V) + 2 N W H V for the
  projections, with S = nope + rope for R;
- generalised heads with scores of width S: 2 H (N D R + N R S + Q D S) + 2 Q N H S + 2 Q N D.

A training step is three forward passes of its batch (the backward pass costs two), a validation one. Small models spend
most of their time between operations: a training step makes about 200 + 600 L calls into torch (counted by timing
ours), a validation step a quarter of that. Many small heads spend it on their Q N H scores per layer, whose softmax has
no matrix product::

    seconds = operations / rate + calls * seconds per call + scores * seconds per score

All three rates are measured on this machine, and corrected by the runs that a store has already finished.
"""

from __future__ import annotations

import math
import statistics
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from rankwise.errors import InvalidInputError
from rankwise.spec import RunSpec, from_plain
from rankwise.sweep.store import Row

# The share of the matrix-multiplication peak that training of small models reaches: an assumption, until runs are done.
_ASSUMED_SHARE = 0.4


@dataclass(frozen=True, kw_only=True)
class Rate:
    """How fast one worker is: operations per second, seconds per call, seconds per score, and their source."""

    flops: float
    call_seconds: float
    score_seconds: float
    source: str


# To compare runs with each other when nothing has been measured.
NOMINAL = Rate(flops=3e10, call_seconds=4e-6, score_seconds=3e-9, source="a nominal machine")


def forward_flops(run: RunSpec) -> float:
    """Operations of one forward pass for one example."""
    model, a = run.model, run.model.attention
    Q, N, W, H, G, R, V = run.task.asked, run.task.tokens, a.dim, a.heads, a.key_heads, a.score_dim, a.value_dim
    if model.generalized is not None:
        S = model.generalized
        return float(2 * H * (N * W * R + N * R * S + Q * W * S) + 2 * Q * N * (H * S + W))
    weights = {name: math.prod(shape) for name, shape in a.score_shapes().items()}
    from_keys = N * weights.pop("k_weight")
    projections = 2 * (Q * sum(weights.values()) + from_keys + W * (Q * H + N * G) * V)
    if model.latent is not None:
        m = model.latent
        R, up = m.score_dim, 2 * N * m.kv_lora_rank * H * (m.qk_nope_head_dim + V)
        projections = 2 * N * W * (H * R + m.cached_per_token + H * V) + up
    mixing = 2 * Q * N * H * (R + V)
    feedforward = 4 * Q * W * model.feedforward
    interface = run.task.interface
    ends = 0.0 if interface is None else interface.forward_flops(model.dim, N)
    return float(model.layers * (projections + mixing + feedforward)) + ends


def run_flops(run: RunSpec) -> float:
    """Operations of the whole run, as if it never stopped early."""
    return forward_flops(run) * _forward_passes(run)


def run_scores(run: RunSpec) -> float:
    """Scores of the whole run, Q N H a layer and forward pass."""
    return float(run.model.layers * run.model.heads * run.task.asked * run.task.tokens) * _forward_passes(run)


def run_calls(run: RunSpec) -> float:
    """About how many calls into torch the whole run makes."""
    optim = run.optim
    validations = -(-optim.steps // optim.epoch_steps)
    return (200 + 600 * run.model.layers) * (optim.steps + validations * optim.validation_batches / 4)


def run_seconds(run: RunSpec, rate: Rate) -> float:
    """How long the run should take."""
    return run_flops(run) / rate.flops + run_calls(run) * rate.call_seconds + run_scores(run) * rate.score_seconds


def _forward_passes(run: RunSpec) -> int:
    """Of one example each; a backward pass counts as two."""
    optim = run.optim
    validations = -(-optim.steps // optim.epoch_steps)
    return 3 * optim.steps * optim.batch + validations * optim.validation_batches * optim.validation_batch


def wall_seconds(seconds: Sequence[float], workers: int) -> float:
    """How long ``workers`` need for runs of these lengths: the work shared evenly, but at least the longest run."""
    return max(sum(seconds) / workers, max(seconds, default=0.0))


def corrected(rate: Rate, rows: Iterable[Row]) -> Rate:
    """``rate`` scaled so that it is right for the median of the finished runs, where there are any."""
    ratios = []
    for row in rows:
        try:
            run = from_plain(RunSpec, row.spec)
        except InvalidInputError:  # a spec of another version, whose cost is not known here
            continue
        if row.status == "done" and row.seconds > 0 and (row.result or {}).get("steps") == run.optim.steps:
            ratios.append(row.seconds / run_seconds(run, rate))
    if not ratios:
        return rate
    factor = statistics.median(ratios)
    source = f"{rate.source}, corrected by {len(ratios)} finished runs of this store"
    return Rate(
        flops=rate.flops / factor,
        call_seconds=rate.call_seconds * factor,
        score_seconds=rate.score_seconds * factor,
        source=source,
    )


def measured_rate(seconds: float = 0.3) -> Rate:
    """40 % of this machine's one-thread float32 matmul peak, the time of a small call, and a third of the time of a
    score of small heads, forward and backward."""
    import torch

    from rankwise.nn import one_thread

    with one_thread():
        large, small = torch.ones(512, 512), torch.ones(8, 8, requires_grad=True)
        peak = 2 * 512**3 / _best_of(lambda: large @ large, seconds / 3)
        call = _best_of(lambda: [small @ small for _ in range(100)], seconds / 3) / 100
        heads, gradient = torch.ones(512, 16, 4, requires_grad=True), torch.ones(512, 16, 4)
        mixed = _best_of(lambda: ((heads @ heads.mT).softmax(-1) @ heads).backward(gradient), seconds / 3)
    source = f"{_ASSUMED_SHARE:.0%} (assumed) of the one-thread matmul peak of {peak / 1e9:.0f} GFLOP/s measured now"
    score = mixed / (3 * 512 * 16 * 16)
    return Rate(flops=_ASSUMED_SHARE * peak, call_seconds=call, score_seconds=score, source=source)


def _best_of(work: Callable[[], object], seconds: float) -> float:
    """The shortest of as many repetitions as fit: what the machine can do when nobody disturbs it."""
    work()
    best, until = float("inf"), time.perf_counter() + seconds
    while time.perf_counter() < until:
        began = time.perf_counter()
        work()
        best = min(best, time.perf_counter() - began)
    return best
