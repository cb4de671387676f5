"""Best weights of random rank-1 features: ours against the plain way, and a size the plain way cannot hold.

Plain: the dense float64 kernel in numpy, conjugate gradients in scipy. One thread each, so that the ratio depends
neither on the number of cores nor on what else runs on them; the errors must agree to 1e-4.
Goals: 16,384 heads in dimension 64 at least 10 times faster; 65,536 heads below 4 GB and in minutes.
"""

from __future__ import annotations

import math
import resource
import subprocess
import sys
import time
from collections.abc import Callable

import numpy as np
import torch
from rich.console import Console
from scipy.sparse.linalg import cg
from threadpoolctl import threadpool_limits

from rankwise.theory import head_accuracy, optimal_weights, random_features

DIM, HEADS, MANY_HEADS = 64, 16_384, 65_536


def plain_error(queries: np.ndarray, keys: np.ndarray) -> float:
    """The least error as one would write it down."""
    kernel = np.arcsin(np.clip(queries @ queries.T, -1, 1))
    kernel *= np.arcsin(np.clip(keys @ keys.T, -1, 1))
    kernel *= 2 / math.pi**2
    kernel += 0.5
    np.fill_diagonal(kernel, 1.0)
    accuracy = head_accuracy(DIM, np.arccos(np.clip(np.sum(queries * keys, axis=1), -1, 1)))
    weights, failed = cg(kernel, accuracy, rtol=1e-5)
    assert not failed
    return float(1 - 2 * weights @ accuracy + weights @ (kernel @ weights))


def timed(call: Callable[[], float]) -> tuple[float, float]:
    start = time.perf_counter()
    error = call()
    return error, time.perf_counter() - start


def main() -> None:
    """Print both numbers."""
    out = Console(soft_wrap=True, highlight=False)
    # First and in a process of its own: a child starts with the peak of memory of its parent.
    done = subprocess.run([sys.executable, "-m", "benchmarks.features", "many"], check=True, capture_output=True)
    out.print(done.stdout.decode().strip())
    queries, keys = random_features(DIM, HEADS, 0)
    optimal_weights(queries[:4096], keys[:4096])  # imports and first allocations
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        with threadpool_limits(1):
            ours, plain, again = (
                timed(lambda: optimal_weights(queries, keys)[1]),
                timed(lambda: plain_error(queries, keys)),
                timed(lambda: optimal_weights(queries, keys)[1]),
            )
    finally:
        torch.set_num_threads(threads)
    seconds = (ours[1] + again[1]) / 2
    out.print(
        f"{HEADS} random features, dim {DIM}: ours {seconds:.2f} s, plain {plain[1]:.2f} s, "
        f"{plain[1] / seconds:.1f} times faster; errors {ours[0]:.6f} and {plain[0]:.6f}"
    )
    assert abs(ours[0] - plain[0]) < 1e-4


def many() -> None:
    """Print time and memory of the large one; the peak is the process's own only if it does nothing else."""
    queries, keys = random_features(DIM, MANY_HEADS, 0)
    error, seconds = timed(lambda: optimal_weights(queries, keys)[1])
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024 / 1e9
    print(f"{MANY_HEADS} random features, dim {DIM}: {seconds:.0f} s, {peak:.2f} GB at the peak, error {error:.6f}")


if __name__ == "__main__":
    many() if sys.argv[1:] == ["many"] else main()
