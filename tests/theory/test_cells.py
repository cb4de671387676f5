"""Shares of keys: exact laws, other libraries and simulation."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import multivariate_normal

from rankwise.theory.cells import GaussianKeys, KeyLaw, UnitKeys, growing_covariance, mean_share, sliding_covariance


@pytest.mark.parametrize("head_dim", [2, 3, 8, 64, 1000, 100_000])
def test_shares_of_gaussian_keys_average_to_one_over_count(head_dim: int) -> None:
    law = GaussianKeys(head_dim)
    _, norm, weight = law.norms(64)
    count = np.array([1.0, 2.0, 3.0, 10.0, 50.0])
    assert weight @ mean_share(law, norm, count) * count == pytest.approx(1.0, rel=1e-6)


def test_shares_average_to_one_over_count_at_a_million_keys() -> None:
    law = GaussianKeys(256)
    _, norm, weight = law.norms(24)
    assert 1e6 * weight @ mean_share(law, norm, np.array([1e6]))[:, 0] == pytest.approx(1.0, rel=1e-6)


@given(st.floats(0.05, 3.0), st.floats(0.05, 3.0), st.floats(0.02, 1.0), st.floats(0.3, 4.0))
def test_dependence_of_gaussian_scores_is_the_bivariate_normal_law(
    first: float, second: float, part: float, norm: float
) -> None:
    low, high = abs(first - second), min(first + second, 2 * math.pi - first - second)
    between = low + part * (high - low)
    law = GaussianKeys(5)
    one, two = (norm * math.cos(angle) for angle in (first, second))
    cosine = math.cos(between)
    joint = multivariate_normal([0, 0], [[1, cosine], [cosine, 1]], allow_singular=True).cdf([one, two])
    alone = sum(float(law.log_below(np.array(norm), np.array(angle))) for angle in (first, second))
    arguments = (np.array([value]) for value in (norm, first, second, between))
    assert alone + float(law.log_dependence(*arguments, nodes=64)[0]) == pytest.approx(math.log(joint), abs=1e-6)


@pytest.mark.parametrize(
    ("head_dim", "first", "second", "between"), [(3, 0.8, 1.1, 0.9), (4, 1.9, 1.7, 1.0), (9, 1.2, 1.4, 2.0)]
)
def test_dependence_of_unit_scores_is_the_measure_outside_two_caps(
    head_dim: int, first: float, second: float, between: float
) -> None:
    law = UnitKeys(head_dim)
    draws = np.random.default_rng(0).standard_normal((400_000, head_dim))
    draws /= np.linalg.norm(draws, axis=1, keepdims=True)
    one = draws[:, 0]
    two = math.cos(between) * draws[:, 0] + math.sin(between) * draws[:, 1]
    outside = np.mean((one < math.cos(first)) & (two < math.cos(second)))
    alone = float(law.log_below(np.array(1.0), np.array(first)) + law.log_below(np.array(1.0), np.array(second)))
    arguments = (np.array([value]) for value in (1.0, first, second, between))
    predicted = math.exp(alone + float(law.log_dependence(*arguments, nodes=24)[0]))
    assert abs(predicted - outside) < 4 * math.sqrt(outside * (1 - outside) / len(draws))


@pytest.mark.parametrize("count", [3, 10, 100, 10_000])
def test_variance_of_a_share_on_the_circle_is_that_of_spacings(count: int) -> None:
    """Unit keys in the plane: a share is the mean of two neighbouring spacings, twice it is Beta(2, n - 2)."""
    variance = growing_covariance(UnitKeys(2), np.ones(1), np.array([float(count)]), nodes=24)[0, 0, 0]
    assert variance == pytest.approx((count - 2) / (2 * (count + 1)), rel=3e-3)


def test_covariance_on_the_circle_falls_as_the_set_grows() -> None:
    """Among n >> 1 points on a line a cell keeps 1/lambda of its relative covariance when the set grows lambda-fold."""
    covariance = growing_covariance(UnitKeys(2), np.ones(1), np.array([1000.0, 2000.0, 4000.0]), nodes=16)[0]
    assert covariance[0, 1] / covariance[0, 0] == pytest.approx(1 / 2, rel=0.02)
    assert covariance[0, 2] / covariance[0, 0] == pytest.approx(1 / 4, rel=0.02)


@pytest.mark.parametrize("law", [GaussianKeys(6), UnitKeys(4)])
def test_covariances_equal_simulation(law: KeyLaw) -> None:
    """Two nested sets of 6 and 12 keys, and two sets of 12 that differ in 4: shares estimated from many queries."""
    random = np.random.default_rng(1)
    norm = 2.2 if isinstance(law, GaussianKeys) else 1.0
    queries = 1000
    samples = []
    for _ in range(2000):
        keys = random.standard_normal((15, law.head_dim))
        if isinstance(law, UnitKeys):
            keys /= np.linalg.norm(keys, axis=1, keepdims=True)
        query = random.standard_normal((2, queries, law.head_dim))
        scores, own = query @ keys.T, norm * query[..., 0]
        small, large, moved = (
            (scores[side][:, part].max(axis=1) < own[side]).mean()
            for side, part in ((0, slice(0, 5)), (1, slice(0, 11)), (0, slice(4, 15)))
        )
        samples.append((small * large, large * moved))
    measured = np.array(samples)
    norms = np.array([norm])
    share = mean_share(law, norms, np.array([6.0, 12.0]))[0]
    nested = growing_covariance(law, norms, np.array([6.0, 12.0]), nodes=20)[0, 0, 1]
    sliding = sliding_covariance(law, norms, 12, np.array([4.0]), nodes=20)[0, 0]
    predicted = np.array([share[0] * share[1] * (1 + nested), share[1] ** 2 * (1 + sliding)])
    error = measured.std(axis=0) / math.sqrt(len(measured))
    assert np.all(np.abs(predicted - measured.mean(axis=0)) < 4 * error)
    assert nested > 0.05  # far from the independent product, so that the comparison means something
