import math

import pytest

from rankwise.errors import InvalidInputError
from rankwise.theory.bounds import Theorem2Constants, match3_load, theorem2

ONES = Theorem2Constants(small_c=1.0, small_c_prime=1.0, big_c=1.0, big_c_prime=1.0)


def test_high_accuracy_regime():
    regime = theorem2(64, 4, 0.01, constants=ONES).high_accuracy
    assert regime.applies
    assert regime.heads_log10 == pytest.approx((64 - 5 * math.log2(128 / 4)) * math.log10(2))
    doubled = Theorem2Constants(small_c=1.0, small_c_prime=1.0, big_c=100.0, big_c_prime=1.0)
    assert theorem2(64, 4, 0.01, constants=doubled).high_accuracy.heads_log10 == pytest.approx(regime.heads_log10 + 2)


def test_low_accuracy_regime():
    regime = theorem2(10_000, 2, 0.1, constants=ONES).low_accuracy
    assert regime.applies
    assert regime.heads_log10 == pytest.approx(math.log10(0.5 * (10_000 / (2 * math.e) / (2 + 10)) ** 10))


def test_conditions_that_fail_are_named():
    both = theorem2(64, 62, 0.4, constants=ONES)
    assert both.high_accuracy.failing == ("rank <= dim - 3", "error <= c / (dim + 1)")
    assert both.low_accuracy.failing == ("dim > 2 e^2 rank",)
    assert both.high_accuracy.heads_log10 is both.low_accuracy.heads_log10 is None
    assert theorem2(4, 1, 0.4, constants=ONES).low_accuracy.failing == ("dim >= 5", "dim > 2 e^2 rank")
    assert theorem2(64, 1, 1e-3, constants=ONES).low_accuracy.failing == ("error >= c' / (dim - 2 e^2 rank)",)


def test_high_accuracy_regime_is_empty_from_half_the_dimension():
    assert theorem2(64, 32, 0.01, constants=ONES).high_accuracy.heads_log10 < 0


def test_match3_load():
    assert match3_load(64, 8, 16, 1024) == 8


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: Theorem2Constants(small_c=0.0, small_c_prime=1.0, big_c=1.0, big_c_prime=1.0), "constants.small_c"),
        (lambda: theorem2(64, 1, 0.1, constants=None), "constants: expected Theorem2Constants"),
        (lambda: theorem2(64, 0, 0.1, constants=ONES), "rank: expected at least 1"),
        (lambda: theorem2(64, 1, 0, constants=ONES), "error: expected a finite number above 0"),
        (lambda: match3_load(64, 8, 0, 1024), "bits: expected a finite number above 0, got 0"),
        (lambda: match3_load(64, 8, 16, 0), "points: expected at least 1"),
    ],
)
def test_nonsense_is_refused(call, message):
    with pytest.raises(InvalidInputError, match=message):
        call()


def test_constants_have_no_defaults():
    with pytest.raises(TypeError, match="constants"):
        theorem2(64, 1, 0.1)
    with pytest.raises(TypeError, match="small_c"):
        Theorem2Constants()
