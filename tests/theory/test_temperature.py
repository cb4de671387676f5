"""The finite-temperature head: quadrature against mpmath, exact limits, and simulation of the whole head."""

import math

import mpmath
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.special import ive

from rankwise.errors import InvalidInputError
from rankwise.theory.depth import softmax_error


def simulated_head(dim: int, points: int, beta: float, distribution: str, trials: int) -> tuple[float, float]:
    random = np.random.default_rng(3)
    query = random.standard_normal((trials, dim))
    query /= np.linalg.norm(query, axis=1, keepdims=True)
    if distribution == "uniform":
        key = random.standard_normal((trials, points, dim))
        key /= np.linalg.norm(key, axis=2, keepdims=True)
    else:
        key = np.broadcast_to(np.eye(dim)[:points], (trials, points, dim))
    score = np.einsum("tnd,td->tn", key, query)
    weight = np.exp(beta * (score - score.max(axis=1, keepdims=True)))
    weight /= weight.sum(axis=1, keepdims=True)
    weight[np.arange(trials), score.argmax(axis=1)] -= 1
    error = (np.einsum("tnd,tn->td", key, weight) ** 2).sum(axis=1)
    return float(error.mean()), float(error.std()) / math.sqrt(trials)


@pytest.mark.parametrize(
    ("dim", "beta"), [(2, 0.0), (2, 5.0), (3, 40.0), (8, 1.0), (64, 10.0), (64, 1000.0), (10_000, 300.0)]
)
def test_orthogonal_pair_equals_mpmath(dim: int, beta: float) -> None:
    with mpmath.workdps(25):
        constant = mpmath.gamma(mpmath.mpf(dim) / 2) / mpmath.gamma(mpmath.mpf(dim - 1) / 2) / mpmath.sqrt(mpmath.pi)

        def integrand(t: mpmath.mpf) -> mpmath.mpf:
            sigma = 1 / (1 + mpmath.exp(mpmath.sqrt(2) * beta * mpmath.cos(t)))
            return 2 * constant * mpmath.sin(t) ** (dim - 2) * 2 * sigma**2

        start = mpmath.pi / 2 - min(mpmath.pi / 2, 9 / mpmath.sqrt(dim))
        points = mpmath.linspace(start, mpmath.pi / 2, 9)
        near = mpmath.pi / 2 - min(mpmath.pi / 2 - start, 30 / max(beta, 1))
        exact = mpmath.quad(integrand, sorted({*points, near, *mpmath.linspace(near, mpmath.pi / 2, 5)}))
        assert abs(softmax_error(dim, beta) / exact - 1) < 1e-10


@pytest.mark.parametrize(("beta", "error"), [(10, 0.1552), (100, 0.01721), (1000, 0.001723)])
def test_known_values_of_an_orthogonal_pair(beta: float, error: float) -> None:
    assert softmax_error(64, beta) == pytest.approx(error, rel=5e-4)


@pytest.mark.parametrize(("beta", "error", "within"), [(10, 0.550, 0.002), (100, 0.0560, 0.01), (1000, 0.0054, 0.01)])
def test_known_values_of_sixteen_uniform_points(beta: float, error: float, within: float) -> None:
    assert softmax_error(64, beta, points=16, distribution="uniform") == pytest.approx(error, rel=within)


@pytest.mark.parametrize(
    ("dim", "points", "beta", "distribution"),
    [
        (2, 2, 5.0, "orthogonal"),
        (6, 4, 3.0, "orthogonal"),
        (6, 6, 50.0, "orthogonal"),
        (12, 5, 8.0, "orthogonal"),
        (2, 2, 5.0, "uniform"),
        (2, 3, 10.0, "uniform"),
        (3, 5, 20.0, "uniform"),
        (8, 3, 1.0, "uniform"),
        (8, 40, 30.0, "uniform"),
        (5, 2, 200.0, "uniform"),
    ],
)
def test_equals_the_simulated_head(dim: int, points: int, beta: float, distribution: str) -> None:
    mean, error = simulated_head(dim, points, beta, distribution, trials=40_000)
    predicted = softmax_error(dim, beta, points=points, distribution=distribution, draws=1 << 15)
    noise = 0.02 * predicted if distribution == "orthogonal" and points > 2 else 0.0
    assert abs(predicted - mean) < 4 * error + noise


def direct_pair(dim: int, beta: float, size: int) -> float:
    """N = 2 uniform points: both cosines on a grid of midpoints, the error written as in the definition."""
    angle = (np.arange(size) + 0.5) * math.pi / size - math.pi / 2
    cosine, weight = np.sin(angle), np.cos(angle) ** (dim - 2)
    weight /= weight.sum()
    first, second = np.meshgrid(cosine, cosine, indexing="ij")
    wrong = 1 / (1 + np.exp(beta * np.abs(first - second)))
    return float(weight @ (wrong**2 * ((first - second) ** 2 + 2 - first**2 - second**2)) @ weight)


@pytest.mark.parametrize(("dim", "beta"), [(2, 3.0), (5, 12.0), (30, 1.0)])
def test_uniform_points_equal_a_direct_double_integral(dim: int, beta: float) -> None:
    coarse, fine = (direct_pair(dim, beta, size) for size in (600, 1200))
    exact = (4 * fine - coarse) / 3  # the kink at equal cosines costs the midpoint rule its second order
    assert softmax_error(dim, beta, points=2, distribution="uniform") == pytest.approx(exact, rel=1e-6)


@pytest.mark.parametrize("points", [2, 3, 16, 10_000])
def test_a_cold_start_averages_the_points(points: int) -> None:
    """beta = 0: the answer is the mean of N orthonormal points, at squared distance 1 - 1/N from each of them."""
    assert softmax_error(20_000, 0, points=points, distribution="uniform") == pytest.approx(1 - 1 / points, rel=2e-3)
    if points <= 16:
        exact = 1 - 1 / points
        assert softmax_error(32, 0, points=points, draws=1 << 14) == pytest.approx(exact, rel=0.04)


@pytest.mark.parametrize("points", [10**7, 10**9, 10**13])  # at 10^6, dim 4 is still 0.2 % above its limit
@pytest.mark.parametrize(("dim", "beta"), [(2, 0.5), (2, 50.0), (3, 10.0), (4, 5.0)])
def test_so_many_points_that_one_is_at_the_query_leave_the_shrinking_of_the_softmax(
    dim: int, beta: float, points: int
) -> None:
    """In few dimensions the nearest point tends to y, the others to their mean, y I_{d/2}(beta) / I_{d/2-1}(beta)."""
    shrunk = float(ive(dim / 2, beta) / ive(dim / 2 - 1, beta))
    error = softmax_error(dim, beta, points=points, distribution="uniform")
    assert error == pytest.approx((1 - shrunk) ** 2, rel=2e-3)


@pytest.mark.parametrize("dim", [2, 3, 16, 64, 1000])
def test_the_most_points_that_are_answered_still_average_out(dim: int) -> None:
    assert softmax_error(dim, 0, points=10**13, distribution="uniform") == pytest.approx(1, rel=1e-3)


def test_monte_carlo_is_seeded() -> None:
    assert softmax_error(16, 5.0, points=4, draws=500) == softmax_error(16, 5.0, points=4, draws=500)
    assert softmax_error(16, 5.0, points=4, draws=500) != softmax_error(16, 5.0, points=4, draws=500, seed=1)


@given(st.integers(2, 500), st.floats(0, 1e4), st.integers(2, 200), st.sampled_from(["orthogonal", "uniform"]))
@settings(max_examples=15)
def test_colder_is_better(dim: int, beta: float, points: int, distribution: str) -> None:
    points = 2 if distribution == "orthogonal" else points
    here, colder = (softmax_error(dim, b, points=points, distribution=distribution) for b in (beta, 2 * beta + 0.1))
    assert 0 <= colder <= here * (1 + 1e-6)
    assert here <= 1.6


@pytest.mark.parametrize(
    ("arguments", "named"),
    [
        ({"dim": 1}, "dim"),
        ({"beta": -1.0}, "beta"),
        ({"beta": math.inf}, "beta"),
        ({"points": 1}, "points"),
        ({"points": 9}, "points"),
        ({"points": 10**14, "distribution": "uniform"}, "points"),
        ({"distribution": "gaussian"}, "distribution"),
        ({"points": 3, "draws": 0}, "draws"),
    ],
)
def test_bad_input_names_the_argument(arguments: dict[str, object], named: str) -> None:
    with pytest.raises(InvalidInputError, match=f"^{named}: "):
        softmax_error(**{"dim": 8, "beta": 1.0, **arguments})  # type: ignore[arg-type]
