"""Where the rank saturates: by quadrature, checked with simulation on both sides of the answer."""

import math
import subprocess
import sys

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rankwise.errors import InvalidInputError
from rankwise.theory.saturation import (
    expected_hardmax_rank,
    hardmax_rank_mean,
    saturation_dim,
    saturation_law,
    simulate_hardmax_rank,
)


@pytest.mark.parametrize(
    ("mask", "lengths", "measured", "within"),
    [
        # medians of coarse searches by simulation, noisy at the long end: they bound the answer, not define it
        ("full", (32, 64, 128, 256, 512, 1024), (20, 32, 46, 64, 93, 130), 0.07),
        ("causal", (64, 128, 256, 512, 1024), (16, 27, 42, 58, 86), 0.08),
    ],
)
def test_agrees_with_measured_saturation(
    mask: str, lengths: tuple[int, ...], measured: tuple[int, ...], within: float
) -> None:
    for length, value in zip(lengths, measured, strict=True):
        assert saturation_dim(length, mask=mask).value == pytest.approx(value, rel=within)


@pytest.mark.parametrize(
    ("length", "mask", "window", "keys", "deficit", "trials"),
    [
        (32, "full", None, "gaussian", 0.1, 8000),
        (256, "full", None, "gaussian", 0.1, 400),
        (64, "causal", None, "gaussian", 0.1, 4000),
        (256, "causal", None, "gaussian", 0.1, 400),
        (256, "window", 32, "gaussian", 0.1, 600),
        (64, "full", None, "unit", 0.1, 4000),
        (64, "causal", None, "unit", 0.05, 4000),
        (64, "full", None, "unit", 0.02, 4000),
    ],
)
def test_simulation_passes_above_and_fails_below(
    length: int, mask: str, window: int | None, keys: str, deficit: float, trials: int
) -> None:
    found = saturation_dim(length, deficit, mask=mask, keys=keys, window=window)
    assert found.status == "quadrature"
    target = (1 - deficit) * hardmax_rank_mean(length, mask, window)
    above, below = max(found.value + 1, round(1.15 * found.value)), min(found.value - 1, round(0.85 * found.value))
    enough, short = (
        simulate_hardmax_rank(length, size, mask, keys=keys, window=window, trials=trials, seed=9)
        for size in (above, below)
    )
    assert enough.mean > target
    assert short.mean + 4 * short.standard_error < target


def test_exact_cases() -> None:
    assert saturation_dim(1).value == 1
    assert saturation_dim(1).status == "closed form"
    assert saturation_dim(2).value == 1
    assert saturation_dim(2, keys="unit").value == 2
    assert saturation_dim(50, mask="window", window=2) == saturation_dim(2)
    # three keys on a line: the middle one loses every full row, yet causal rows make up for it exactly
    assert saturation_dim(3, 0.001, mask="causal").value == 1
    assert saturation_dim(3, 0.1).value == 2


def test_a_line_by_closed_form_and_by_simulation() -> None:
    causal = saturation_dim(5, 0.1, mask="causal")
    assert (causal.value, causal.status) == (1, "closed form")
    line = simulate_hardmax_rank(5, 1, "causal", trials=20_000)
    assert line.mean / 3 > 0.9
    window = saturation_dim(1000, 0.1, mask="window", window=3)
    assert (window.value, window.status) == (1, "simulated")


@pytest.mark.parametrize("length", [3, 4, 5, 8, 20])
def test_causal_rank_on_a_line(length: int) -> None:
    from rankwise.theory.saturation import _line_causal

    simulated = simulate_hardmax_rank(length, 1, "causal", trials=20_000, seed=6)
    assert abs(_line_causal(length) - simulated.mean) < 4 * simulated.standard_error


def test_causal_rank_on_a_long_line_lacks_the_keys_that_are_left_out() -> None:
    """A row picks the largest or the smallest key so far, by the sign of its query: no scores are needed."""
    from rankwise.theory.saturation import _line_causal

    length, trials = 12_000, 400
    random = np.random.default_rng(3)
    ranks = np.empty(trials)
    for trial in range(trials):
        key, up = random.standard_normal(length), random.random(length) < 0.5
        best = np.where(up, np.maximum.accumulate(key), np.minimum.accumulate(key))
        ranks[trial] = len(np.unique(best))
    lacking = 2 * math.log(length / 2000)
    assert abs(_line_causal(length) + lacking - ranks.mean()) < 4 * ranks.std() / math.sqrt(trials)
    assert _line_causal(length) < ranks.mean() - 8 * ranks.std() / math.sqrt(trials)


def test_a_tiny_deficit_is_extrapolated_and_says_so() -> None:
    found = saturation_dim(1024, 1e-6)
    assert found.status == "heuristic law"
    resolved = saturation_dim(1024, 1e-3)
    assert resolved.status == "quadrature"
    assert found.value == pytest.approx(1000 * resolved.value, rel=0.01)


def test_the_law_is_the_limit_of_small_deficits() -> None:
    """t^4/(4 (e-1) x) keeps its constant within a few per cent where the deficit is small, c log n cannot."""
    for length in (1000, 10**6):
        assert saturation_dim(length, 1e-3).value == pytest.approx(saturation_law(length, 1e-3), rel=0.03)
        assert saturation_dim(length).value == pytest.approx(saturation_law(length), rel=0.12)


def test_a_head_dim_that_grows_like_log_n_loses_ground() -> None:
    """Matched at n = 64, c log n keeps .906 of the plateau there and .70 at 16,384; c t^4 keeps it all."""
    start, end = 64, 16_384
    matched = saturation_dim(start).value
    log_size = round(matched * math.log(end) / math.log(start))
    law_size = round(matched * saturation_law(end) / saturation_law(start))
    kept_log, kept_law = (expected_hardmax_rank(end, size) / hardmax_rank_mean(end) for size in (log_size, law_size))
    assert kept_log == pytest.approx(0.70, abs=0.02)
    assert 0.89 < kept_law < 0.93


@given(
    st.integers(1, 5000),
    st.floats(0.02, 0.9),
    st.sampled_from([("full", None), ("causal", None), ("window", 7), ("window", 200)]),
    st.sampled_from(["gaussian", "unit"]),
)
@settings(max_examples=8)
def test_the_answer_is_the_smallest_that_passes(
    length: int, deficit: float, seen: tuple[str, int | None], keys: str
) -> None:
    mask, window = seen
    found = saturation_dim(length, deficit, mask=mask, keys=keys, window=window)
    assert found.value >= 1
    assert saturation_dim(length, deficit / 2, mask=mask, keys=keys, window=window).value >= found.value
    if found.status == "quadrature":
        target = (1 - deficit) * hardmax_rank_mean(length, mask, window)
        assert expected_hardmax_rank(length, found.value, mask, keys=keys, window=window) >= target
        if found.value > 2:
            assert expected_hardmax_rank(length, found.value - 1, mask, keys=keys, window=window) < target


@pytest.mark.parametrize("deficit", [0, 1, -0.1, 1.5, float("nan"), True, "0.1"])
def test_deficit_must_be_between_0_and_1(deficit: object) -> None:
    with pytest.raises(InvalidInputError, match=r"^deficit: "):
        saturation_dim(64, deficit)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("arguments", "named"),
    [({"length": 0}, "length"), ({"length": 1}, "length"), ({"length": 64, "deficit": 0}, "deficit")],
)
def test_the_law_refuses_what_it_cannot_divide_by(arguments: dict[str, float], named: str) -> None:
    with pytest.raises(InvalidInputError, match=f"^{named}: "):
        saturation_law(**arguments)


def test_unit_keys_on_a_line_are_not_counted_though_their_ties_may_keep_enough() -> None:
    line = simulate_hardmax_rank(3, 1, keys="unit", trials=4000)
    assert line.mean > 0.7 * hardmax_rank_mean(3)
    assert saturation_dim(3, 0.5, keys="unit").value == 2


def test_theory_loads_without_torch() -> None:
    code = (
        "import sys; import rankwise.theory.saturation as s, rankwise.theory.depth as d; s.saturation_dim(1000);"
        "d.majority_accuracy(8, 9); sys.exit('torch' in sys.modules or 'matplotlib' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
