"""The figures ``exponent`` and ``representation`` against numbers known otherwise."""

import math

import numpy as np
import pytest
from scipy.special import roots_gegenbauer

from rankwise.recipes.closed_form import exponent, representation
from rankwise.recipes.points import select
from rankwise.theory.bounds import error_lower_bound, heads_required_log10
from rankwise.theory.exponent import LAW, limit_exponent
from rankwise.theory.harmonics import feature_weight, gegenbauer, sign_eigenvalue
from rankwise.theory.representation import truncated_sign


@pytest.fixture(scope="module")
def exponents():
    return exponent.FIGURE.compute(exponent.FIGURE.presets["smoke"])


@pytest.fixture(scope="module")
def represented():
    return representation.FIGURE.compute(representation.FIGURE.presets["smoke"])


def test_the_heads_are_those_at_which_the_bound_is_the_error(exponents):
    for mark in exponents[::3]:
        assert error_lower_bound(mark["dim"], mark["rank"], 10 ** mark["log10_heads"]).value == pytest.approx(
            mark["error"], rel=1e-6
        )


def test_the_informal_law_is_an_order_only():
    assert 10 ** heads_required_log10(64, 1, 0.1) == pytest.approx(2.3e7, rel=0.02)
    assert 64 ** (1 / 0.1) > 1e18


def test_the_limit_follows_the_law():
    assert abs(LAW - 0.0645) < 5e-5
    assert limit_exponent(0.3) == 1
    assert limit_exponent((1 - 2 / math.pi) / 2 - 1e-9) == 3
    assert limit_exponent(0.005) == pytest.approx(LAW / 0.005**2, rel=0.01)
    # finite dimensions approach the stairs from below away from their edges, slowly
    gaps = [limit_exponent(0.16) - heads_required_log10(dim, 1, 0.16) / math.log10(dim)
            for dim in (64, 2**12, 2**20, 2**29)]  # fmt: skip
    assert gaps == sorted(gaps, reverse=True)
    assert 0 < gaps[-1] < 0.15


def test_u_has_the_coefficients_one_over_lambda(represented):
    """E[u P_l] = 1/lambda_l under the density of <q, k>, by Gauss quadrature; and sum N/lambda^2 is E[u^2]."""
    for mark in select(represented, angle=0.0):
        nodes, weights = roots_gegenbauer(40, mark["dim"] / 2 - 1)
        weights = weights / weights.sum()
        u = feature_weight(mark["dim"], nodes, mark["degree"])
        for degree in range(1, 10, 2):
            expected = 1 / sign_eigenvalue(mark["dim"], degree) if degree <= mark["degree"] else 0
            found = weights @ (u * gegenbauer(mark["dim"], degree, nodes))
            assert found == pytest.approx(expected, rel=1e-9, abs=1e-9 * mark["root_mean_square"])
        assert math.sqrt(weights @ u**2) == pytest.approx(mark["root_mean_square"], rel=1e-9)
        truncated = truncated_sign(mark["dim"], mark["degree"], nodes)
        assert weights @ truncated**2 == pytest.approx(mark["energy"], rel=1e-9)


def test_known_values_of_u(represented):
    weights = [mark["weight"] for mark in select(represented, dim=4, degree=1)]
    assert weights[0] == pytest.approx(3 * math.pi)  # N/lambda_1 = 4 / (4 / (3 pi))
    assert weights == pytest.approx([-value for value in reversed(weights)], abs=1e-9)
    sizes = [mark["root_mean_square"] for mark in select(represented, dim=8, angle=0.0)]
    assert sizes == pytest.approx([9.72, 327, 2960], rel=2e-3)


def test_heads_weighted_by_u_average_to_the_truncated_sign(represented):
    simulated = [mark for mark in represented if "simulated" in mark]
    assert {(mark["dim"], mark["degree"]) for mark in simulated} == {(4, 1), (6, 1), (8, 1)}
    assert all(abs(mark["simulated"] - mark["represented"]) < 4 * mark["noise"] for mark in simulated)
    for mark in simulated:
        cosine = np.clip(np.cos(np.radians([mark["angle"]])), -1, 1)
        assert mark["represented"] == truncated_sign(mark["dim"], mark["degree"], cosine)[0]


def test_they_draw_and_tabulate_what_is_seen(exponents, represented):
    for figure, marks, panels in ((exponent.FIGURE, exponents, 2), (representation.FIGURE, represented, 6)):
        assert len(figure.picture(figure.settings("smoke"), marks).draw().axes) == panels
        assert figure.reading(figure.settings("smoke"), marks)
    row = next(m for m in exponent.FIGURE.tabled(exponents) if (m["dim"], m["rank"], m["error"]) == (64, 1, 0.1))
    assert row["log10_heads"] == heads_required_log10(64, 1, 0.1)
    assert row["log10_informal"] == pytest.approx(10 * math.log10(64))
    assert len(representation.FIGURE.tabled(represented)) == 9
