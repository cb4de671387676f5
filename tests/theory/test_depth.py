"""The majority vote: quadrature against mpmath, enumeration of votes, and simulation of the heads themselves."""

import math

import mpmath
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rankwise.errors import InvalidInputError
from rankwise.theory.depth import majority_accuracy, majority_heads_required


def by_mpmath(dim: int, heads: int) -> float:
    """By parts: 1 - int D(p) dP[Bin > H/2]/dp dp, D the distribution of asin|t|; shares no integrand with the code."""
    votes = (heads + 1) // 2
    log_beta = 2 * mpmath.loggamma(votes) - mpmath.loggamma(2 * votes)

    def integrand(p: mpmath.mpf) -> mpmath.mpf:
        inside = mpmath.mpf(1) / 4 - (p / mpmath.pi) ** 2
        if inside <= 0:
            return mpmath.mpf(0)
        below = mpmath.betainc(0.5, mpmath.mpf(dim - 1) / 2, 0, mpmath.sin(p) ** 2, regularized=True)
        return below * mpmath.exp((votes - 1) * mpmath.log(inside) - log_beta) / mpmath.pi

    end = min(mpmath.pi / 2, 15 / mpmath.sqrt(heads))
    near = min(end, 8 / mpmath.sqrt(dim))
    points = [near * k / 4 for k in range(5)] + ([end] if end > near else [])
    return 1 - mpmath.quad(integrand, points)


@pytest.mark.parametrize(
    ("dim", "heads"),
    [
        (2, 1),
        (2, 3),
        (2, 10**6 + 1),
        (3, 9),
        (8, 101),
        (8, 10**6 + 1),
        (64, 1),
        (64, 10_001),
        (1000, 101),
        (10_000, 10_001),
        (10_000, 10**6 + 1),
    ],
)
def test_accuracy_equals_mpmath(dim: int, heads: int) -> None:
    with mpmath.workdps(25):
        exact = by_mpmath(dim, heads)
        assert abs(majority_accuracy(dim, heads) / exact - 1) < 1e-10
        assert abs((1 - majority_accuracy(dim, heads)) / (1 - exact) - 1) < 1e-9


def test_one_head_in_the_plane() -> None:
    """asin|t| is uniform on [0, pi/2] there: 1/2 + 1/4."""
    assert majority_accuracy(2, 1) == pytest.approx(0.75, rel=1e-13)


@pytest.mark.parametrize("heads", [1, 2, 3, 4, 7, 8])
def test_ties_count_one_half(heads: int) -> None:
    """Sum over all vote counts, no identity between even and odd numbers used."""
    angle = (np.arange(200_000) + 0.5) * (math.pi / 2) / 200_000
    density = np.cos(angle) ** 3
    right = 0.5 + angle / math.pi
    accuracy = np.zeros_like(angle)
    for votes in range(heads + 1):
        share = 1.0 if 2 * votes > heads else 0.5 if 2 * votes == heads else 0.0
        accuracy += share * math.comb(heads, votes) * right**votes * (1 - right) ** (heads - votes)
    assert majority_accuracy(5, heads) == pytest.approx(float(density @ accuracy / density.sum()), rel=1e-8)


def test_equals_simulated_hardmax_heads() -> None:
    """Real rank-1 heads: head h scores <q_h, x_j> <q_h, y> and votes for its argmax."""
    random = np.random.default_rng(0)
    dim, heads, trials = 6, 15, 40_000
    right = 0
    query = random.standard_normal((trials, dim))
    direction = random.standard_normal((trials, heads, dim))
    agree = np.einsum("thd,td->th", direction, query)
    votes = ((agree * direction[:, :, 0]) > (agree * direction[:, :, 1])).sum(axis=1)
    right = (votes > heads / 2) == (query[:, 0] > query[:, 1])
    exact = majority_accuracy(dim, heads)
    assert abs(right.mean() - exact) < 4 * math.sqrt(exact * (1 - exact) / trials)


@pytest.mark.parametrize(
    ("dim", "accuracy", "heads"),
    [(8, 0.9, 153), (8, 0.95, 641), (8, 0.99, 16_287), (64, 0.9, 1461), (64, 0.95, 6147), (64, 0.99, 156_153)],
)
def test_heads_required(dim: int, accuracy: float, heads: int) -> None:
    assert majority_heads_required(dim, accuracy) == heads


@given(st.integers(2, 2000), st.floats(0.01, 0.999))
def test_heads_required_is_the_smallest_odd_number(dim: int, accuracy: float) -> None:
    heads = majority_heads_required(dim, accuracy)
    assert heads % 2 == 1
    assert majority_accuracy(dim, heads) >= accuracy
    assert heads == 1 or majority_accuracy(dim, heads - 2) < accuracy


@given(st.integers(2, 10_000), st.integers(0, 10**7))
def test_more_heads_and_fewer_dimensions_help(dim: int, heads: int) -> None:
    here = majority_accuracy(dim, heads)
    assert 0.5 <= here < 1
    assert majority_accuracy(dim, heads + 2) >= here - 1e-12
    assert majority_accuracy(dim + 1, heads) <= here + 1e-12


def test_the_error_falls_like_the_root_of_dim_over_heads() -> None:
    assert 1 - majority_accuracy(64, 10**8) == pytest.approx(0.5 * math.sqrt(64 / 10**8), rel=0.02)
    assert majority_accuracy(10_000, 1) == pytest.approx(0.5 + 0.254 / 100, abs=1e-5)


def test_bad_input_names_the_argument() -> None:
    with pytest.raises(InvalidInputError, match=r"^dim: "):
        majority_accuracy(1, 3)
    with pytest.raises(InvalidInputError, match=r"^heads: "):
        majority_accuracy(4, -1)
    for accuracy in (0.0, 1.0, float("nan"), True):
        with pytest.raises(InvalidInputError, match=r"^accuracy: "):
            majority_heads_required(4, accuracy)
    with pytest.raises(InvalidInputError, match=r"^accuracy: .*too close to 1"):
        majority_heads_required(4, 1 - 1e-16)
