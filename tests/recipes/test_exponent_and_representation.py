"""The figures ``exponent`` and ``representation`` against numbers known otherwise."""

import math

import numpy as np
import pytest
from scipy.special import roots_gegenbauer

from rankwise.recipes.closed_form import exponent, representation
from rankwise.theory.bounds import error_lower_bound, heads_required_log10
from rankwise.theory.harmonics import gegenbauer, sign_eigenvalue


def quiet(line):
    """No progress is shown."""


@pytest.fixture(scope="module")
def exponents():
    return exponent.FIGURE.compute(exponent.PRESETS["smoke"], quiet)


@pytest.fixture(scope="module")
def represented():
    return representation.FIGURE.compute(representation.PRESETS["smoke"], quiet)


def test_the_heads_are_those_at_which_the_bound_is_the_error(exponents):
    for line in exponents.by_shape:
        for error, log10_heads in list(zip(exponents.errors, line.log10_heads, strict=True))[::3]:
            assert error_lower_bound(line.dim, line.rank, 10**log10_heads).value == pytest.approx(error, rel=1e-6)


def test_the_informal_law_is_an_order_only():
    assert 10 ** heads_required_log10(64, 1, 0.1) == pytest.approx(2.3e7, rel=0.02)
    assert 64 ** (1 / 0.1) > 1e18


def test_the_limit_follows_the_law(exponents):
    assert abs(exponent.LAW - 0.0645) < 5e-5
    assert exponent.limit_exponent(0.3) == 1
    assert exponent.limit_exponent((1 - 2 / math.pi) / 2 - 1e-9) == 3
    assert exponent.limit_exponent(0.005) == pytest.approx(exponent.LAW / 0.005**2, rel=0.01)
    # finite dimensions approach the stairs from below away from their edges, slowly
    gaps = [exponent.limit_exponent(0.16) - heads_required_log10(dim, 1, 0.16) / math.log10(dim)
            for dim in (64, 2**12, 2**20, 2**29)]  # fmt: skip
    assert gaps == sorted(gaps, reverse=True)
    assert 0 < gaps[-1] < 0.15


def test_u_has_the_coefficients_one_over_lambda(represented):
    """E[u P_l] = 1/lambda_l under the density of <q, k>, by Gauss quadrature; and sum N/lambda^2 is E[u^2]."""
    for line in represented.lines:
        nodes, weights = roots_gegenbauer(40, line.dim / 2 - 1)
        weights = weights / weights.sum()
        u = representation.feature_weight(line.dim, nodes, line.degree)
        for degree in range(1, 10, 2):
            expected = 1 / sign_eigenvalue(line.dim, degree) if degree <= line.degree else 0
            found = weights @ (u * gegenbauer(line.dim, degree, nodes))
            assert found == pytest.approx(expected, rel=1e-9, abs=1e-9 * line.root_mean_square)
        assert math.sqrt(weights @ u**2) == pytest.approx(line.root_mean_square, rel=1e-9)
        truncated = representation.truncated_sign(line.dim, line.degree, nodes)
        assert weights @ truncated**2 == pytest.approx(line.energy, rel=1e-9)


def test_known_values_of_u(represented):
    first = represented.lines[0]
    assert (first.dim, first.degree) == (4, 1)
    assert first.weight[0] == pytest.approx(3 * math.pi)  # N/lambda_1 = 4 / (4 / (3 pi))
    assert first.weight == pytest.approx([-value for value in reversed(first.weight)], abs=1e-9)
    sizes = [line.root_mean_square for line in represented.lines if line.dim == 8]
    assert sizes == pytest.approx([9.72, 327, 2960], rel=2e-3)


def test_heads_weighted_by_u_average_to_the_truncated_sign(represented):
    simulated = [line for line in represented.lines if line.simulated]
    assert {(line.dim, line.degree) for line in simulated} == {(4, 1), (6, 1), (8, 1)}
    cosines = np.cos(np.radians(represented.simulated_angles))
    for line in simulated:
        exact = representation.truncated_sign(line.dim, line.degree, np.clip(cosines, -1, 1))
        assert np.abs(np.array(line.simulated) - exact).max() < 4 * line.standard_error


def test_they_draw_and_tabulate_what_is_seen(exponents, represented):
    for figure, data, panels in ((exponent.FIGURE, exponents, 2), (representation.FIGURE, represented, 6)):
        done = figure.present(data)
        assert len(done.figure.axes) == panels
        assert all(len(row) == len(done.columns) for row in done.rows)
        assert done.reading
    row = exponent.FIGURE.table(exponents)[0]
    assert row[:2] == (64, 1)
    assert row[3] == heads_required_log10(64, 1, 0.1)
    assert row[6] == pytest.approx(10 * math.log10(64))
