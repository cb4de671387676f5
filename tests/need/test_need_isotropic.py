"""The isotropic curve: closed form against simulation against brute force, and never below the bound."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.integrate import quad

from rankwise.need import isotropic as need_isotropic
from rankwise.need.isotropic import isotropic_error, isotropic_need
from rankwise.theory.bounds import error_lower_bound


def brute_force(dim, rank, candidates, questions=20_000):
    random = np.random.default_rng(1)
    keys = random.standard_normal((questions, candidates, dim))
    keys /= np.linalg.norm(keys, axis=-1, keepdims=True)
    query = random.standard_normal((questions, dim))
    row = np.arange(questions)
    nearest = np.einsum("qnd,qd->qn", keys, query).argmax(1)
    found = np.einsum("qnd,qd->qn", keys[..., :rank], query[:, :rank]).argmax(1)
    apart = ((keys - keys[row, nearest][:, None]) ** 2).sum(-1)
    return apart[row, found].mean() / apart.mean()


@pytest.mark.parametrize(("dim", "rank"), [(2, 1), (3, 1), (3, 2), (8, 4), (64, 8), (64, 63), (512, 100)])
def test_two_keys_in_closed_form_equal_the_integral(dim, rank):
    def density(angle):
        return math.cos(angle) ** (rank - 1) * math.sin(angle) ** (dim - rank - 1)

    mode = math.atan2(math.sqrt(dim - rank - 1), math.sqrt(rank - 1)) if dim > 2 else 0.7
    limits = {"points": [mode], "limit": 500, "epsabs": 0}
    mean = quad(lambda angle: angle * density(angle), 0, math.pi / 2, **limits)[0]
    mean /= quad(density, 0, math.pi / 2, **limits)[0]
    assert isotropic_error(dim, rank, 2).value == pytest.approx(2 / math.pi * mean, rel=1e-7)


@pytest.mark.parametrize(("dim", "rank", "candidates"), [(2, 1, 2), (6, 2, 2), (2, 1, 5), (6, 2, 5), (12, 9, 16)])
def test_agrees_with_brute_force(dim, rank, candidates):
    assert isotropic_error(dim, rank, candidates).value == pytest.approx(brute_force(dim, rank, candidates), abs=0.025)


@pytest.mark.parametrize(("dim", "rank"), [(8, 3), (64, 32)])
def test_simulation_of_two_keys_agrees_with_the_closed_form(dim, rank):
    simulated = need_isotropic._simulated(dim, rank, 2, seed=3)
    assert abs(simulated.value - isotropic_error(dim, rank, 2).value) < 4 * simulated.standard_error


@given(st.integers(3, 300), st.data())
def test_never_below_the_lower_bound_and_falling_with_the_rank(dim, data):
    rank = data.draw(st.integers(1, dim - 1))
    error = isotropic_error(dim, rank, 2).value
    assert error >= error_lower_bound(dim, rank, 1).value
    assert isotropic_error(dim, rank + 1, 2).value < error <= 1


def test_need_is_close_to_the_dimension():
    assert isotropic_need(64, 2, 0.1) == 63
    assert isotropic_error(64, 62, 2).value > 0.1 >= isotropic_error(64, 63, 2).value
    assert isotropic_need(64, 16, 0.05) == 64


@pytest.mark.parametrize(("dim", "rank", "candidates"), [(1, 1, 2), (4, 5, 2), (4, 0, 2), (4, 2, 1)])
def test_nonsense_is_refused(dim, rank, candidates):
    with pytest.raises(ValueError, match="expected"):
        isotropic_error(dim, rank, candidates)
