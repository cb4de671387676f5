"""Select or search: closed forms against simulation, against each other, and at their limits."""

import math
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import t as student

from rankwise.errors import InvalidInputError
from rankwise.theory import selection

noises = st.floats(0, 4)


def simulated(dim, rank, codes, noise, unit, samples=20_000, chunk=2_000):
    """How often the copied code wins, and its standard error."""
    rng, right = np.random.default_rng(rank + codes), 0
    for _ in range(samples // chunk):
        c = rng.normal(size=(chunk, codes, dim)) / math.sqrt(dim)
        if unit:
            c /= np.linalg.norm(c, axis=-1, keepdims=True)
        y = c[:, 0] + noise * rng.normal(size=(chunk, dim)) / math.sqrt(dim)
        right += (np.einsum("bnr,br->bn", c[..., :rank], y[:, :rank]).argmax(1) == 0).sum()
    mean = right / samples
    return mean, math.sqrt(mean * (1 - mean) / samples) + 1e-4


@pytest.mark.parametrize(
    ("dim", "rank", "codes", "noise"), [(16, 2, 4, 0.3), (16, 6, 8, 0.0), (16, 16, 8, 1.0), (32, 12, 24, 0.5)]
)
def test_accuracy_of_unit_codes_is_what_simulation_finds(dim, rank, codes, noise):
    mean, error = simulated(dim, rank, codes, noise, unit=True)
    assert abs(selection.selection_accuracy(dim, rank, codes, noise) - mean) < 3.5 * error


@pytest.mark.parametrize(("rank", "noise"), [(1, 0.5), (4, 0.0), (8, 1.0)])
def test_pairwise_error_of_gaussian_codes_is_what_simulation_finds(rank, noise):
    mean, error = simulated(12, rank, 2, noise, unit=False)
    assert abs(1 - selection.pairwise_error(rank, noise) - mean) < 3.5 * error


@given(rank=st.integers(1, 400), noise=noises)
def test_pairwise_error_is_a_tail_of_student(rank, noise):
    tail = student.sf(math.sqrt(rank / (1 + 2 * noise**2)), rank)
    assert selection.pairwise_error(rank, noise) == pytest.approx(tail, rel=1e-8)
    assert tail <= 0.5 * ((1 + 2 * noise**2) / (2 + 2 * noise**2)) ** (rank / 2) * (1 + 1e-9)


@given(codes=st.integers(2, 10**6), noise=noises, error=st.floats(1e-6, 0.4))
def test_sufficient_rank_is_the_first(codes, noise, error):
    rank = selection.sufficient_rank(codes, noise, error)
    assert selection.union_bound(rank, codes, noise) <= error
    assert rank == 1 or selection.union_bound(rank - 1, codes, noise) > error


@settings(max_examples=25)
@given(codes=st.integers(2, 5000), noise=st.floats(0, 2), dim=st.sampled_from([8, 32, 128]))
def test_the_bound_holds_for_unit_codes_too_where_tried(codes, noise, dim):
    """Derived for Gaussian codes; for unit ones a measurement."""
    rank = min(dim, selection.sufficient_rank(codes, noise))
    wrong = 1 - selection.selection_accuracy(dim, rank, codes, noise)
    assert wrong <= selection.union_bound(rank, codes, noise) + 1e-6


@settings(max_examples=10)
@given(dim=st.sampled_from([8, 24]), codes=st.integers(2, 3000), noise=st.floats(0, 3))
def test_selection_rank_is_the_first_and_more_rank_never_hurts(dim, codes, noise):
    accuracies = [selection.selection_accuracy(dim, rank, codes, noise) for rank in range(1, dim + 1)]
    assert all(b >= a - 2e-3 for a, b in pairwise(accuracies))
    expected = next((rank for rank, accuracy in enumerate(accuracies, 1) if accuracy >= 0.99), None)
    assert selection.selection_rank(dim, codes, noise) == expected


def test_in_many_dimensions_unit_codes_are_gaussian():
    """The union bound is then within 12 % of the exact rank."""
    for codes in (8, 512):
        for noise in (0.0, 1.0):
            exact, enough = selection.selection_rank(4096, codes, noise), selection.sufficient_rank(codes, noise)
            assert exact <= enough <= 1.12 * exact


def test_without_noise_rank_grows_like_the_logarithm():
    ranks = [selection.selection_rank(256, 8**k, 0.0) for k in (1, 2, 3, 4)]
    steps = np.diff(ranks)
    assert ranks == [13, 19, 24, 29]
    assert steps.max() - steps.min() <= 1


@pytest.mark.parametrize("codes", [8, 512])
def test_the_boundary(codes):
    """Where rank d is just enough; the closed form stays below it."""
    noise = selection.search_noise(64, codes)
    assert selection.selection_accuracy(64, 64, codes, noise) == pytest.approx(0.99, abs=1e-5)
    assert selection.selection_rank(64, codes, 0.99 * noise) > 55
    assert selection.selection_rank(64, codes, 1.01 * noise) is None
    closed = selection.selectable_noise(64, codes)
    assert 0.5 * noise < closed < noise
    assert selection.sufficient_rank(codes, closed) <= 64


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: selection.pairwise_error(0, 0.0), "rank"),
        (lambda: selection.pairwise_error(1, -0.1), "noise: expected a finite number of at least 0"),
        (lambda: selection.selection_accuracy(8, 9, 4, 0.0), "rank: expected at most dim=8"),
        (lambda: selection.selection_rank(8, 1, 0.0), "codes"),
        (lambda: selection.sufficient_rank(8, 0.0, 1.0), "error: expected a number between 0 and 1"),
    ],
)
def test_what_makes_no_sense_is_refused(call, message):
    with pytest.raises(InvalidInputError, match=message):
        call()
