"""The quadrature of the mean hardmax rank against simulation, exact cases and its own proved bounds."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rankwise.errors import InvalidInputError
from rankwise.theory.expected_rank import expected_hardmax_rank, hardmax_rank_bounds
from rankwise.theory.hardmax_simulation import simulate_hardmax_rank
from rankwise.theory.occupancy import hardmax_rank_mean

_CASES = [
    # length, head_dim, mask, window, keys, trials, tolerance as a share of the plateau
    (3, 3, "full", None, "gaussian", 20000, 0.003),
    (16, 8, "full", None, "gaussian", 6000, 0.003),
    (64, 8, "full", None, "gaussian", 2000, 0.003),
    (64, 32, "full", None, "gaussian", 2000, 0.003),
    (256, 16, "full", None, "gaussian", 300, 0.003),
    (1024, 123, "full", None, "gaussian", 12, 0.003),
    (32, 4, "full", None, "gaussian", 4000, 0.02),
    (256, 4, "full", None, "gaussian", 300, 0.02),
    (32, 2, "full", None, "gaussian", 4000, 0.05),
    (64, 3, "full", None, "gaussian", 2000, 0.05),
    (64, 2, "causal", None, "gaussian", 2000, 0.05),
    (64, 16, "causal", None, "gaussian", 2000, 0.003),
    (256, 41, "causal", None, "gaussian", 200, 0.003),
    (256, 8, "causal", None, "gaussian", 200, 0.003),
    (16, 4, "causal", None, "gaussian", 6000, 0.02),
    (512, 32, "window", 64, "gaussian", 60, 0.003),
    (512, 8, "window", 16, "gaussian", 200, 0.004),
    (150, 16, "window", 100, "gaussian", 600, 0.006),
    (16, 3, "full", None, "unit", 6000, 0.003),
    (256, 3, "full", None, "unit", 300, 0.003),
    (256, 8, "full", None, "unit", 300, 0.003),
    (64, 2, "causal", None, "unit", 2000, 0.005),
    (256, 3, "causal", None, "unit", 300, 0.003),
    (256, 3, "window", 32, "unit", 300, 0.004),
]


@pytest.mark.parametrize(("length", "head_dim", "mask", "window", "keys", "trials", "tolerance"), _CASES)
def test_quadrature_agrees_with_simulation(
    length: int, head_dim: int, mask: str, window: int | None, keys: str, trials: int, tolerance: float
) -> None:
    simulated = simulate_hardmax_rank(length, head_dim, mask, keys=keys, window=window, trials=trials, seed=11)
    predicted = expected_hardmax_rank(length, head_dim, mask, keys=keys, window=window)
    plateau = hardmax_rank_mean(length, mask, window)
    assert abs(predicted - simulated.mean) < 4 * simulated.standard_error + tolerance * plateau
    assert 4 * simulated.standard_error < 0.03 * plateau


@pytest.mark.parametrize(("length", "head_dim", "trials"), [(8, 2, 8000), (32, 4, 4000), (64, 16, 2000), (256, 8, 400)])
@pytest.mark.parametrize("keys", ["gaussian", "unit"])
def test_simulation_lies_within_the_proved_bounds(length: int, head_dim: int, trials: int, keys: str) -> None:
    low, high = hardmax_rank_bounds(length, head_dim, keys=keys)
    simulated = simulate_hardmax_rank(length, head_dim, keys=keys, trials=trials, seed=5)
    assert low - 4 * simulated.standard_error < simulated.mean < high + 4 * simulated.standard_error
    assert low < expected_hardmax_rank(length, head_dim, keys=keys) < high
    assert high <= hardmax_rank_mean(length) * (1 + 1e-9)


def test_bounds_for_other_numbers_of_queries() -> None:
    low, high = hardmax_rank_bounds(64, 16, queries=20)
    simulated = simulate_hardmax_rank(64, 16, queries=20, trials=3000, seed=2)
    assert low - 4 * simulated.standard_error < simulated.mean < high + 4 * simulated.standard_error
    assert high - low < 0.2


def test_bounds_pin_the_rank_where_it_saturates() -> None:
    low, high = hardmax_rank_bounds(1024, 123)
    assert (high - low) / hardmax_rank_mean(1024) < 1e-3


@pytest.mark.parametrize("length", [3, 8, 64, 1000])
def test_unit_keys_in_the_plane_equal_the_law_of_spacings(length: int) -> None:
    """rank = n (1 - E[(1 - B/2)^n]) with B ~ Beta(2, n - 2), exactly; 5/9 n for long sequences."""
    grid = np.linspace(0, 1, 200_001)[1:-1]
    log_density = np.log(grid) + (length - 3) * np.log1p(-grid) + math.log((length - 1) * (length - 2))
    missed = np.trapezoid(np.exp(log_density + length * np.log1p(-grid / 2)), grid)
    exact = length * (1 - missed)
    assert expected_hardmax_rank(length, 2, keys="unit") == pytest.approx(exact, rel=4e-3)
    if length == 1000:
        assert exact / length == pytest.approx(5 / 9, abs=1e-3)


@pytest.mark.parametrize("mask", ["full", "causal"])
@pytest.mark.parametrize("keys", ["gaussian", "unit"])
def test_the_rank_tends_to_the_plateau(mask: str, keys: str) -> None:
    for length in (3, 50, 5000):
        plateau = hardmax_rank_mean(length, mask)
        assert expected_hardmax_rank(length, 100_000, mask, keys=keys) == pytest.approx(plateau, rel=3e-3)


@given(
    st.integers(3, 3000),
    st.integers(2, 200),
    st.sampled_from([("full", None), ("causal", None), ("window", 5), ("window", 64)]),
    st.sampled_from(["gaussian", "unit"]),
)
@settings(max_examples=20)
def test_the_rank_grows_with_head_dim_and_stays_below_the_plateau(
    length: int, head_dim: int, seen: tuple[str, int | None], keys: str
) -> None:
    mask, window = seen
    here, wider = (
        expected_hardmax_rank(length, size, mask, keys=keys, window=window) for size in (head_dim, 2 * head_dim)
    )
    assert 1 <= here <= wider * (1 + 1e-5)
    assert wider <= hardmax_rank_mean(length, mask, window) * (1 + 1e-9)


def test_two_visible_keys_are_at_the_plateau_whatever_they_are() -> None:
    assert expected_hardmax_rank(2, 2) == 1.5
    assert expected_hardmax_rank(9, 2, "window", window=2) == hardmax_rank_mean(9, "window", 2)
    assert expected_hardmax_rank(1, 7, keys="unit") == 1


def test_bad_input_names_the_argument() -> None:
    with pytest.raises(InvalidInputError, match=r"^head_dim: .*simulate"):
        expected_hardmax_rank(8, 1)
    with pytest.raises(InvalidInputError, match=r"^head_dim: "):
        hardmax_rank_bounds(8, 0)
    with pytest.raises(InvalidInputError, match=r"^keys: .*'unit'"):
        expected_hardmax_rank(8, 4, keys="units")
    with pytest.raises(InvalidInputError, match=r"^queries: "):
        hardmax_rank_bounds(8, 4, queries=0)
