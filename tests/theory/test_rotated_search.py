"""Search by a rotation: nearest forms at their limits, and the share of wrong choices against simulation."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rankwise.errors import InvalidInputError
from rankwise.theory.rotated_search import nearest_form, random_rotation, wrong_share

FORMS = ["low_rank", "block_low_rank", "monarch"]


@pytest.mark.parametrize("form", ["block_low_rank", "monarch"])
@pytest.mark.parametrize("blocks", [1, 3, 12])
def test_the_identity_is_in_every_structured_form(form, blocks):
    identity = np.eye(12)
    np.testing.assert_allclose(nearest_form(identity, form, 1, blocks), identity, atol=1e-12)


def test_enough_rank_is_every_matrix():
    target = np.random.default_rng(0).normal(size=(12, 12))
    for form, rank, blocks in (("low_rank", 12, 1), ("monarch", 3, 3), ("monarch", 3, 4), ("block_low_rank", 1, 1)):
        np.testing.assert_allclose(nearest_form(target, form, rank, blocks), target, atol=1e-10)


@settings(max_examples=20)
@given(seed=st.integers(0, 1000), rank=st.integers(1, 3), form=st.sampled_from(FORMS))
def test_what_is_found_has_the_form_and_more_rank_is_nearer(seed, rank, form):
    target = random_rotation(12, seed)
    found, nearer = (nearest_form(target, form, r, 3) for r in (rank, rank + 1))
    assert np.linalg.norm(target - nearer) <= np.linalg.norm(target - found) + 1e-9
    if form == "low_rank":
        assert np.linalg.matrix_rank(found) == rank
    elif form == "monarch":
        tiles = found.reshape(3, 4, 3, 4).transpose(0, 3, 1, 2)
        assert (np.linalg.matrix_rank(tiles, tol=1e-9) <= rank).all()
        assert np.linalg.matrix_rank(found) == 12
    else:
        for a in range(3):
            here = slice(4 * a, 4 * a + 4)
            np.testing.assert_allclose(found[here, here], target[here, here])


@pytest.mark.parametrize("form", FORMS)
def test_wrong_share_is_what_a_head_does(form):
    """The sign of <w, M y> against that of <w, T y>, w = (x_1 - x_2) / sqrt 2 for two orthogonal points."""
    target, rng, samples = random_rotation(8, 1), np.random.default_rng(2), 40_000
    m = nearest_form(target, form, 1, 2)
    w, y = rng.normal(size=(2, samples, 8))
    wrong = (np.sign((w * (y @ m.T)).sum(1)) != np.sign((w * (y @ target.T)).sum(1))).mean()
    expected = wrong_share(m, target)
    assert abs(wrong - expected) < 4 * math.sqrt(expected / samples)


def test_at_the_weights_of_rank_8_structure_is_nearer_to_a_rotation():
    """The table of docs/theory.md, d = 64: 1024 score weights each."""
    target = random_rotation(64, 0)
    shares = [
        wrong_share(nearest_form(target, form, rank, 8), target, 2000)
        for form, rank in (("low_rank", 8), ("block_low_rank", 4), ("monarch", 1))
    ]
    assert shares == pytest.approx([0.388, 0.332, 0.296], abs=0.006)


def test_what_makes_no_sense_is_refused():
    with pytest.raises(InvalidInputError, match="blocks: expected a divisor of 12, got 5"):
        nearest_form(np.eye(12), "monarch", 1, 5)
    with pytest.raises(InvalidInputError, match="form: expected one of"):
        nearest_form(np.eye(12), "butterfly", 1, 3)
