import math

import numpy as np
import pytest
from scipy.special import zeta

from rankwise.theory.monotone_sums import bracket_rule


@pytest.mark.parametrize("power", [1.5, 2.0, 3.0, 12.0])
@pytest.mark.parametrize("first", [1.0, 7.0, 1001.0, 1e6 + 1])
def test_power_laws_are_bracketed_tightly(power, first):
    """sum over odd l >= a of l^-s is 2^-s zeta(s, a/2)."""
    rule = bracket_rule(first, 1e4 * first, lambda degree: power / degree)
    low, high = rule.sum(rule.degrees**-power, 0.0)
    exact = 2**-power * (zeta(power, first / 2) - zeta(power, rule.end / 2))
    assert low <= exact * (1 + 1e-13)
    assert high >= exact * (1 - 1e-13)
    assert high - low < 3e-10 * exact


@pytest.mark.parametrize("step", [0.05, 0.5, 3.0])
def test_brackets_hold_however_coarse_the_blocks(step):
    rule = bracket_rule(3, 5000, lambda degree: 0.01, step=step)
    low, high = rule.sum(np.exp(-0.01 * rule.degrees), 0.0)
    degrees = np.arange(3, rule.end, 2)
    exact = math.fsum(np.exp(-0.01 * degrees))
    assert low <= exact * (1 + 1e-14)
    assert high >= exact * (1 - 1e-14)
    assert rule.low.sum() == pytest.approx(len(degrees)) == pytest.approx(rule.high.sum())


def test_short_blocks_are_exact_whatever_the_term():
    rule = bracket_rule(1, 40, lambda degree: 1.0)
    assert rule.exact.all()
    low, high = rule.sum(np.cos(rule.degrees), 0.0)
    assert low == high == pytest.approx(np.cos(np.arange(1, 41, 2)).sum())


def test_brackets_widen_with_the_accuracy_of_the_terms():
    rule = bracket_rule(1, 40, lambda degree: 1.0)
    low, high = rule.sum(np.ones(20), 0.1)
    assert (low, high) == pytest.approx((18, 22))
