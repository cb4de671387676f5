import pytest
from hypothesis import given
from hypothesis import strategies as st

from rankwise.errors import InvalidInputError
from rankwise.measure.knee import find_knee, first_crossing


def test_the_first_size_within_two_percent_of_the_best():
    rising = {1: [0.5], 2: [0.9], 4: [0.979], 8: [0.981], 16: [1.0]}
    assert find_knee(rising, lower_is_better=False).at == 8
    falling = {1: [4.0], 2: [2.05], 4: [2.039], 8: [2.0]}
    assert find_knee(falling, lower_is_better=True).at == 4


def test_the_interval_is_the_range_of_the_seeds_and_overlap_is_agreement():
    curve = {1: [0.99, 0.5], 2: [0.995, 0.9], 4: [1.0, 1.0]}
    knee = find_knee(curve, lower_is_better=False)
    assert (knee.at, knee.low, knee.high) == (4, 1, 4)
    assert str(knee) == "4 (1 to 4)"
    early = find_knee({1: [1.0, 1.0], 2: [1.0, 1.0]}, lower_is_better=False)
    late = find_knee({1: [0.1, 0.1], 8: [1.0, 1.0]}, lower_is_better=False)
    assert str(early) == "1"
    assert knee.agrees_with(early)
    assert early.agrees_with(knee)
    assert not early.agrees_with(late)


@given(
    values=st.lists(st.floats(0.1, 10), min_size=2, max_size=8),
    scale=st.floats(0.01, 100),
    lower=st.booleans(),
)
def test_the_rule_is_relative_and_never_before_a_better_size(values, scale, lower):
    curve = {2**i: [value] for i, value in enumerate(values)}
    knee = find_knee(curve, lower_is_better=lower)
    best = min(values) if lower else max(values)
    assert abs(curve[knee.at][0] - best) <= 0.0200001 * best
    assert all(abs(curve[size][0] - best) > 0.02 * best for size in curve if size < knee.at)
    if all(abs(abs(v / best - 1) - 0.02) > 1e-9 for v in values):
        assert find_knee({k: [scale * v[0]] for k, v in curve.items()}, lower_is_better=lower) == knee


def test_seeds_must_be_complete():
    with pytest.raises(InvalidInputError, match="as many seeds at every size"):
        find_knee({1: [0.5, 0.4], 2: [0.9]}, lower_is_better=False)


def test_a_falling_curve_crosses_a_level_between_two_sizes_or_not_at_all():
    assert first_crossing({8: 0.9, 16: 0.6, 32: 0.1}, 0.5) == pytest.approx(16 + 16 * 0.2)
    assert first_crossing({2: 0.6, 4: 0.5, 8: 0.1}, 0.5) == 4
    assert first_crossing({8: 0.9, 16: 0.6}, 0.5) is None
    assert first_crossing({8: 0.4, 16: 0.1}, 0.5) is None
