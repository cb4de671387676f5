"""Ratios that a noisy machine cannot fake: contestants take turns, the median of paired ratios is reported."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Mapping


def in_turns(
    contestants: Mapping[str, Callable[[], object]], seconds: float = 8.0, *, rounds: int = 5, warm_up: int = 2
) -> dict[str, list[float]]:
    """Seconds of every round of every contestant; rounds go on for about ``seconds``, at least ``rounds``."""
    for contestant in contestants.values():
        for _ in range(warm_up):
            contestant()
    times: dict[str, list[float]] = {name: [] for name in contestants}
    start = time.perf_counter()
    while time.perf_counter() - start < seconds or len(next(iter(times.values()))) < rounds:
        for name, contestant in contestants.items():
            begin = time.perf_counter()
            contestant()
            times[name].append(time.perf_counter() - begin)
    return times


def ratio(times: Mapping[str, list[float]], name: str, reference: str) -> float:
    """Median over rounds of time(name) / time(reference)."""
    return statistics.median(a / b for a, b in zip(times[name], times[reference], strict=True))
