"""Same heads, complements, and the matrix-free solver against the dense one."""

import warnings

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from head_oracle import agreement_and_accuracy, error_of, least_error, unit
from rankwise.theory import head_weights, sign_gram
from rankwise.theory.head_classes import merge_heads
from rankwise.theory.kernels import optimal_weights, random_features
from rankwise.theory.sign_gram import SignGram


def flips(queries, keys):
    return np.concatenate([queries, -queries, queries]), np.concatenate([keys, -keys, -keys])


def test_equal_heads_and_complements_are_found():
    queries, keys = random_features(5, 4, 0)
    many_queries = np.stack([queries[0], queries[1], -queries[0], queries[2], -queries[1], queries[0] * 1.0])
    many_keys = np.stack([keys[0], keys[1], -keys[0], keys[2], keys[1], keys[0] * 1.0])
    classes = merge_heads(many_queries, many_keys)
    assert classes.member.tolist() == [0, 1, 0, 2, 1, 0]
    assert classes.flipped.tolist() == [False, False, False, False, True, False]
    assert (classes.queries == many_queries[[0, 1, 3]]).all()
    assert classes.has_complements
    assert not merge_heads(queries, keys).has_complements


@pytest.mark.parametrize("dim", [2, 3, 8])
def test_duplicates_share_their_weight_and_change_nothing(dim):
    queries, keys = random_features(dim, 7, 1)
    weights, error = optimal_weights(queries, keys)
    copies = np.array([0, 1, 2, 3, 4, 5, 6, 2, 2, 5])
    sign = np.where(np.arange(10) > 7, -1.0, 1.0)[:, None]
    scale = np.linspace(0.1, 1e6, 10)[:, None]
    copied_weights, copied_error = optimal_weights(queries[copies] * sign * scale, keys[copies] * sign)
    assert copied_error == pytest.approx(error, abs=1e-12)
    assert np.bincount(copies, weights=copied_weights) == pytest.approx(weights, rel=1e-6)
    assert copied_weights[2] == copied_weights[7] == copied_weights[8]


@pytest.mark.parametrize("dim", [2, 3, 8])
@pytest.mark.parametrize("heads", [1, 6])
def test_complements_span_the_constant_answer(dim, heads):
    queries, keys = flips(*random_features(dim, heads, 2))
    weights, error = optimal_weights(queries, keys)
    assert error == pytest.approx(error_of(weights, queries, keys), abs=1e-7)
    assert error == pytest.approx(least_error(queries, keys), abs=1e-6)
    assert np.sum(weights) == pytest.approx(1)
    assert error < optimal_weights(queries[:heads], keys[:heads])[1]


def test_one_head_and_its_complement_beat_the_mean():
    q = np.array([[1.0, 0, 0], [1.0, 0, 0]])
    weights, error = optimal_weights(q, q * [[1.0], [-1.0]])
    assert error == pytest.approx(0.5 - 2 * (2 / 3 - 0.5) ** 2, abs=0.05)
    assert error == pytest.approx(error_of(weights, q, q * [[1.0], [-1.0]]), abs=1e-7)


def test_some_complements_among_other_heads():
    queries, keys = random_features(4, 9, 3)
    queries, keys = np.concatenate([queries, queries[:2]]), np.concatenate([keys, -keys[:2]])
    weights, error = optimal_weights(queries, keys)
    assert error == pytest.approx(error_of(weights, queries, keys), abs=1e-7)
    assert error == pytest.approx(least_error(queries, keys), abs=1e-7)


@given(st.integers(2, 9), st.integers(1, 40), st.integers(0, 10**6))
@settings(max_examples=40)
def test_no_other_weights_are_better(dim, heads, seed):
    random = np.random.default_rng(seed)
    pool = np.concatenate([np.eye(dim), unit(random.standard_normal((3, dim)))])
    queries = pool[random.integers(0, len(pool), heads)] * random.choice([-1.0, 1.0], (heads, 1))
    keys = pool[random.integers(0, len(pool), heads)]
    weights, error = optimal_weights(queries, keys)
    assert 0 <= error <= 1
    assert error == pytest.approx(error_of(weights, queries, keys), abs=1e-6)
    assert error <= least_error(queries, keys) + 1e-6


@pytest.fixture
def small_tiles(monkeypatch):
    monkeypatch.setattr(head_weights, "_DENSE_UP_TO", 0)
    monkeypatch.setattr(head_weights, "_DENSE_IN_THE_PLANE_UP_TO", 0)
    monkeypatch.setattr(sign_gram, "_TILE", 128)


@pytest.mark.parametrize(("dim", "heads"), [(2, 40), (3, 300), (4, 400), (8, 777), (16, 900), (64, 1000)])
def test_matrix_free_agrees_with_dense(dim, heads, request):
    queries, keys = random_features(dim, heads, 4)
    _, dense = optimal_weights(queries, keys)
    request.getfixturevalue("small_tiles")
    for memory in (0, 2e5, 2e9):
        weights, error = optimal_weights(queries, keys, memory=memory)
        assert dense - 1e-7 <= error <= dense + 1e-5
        assert error == pytest.approx(error_of(weights, queries, keys), abs=2e-6)


@pytest.mark.parametrize("dim", [3, 8])
def test_matrix_free_with_duplicates_and_complements(dim, request):
    queries, keys = flips(*random_features(dim, 150, 5))
    _, dense = optimal_weights(queries, keys)
    request.getfixturevalue("small_tiles")
    weights, error = optimal_weights(queries, keys)
    assert error == pytest.approx(dense, abs=1e-5)
    assert error == pytest.approx(error_of(weights, queries, keys), abs=2e-6)


def test_matrix_free_with_shared_queries(small_tiles):
    """Inner products of 1 between different heads, which float32 rounds below 1."""
    random = np.random.default_rng(6)
    queries = unit(random.standard_normal((20, 8)))[random.integers(0, 20, 500)]
    keys = unit(random.standard_normal((500, 8)))
    weights, error = optimal_weights(queries, keys, tolerance=1e-7)
    assert error == pytest.approx(error_of(weights, queries, keys), abs=1e-6)
    assert error == pytest.approx(least_error(queries, keys), abs=1e-6)


def test_a_tighter_tolerance_is_kept(small_tiles):
    queries, keys = random_features(6, 600, 7)
    exact = least_error(queries, keys)
    for tolerance in (1e-3, 1e-5, 1e-7):
        assert optimal_weights(queries, keys, tolerance=tolerance)[1] - exact < tolerance


def test_stopping_early_is_said(small_tiles, monkeypatch):
    monkeypatch.setattr(head_weights, "_MAX_STEPS", 2)
    queries, keys = random_features(3, 300, 8)
    with pytest.warns(RuntimeWarning, match="stopped after 2 products"):
        weights, error = optimal_weights(queries, keys)
    assert error == pytest.approx(error_of(weights, queries, keys), abs=1e-6)


@pytest.mark.parametrize(("dim", "double"), [(3, True), (8, False)])
def test_operator_is_the_gram_matrix_of_signs(dim, double, monkeypatch):
    monkeypatch.setattr(sign_gram, "_TILE", 64)
    queries, keys = random_features(dim, 150, 9)
    G = 2 * agreement_and_accuracy(queries, keys)[0] - 1
    np.fill_diagonal(G, 1)
    gram = SignGram(queries, keys, memory=64 * 64 * 8, double=double)
    x = np.random.default_rng(0).standard_normal(150)
    for _ in range(3):  # nothing kept, one tile kept, one tile reused
        assert gram.product(x) == pytest.approx(G @ x, abs=2e-5)
    assert gram.linear_product(x) == pytest.approx(((queries @ queries.T) * (keys @ keys.T)) @ x, abs=2e-5)


def test_no_warning_on_the_way():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        optimal_weights(np.eye(4)[[0, 0, 1]], np.eye(4)[[1, 1, 1]])
