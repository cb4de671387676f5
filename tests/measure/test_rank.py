"""Ranks of a matrix: against numpy, scikit-learn's and torch's own, and the definitions written out."""

import math

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as nps

from rankwise.errors import InvalidInputError, ShapeError
from rankwise.measure import (
    effective_rank,
    energy_rank,
    hardmax_rank,
    numerical_rank,
    participation_ratio,
    stable_rank,
)

_SPECTRAL = [effective_rank, energy_rank, numerical_rank, participation_ratio, stable_rank]
_matrices = nps.arrays(np.float64, nps.array_shapes(min_dims=2, max_dims=2, max_side=7), elements=st.integers(-4, 4))


def onehot(scores: torch.Tensor) -> torch.Tensor:
    """The hardmax matrix itself; rows that see nothing are zero."""
    hot = torch.nn.functional.one_hot(scores.argmax(-1), scores.shape[-1]).to(torch.float64)
    return hot * (scores > -torch.inf).any(-1, keepdim=True)


@given(
    nps.arrays(
        np.float64,
        nps.array_shapes(min_dims=2, max_dims=3, max_side=6),
        elements=st.sampled_from([-np.inf, -1.0, 0.0, 2.0]),
    )
)
def test_hardmax_rank_is_the_rank_of_the_hardmax_matrix(scores: np.ndarray) -> None:
    tensor = torch.from_numpy(scores)
    assert torch.equal(hardmax_rank(tensor), torch.linalg.matrix_rank(onehot(tensor)))


def test_hardmax_rank_of_masked_scores() -> None:
    scores = torch.tensor([[5.0, 1.0, 0.0], [9.0, 1.0, 2.0], [0.0, 0.0, 3.0]])
    assert hardmax_rank(scores) == 2
    causal = scores.masked_fill(torch.ones(3, 3, dtype=torch.bool).triu(1), -torch.inf)
    assert hardmax_rank(causal) == 2
    nothing_seen = causal.clone()
    nothing_seen[2] = -torch.inf
    assert hardmax_rank(nothing_seen) == 1
    assert hardmax_rank(torch.full((2, 4, 4), -torch.inf)).tolist() == [0, 0]


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32, torch.int32])
def test_hardmax_rank_takes_any_real_type(dtype: torch.dtype) -> None:
    scores = torch.tensor([[3, 1], [0, 2], [4, 0]]).to(dtype)
    assert hardmax_rank(scores.expand(2, 3, 3, 2)).tolist() == [[2] * 3] * 2


@given(_matrices)
def test_definitions(matrix: np.ndarray) -> None:
    singular = np.linalg.svd(matrix, compute_uv=False)
    tensor = torch.from_numpy(matrix)
    if singular[0] == 0:
        assert [float(rank(tensor)) for rank in _SPECTRAL] == [0.0] * 5
        return
    singular[singular < 1e-12 * singular[0]] = 0
    share = singular[singular > 0] / singular.sum()
    assert float(effective_rank(tensor)) == pytest.approx(math.exp(-(share * np.log(share)).sum()), rel=1e-9)
    assert float(stable_rank(tensor)) == pytest.approx((matrix**2).sum() / singular[0] ** 2, rel=1e-9)
    gram = matrix.T @ matrix
    assert float(participation_ratio(tensor)) == pytest.approx(np.trace(gram) ** 2 / np.trace(gram @ gram), rel=1e-9)
    assert int(numerical_rank(tensor, 1e-9)) == np.linalg.matrix_rank(matrix)
    for fraction in (0.3, 0.9, 0.99):
        k = int(energy_rank(tensor, fraction))
        kept = np.concatenate([[0.0], np.cumsum(singular**2)]) / (singular**2).sum()
        assert kept[k] >= fraction - 1e-9
        assert kept[k - 1] < fraction + 1e-9


@given(_matrices, st.floats(1e-3, 1e3))
def test_scale_and_transposition_change_nothing(matrix: np.ndarray, scale: float) -> None:
    tensor = torch.from_numpy(matrix)
    for rank in (effective_rank, stable_rank, participation_ratio):
        assert float(rank(scale * tensor.T)) == pytest.approx(float(rank(tensor)), rel=1e-6, abs=1e-12)


def test_orders_of_the_ranks_and_equal_singular_values() -> None:
    torch.manual_seed(0)
    matrix = torch.randn(4, 30, 20)
    stable, participation, effective = (rank(matrix) for rank in (stable_rank, participation_ratio, effective_rank))
    assert torch.all((stable >= 1) & (stable <= participation) & (participation <= effective) & (effective <= 20))
    identity = torch.eye(5)
    assert all(float(rank(identity)) == pytest.approx(5) for rank in _SPECTRAL)
    assert energy_rank(identity, 0.8) == 4
    assert energy_rank(identity, 1.0) == 5


def test_batches_equal_single_matrices_and_singular_values_equal_matrices() -> None:
    torch.manual_seed(1)
    matrix = torch.randn(2, 3, 8, 5, dtype=torch.float64)
    singular = torch.linalg.svdvals(matrix)
    shuffled = singular[..., torch.randperm(5)]
    for rank in _SPECTRAL:
        batched = rank(matrix)
        assert batched.shape == (2, 3)
        assert batched.dtype in (torch.int64, torch.float64)
        assert torch.allclose(batched, rank(singular_values=shuffled))
        for i, j in np.ndindex(2, 3):
            assert torch.allclose(batched[i, j], rank(matrix[i, j]))


def test_random_baseline_of_a_gpt2_shaped_head() -> None:
    """W_Q^T W_K of N(0, .02^2) weights, d = 768, d_h = 64: effective rank 62.6, energy-90 rank 51.7."""
    torch.manual_seed(0)
    product = torch.randn(4, 768, 64) @ torch.randn(4, 64, 768) * 0.02**2
    assert float(effective_rank(product).mean()) == pytest.approx(62.6, abs=0.1)
    assert float(energy_rank(product, 0.9).double().mean()) == pytest.approx(51.7, abs=0.6)


def test_thresholds_are_relative_and_strict() -> None:
    singular = torch.tensor([100.0, 10.0, 1.0, 0.1])
    assert numerical_rank(singular_values=singular, rtol=0.1) == 1
    assert numerical_rank(singular_values=singular, rtol=0.0999) == 2
    assert numerical_rank(singular_values=singular, rtol=0) == 4
    assert numerical_rank(torch.diag(singular).bfloat16(), 0.005) == 3


@pytest.mark.parametrize("scale", [1e-170, 1e170])
def test_no_overflow_at_the_ends_of_the_float_range(scale: float) -> None:
    matrix = torch.tensor([[3.0, 1.0], [1.0, 3.0]], dtype=torch.float64) * scale
    assert float(participation_ratio(matrix)) == pytest.approx(20**2 / (16**2 + 4**2))
    assert float(stable_rank(matrix)) == pytest.approx(1.25)


@pytest.mark.parametrize("shape", [(0, 4), (4, 0), (2, 0, 0)])
def test_matrices_without_entries_have_rank_0(shape: tuple[int, ...]) -> None:
    empty = torch.zeros(shape)
    for rank in (*_SPECTRAL, hardmax_rank):
        assert rank(empty).shape == shape[:-2]
        assert not rank(empty).any()


def test_bad_input_says_what_was_expected() -> None:
    for rank in _SPECTRAL:
        with pytest.raises(InvalidInputError, match="either a matrix or singular_values"):
            rank()
        with pytest.raises(InvalidInputError, match="either a matrix or singular_values"):
            rank(torch.eye(2), singular_values=torch.ones(2))
        with pytest.raises(ShapeError, match=r"^matrix: expected \[\.\.\., rows, columns\]"):
            rank(torch.ones(3))
        with pytest.raises(InvalidInputError, match=r"^matrix: expected finite"):
            rank(torch.tensor([[1.0, math.nan]]))
        with pytest.raises(InvalidInputError, match=r"^matrix: expected real"):
            rank(torch.eye(2, dtype=torch.complex64))
        with pytest.raises(InvalidInputError, match=r"^singular_values: .*negative"):
            rank(singular_values=torch.tensor([1.0, -1.0]))
    with pytest.raises(ShapeError, match=r"^scores: "):
        hardmax_rank(torch.ones(3))
    with pytest.raises(InvalidInputError, match=r"^scores: .*NaN"):
        hardmax_rank(torch.tensor([[math.nan, 1.0]]))
    for rtol in (-0.1, 1.0, math.nan):
        with pytest.raises(InvalidInputError, match=r"^rtol: "):
            numerical_rank(torch.eye(2), rtol)
    for fraction in (0, 1.1, math.nan):
        with pytest.raises(InvalidInputError, match=r"^fraction: "):
            energy_rank(torch.eye(2), fraction)
