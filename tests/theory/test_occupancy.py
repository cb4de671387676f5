"""The barrier's closed forms against enumeration of every possible choice."""

import itertools
import math
import time

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rankwise.errors import InvalidInputError
from rankwise.theory.occupancy import hardmax_rank_mean, hardmax_rank_var


def every_choice(sees: list[range]) -> tuple[float, float]:
    """Mean and variance of the number of distinct picks over all equally likely ways to pick."""
    counts = [len(set(choice)) for choice in itertools.product(*sees)]
    return float(np.mean(counts)), float(np.var(counts))


@pytest.mark.parametrize("length", [1, 2, 3, 4, 5, 6])
@pytest.mark.parametrize("mask", ["full", "causal"])
def test_mean_and_variance_equal_enumeration(length: int, mask: str) -> None:
    sees = [range(length) if mask == "full" else range(i + 1) for i in range(length)]
    mean, variance = every_choice(sees)
    assert hardmax_rank_mean(length, mask) == pytest.approx(mean, rel=1e-12)
    assert hardmax_rank_var(length, mask) == pytest.approx(variance, rel=1e-12, abs=1e-12)


@pytest.mark.parametrize(("length", "window"), [(1, 1), (4, 1), (5, 2), (6, 3), (7, 3), (6, 5), (6, 6), (5, 9)])
def test_window_mean_equals_enumeration(length: int, window: int) -> None:
    mean, _ = every_choice([range(max(0, i - window + 1), i + 1) for i in range(length)])
    assert hardmax_rank_mean(length, "window", window) == pytest.approx(mean, rel=1e-12)
    assert hardmax_rank_mean(length, "causal", window) == pytest.approx(mean, rel=1e-12)


def key_by_key(length: int, window: int) -> float:
    key = np.arange(1, length + 1)[:, None]
    row = key + np.arange(window)
    misses = np.where(row <= length, 1 - 1 / np.minimum(row, window), 1.0).prod(axis=1)
    return length - float(misses.sum())


@given(st.integers(1, 2000), st.floats(0, 1))
def test_window_mean_equals_its_sum_over_keys(length: int, share: float) -> None:
    window = 1 + int(share * (length - 1))
    assert hardmax_rank_mean(length, "window", window) == pytest.approx(key_by_key(length, window), rel=1e-12)


def test_window_mean_needs_no_array_of_its_length() -> None:
    for length, window in ((10**15, 16), (10**15, 10**12)):
        started = time.perf_counter()
        mean = hardmax_rank_mean(length, "window", window)
        assert time.perf_counter() - started < 0.1
        assert mean / length == pytest.approx(1 - (1 - 1 / window) ** window, rel=2e-3)


@pytest.mark.parametrize(("length", "queries"), [(3, 1), (3, 5), (5, 2), (1, 4)])
def test_other_number_of_queries_equals_enumeration(length: int, queries: int) -> None:
    mean, _ = every_choice([range(length)] * queries)
    assert hardmax_rank_mean(length, queries=queries) == pytest.approx(mean, rel=1e-12)


def test_limits() -> None:
    n = 10**6
    assert hardmax_rank_mean(n) / n == pytest.approx(1 - 1 / math.e, abs=1e-6)
    assert hardmax_rank_mean(n, "causal") / n == pytest.approx(0.5, abs=1e-6)
    assert hardmax_rank_mean(n, "window", 4) / n == pytest.approx(1 - 0.75**4, abs=1e-5)
    assert hardmax_rank_mean(n, "window", 1000) / n == pytest.approx(1 - 1 / math.e, abs=1e-3)
    assert hardmax_rank_var(n) / n == pytest.approx((math.e - 2) / math.e**2, rel=1e-5)


def test_variance_keeps_its_digits_at_large_lengths() -> None:
    """Against exact rational arithmetic; the plain difference of n^2 terms would lose ten digits at n = 10^5."""
    from fractions import Fraction

    for n in (50, 3000):
        miss, both = Fraction(n - 1, n) ** n, Fraction(n - 2, n) ** n
        exact = n * miss * (1 - miss) + n * (n - 1) * (both - miss**2)
        assert hardmax_rank_var(n) == pytest.approx(float(exact), rel=1e-11)


@given(st.integers(1, 300), st.integers(1, 400))
def test_a_wider_window_never_finds_more_columns(length: int, window: int) -> None:
    mean = hardmax_rank_mean(length, "window", window)
    assert hardmax_rank_mean(length, "causal") - 1e-9 <= mean <= length
    assert hardmax_rank_mean(length, "window", window + 1) <= mean + 1e-9


@given(st.integers(1, 500), st.sampled_from(["full", "causal"]))
def test_the_barrier_grows_with_length_and_its_fraction_falls(length: int, mask: str) -> None:
    here, next_one = hardmax_rank_mean(length, mask), hardmax_rank_mean(length + 1, mask)
    assert here < next_one
    assert next_one / (length + 1) < here / length
    assert 0 <= hardmax_rank_var(length, mask) <= length / 4


@pytest.mark.parametrize(
    ("arguments", "named"),
    [
        ({"length": 0}, "length"),
        ({"length": True}, "length"),
        ({"length": 4, "mask": "casual"}, "mask"),
        ({"length": 4, "mask": "window"}, "window"),
        ({"length": 4, "mask": "window", "window": 0}, "window"),
        ({"length": 4, "mask": "full", "window": 2}, "window"),
        ({"length": 4, "mask": "causal", "queries": 3}, "queries"),
        ({"length": 4, "queries": 0}, "queries"),
    ],
)
def test_bad_input_names_the_argument(arguments: dict[str, object], named: str) -> None:
    with pytest.raises(InvalidInputError, match=f"^{named}: "):
        hardmax_rank_mean(**arguments)  # type: ignore[arg-type]


def test_no_closed_variance_for_windows() -> None:
    with pytest.raises(InvalidInputError, match=r"^mask: "):
        hardmax_rank_var(8, "window")
