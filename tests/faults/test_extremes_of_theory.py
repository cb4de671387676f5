"""Extremes of theory: d up to 10^4, r up to d, H up to 10^18; finite, never above the trivial bound, the truncation
reported. (That the sums agree with mpmath is tested with the theory, in ``tests/theory/test_bounds.py``.)"""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rankwise.theory.bounds import error_lower_bound, heads_required_log10
from rankwise.theory.harmonics import energy

TRIVIAL = 0.5  # the error of predicting the mean of two orthogonal points
DIMS = (2, 3, 4, 8, 64, 1000, 10_000)


def checked(dim, rank, heads):
    bound = error_lower_bound(dim, rank, heads)
    assert math.isfinite(bound.value)
    assert 0 <= bound.value <= TRIVIAL + 1e-12
    assert 0 <= bound.truncation_error < 1e-6
    return bound.value


@pytest.mark.parametrize("dim", DIMS)
def test_extremes_of_theory(dim):
    for rank in sorted({1, 2, dim // 2 or 1, max(1, dim - 1), dim}):
        values = [checked(dim, rank, heads) for heads in (1.0, dim, 1e6, 1e12, 1e18)]
        assert values == sorted(values, reverse=True), "more heads never hurt"
    assert checked(dim, dim, 1.0) == 0.0, "one full-rank head is exact"


@given(st.integers(2, 10_000), st.floats(0, 1), st.floats(0, 18))
def test_anywhere_between_the_extremes(dim, share, exponent):
    checked(dim, max(1, round(share * dim)), 10**exponent)


@pytest.mark.parametrize("dim", [d for d in DIMS if d > 2])
def test_heads_that_no_float_can_count(dim):
    """Below the part that one degree holds, the heads needed pass 10^18 and then what a float can hold."""
    for error in (0.4, 0.1, 1e-3):
        log10 = heads_required_log10(dim, 1, error)
        assert math.isfinite(log10)
        if log10 < 17:
            assert checked(dim, 1, 10**log10) == pytest.approx(error, rel=1e-3)


@pytest.mark.parametrize("dim", [2, 3, 64, 10_000])
def test_energies_of_all_degrees_are_shares(dim):
    import numpy as np

    shares = energy(dim, np.arange(1.0, 20_001.0, 2.0))
    assert np.isfinite(shares).all()
    assert (shares >= 0).all()
    assert 0 < shares.sum() <= 1 + 1e-9
