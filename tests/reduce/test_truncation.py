"""The best smaller head: closed form against brute force, and which rotating pairs to keep."""

from itertools import combinations

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from rankwise.errors import InvalidInputError
from rankwise.reduce.truncation import best_pairs, form_basis, form_error, pairs_error


def moment(size, rank, seed):
    factor = torch.randn(size, rank, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)
    return factor @ factor.mT


@settings(max_examples=30)
@given(size=st.integers(1, 7), seeds=st.tuples(st.integers(0, 99), st.integers(100, 199)), kept=st.integers(1, 7))
def test_the_error_is_the_energy_left_out_and_no_other_subspace_has_less(size, seeds, kept):
    kept = min(kept, size)
    left, right = moment(size, 9, seeds[0]), moment(size, 9, seeds[1])
    basis = form_basis(left, right)
    error = form_error(left, right, basis.projection(kept))
    total = float(basis.energy.sum())
    assert total == pytest.approx(float((left @ right).trace()), rel=1e-9)
    assert error == pytest.approx(float(basis.energy[kept:].sum()), rel=1e-6, abs=1e-9 * total)
    # by weights alone (identity moments of the inputs), or any other projection of that rank
    for other in (form_basis(torch.eye(size).double(), right), form_basis(moment(size, 9, 7), moment(size, 9, 8))):
        assert error <= form_error(left, right, other.projection(kept)) + 1e-9 * total


def test_all_coordinates_give_the_form_back():
    left, right = moment(6, 8, 0), moment(6, 8, 1)
    torch.testing.assert_close(form_basis(left, right).projection(6), torch.eye(6).double())


def test_the_error_is_that_of_drawn_queries_and_keys():
    left, right = moment(4, 6, 2), moment(4, 6, 3)
    projection = form_basis(left, right).projection(2)
    draw = torch.Generator().manual_seed(4)
    q = torch.randn(3000, 4, generator=draw, dtype=torch.float64) @ torch.linalg.cholesky(left).mT
    k = torch.randn(3000, 4, generator=draw, dtype=torch.float64) @ torch.linalg.cholesky(right).mT
    errors = (q @ (torch.eye(4).double() - projection) @ k.mT).square().mean()
    assert form_error(left, right, projection) == pytest.approx(float(errors), rel=0.1)


def test_both_sides_carry_the_same_weight():
    left, right = moment(5, 9, 4), moment(5, 9, 5)
    basis = form_basis(left, right)
    root = basis.energy.sqrt()
    torch.testing.assert_close(basis.to_left @ left @ basis.to_left.mT, torch.diag(root), atol=1e-8, rtol=1e-8)
    torch.testing.assert_close(basis.to_right @ right @ basis.to_right.mT, torch.diag(root), atol=1e-8, rtol=1e-8)


def test_directions_that_never_occur_cost_nothing():
    left, right = moment(6, 9, 6), moment(6, 3, 7)
    basis = form_basis(left, right)
    assert form_error(left, right, basis.projection(3)) == pytest.approx(0, abs=1e-9 * float(basis.energy.sum()))
    silent = form_basis(torch.zeros(3, 3).double(), right[:3, :3])
    assert bool(silent.to_left.isfinite().all())
    assert not silent.energy.any()


@settings(max_examples=30)
@given(pairs=st.integers(1, 7), count=st.integers(0, 7), seed=st.integers(0, 99))
def test_pairs_are_never_worse_than_a_candidate_and_near_the_exact_choice(pairs, count, seed):
    count = min(count, pairs)
    C = moment(pairs, pairs + 1, seed)
    kept = best_pairs(C, count)
    assert list(kept) == sorted(set(kept))
    assert len(kept) == count
    exact = min(combinations(range(pairs), count), key=lambda chosen: pairs_error(C, chosen))
    assert best_pairs(C, count, candidates=[exact]) == exact or pairs_error(C, kept) <= pairs_error(C, exact) + 1e-9
    diagonal = torch.diag(C.diagonal())
    largest = C.diagonal().argsort(descending=True)[:count].sort().values.tolist()
    assert list(best_pairs(diagonal, count)) == largest


def test_more_pairs_than_there_are_is_a_mistake():
    with pytest.raises(InvalidInputError, match="pairs: expected 0 to 3"):
        best_pairs(torch.eye(3).double(), 4)
