import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from rankwise.errors import InvalidInputError, ShapeError
from rankwise.nn import FactoredMatrix, MultiheadAttention

SIZES = st.integers(1, 12)


def factored(rows, inner, columns, *batch, seed=0):
    generator = torch.Generator().manual_seed(seed)
    return FactoredMatrix(
        torch.randn(*batch, rows, inner, generator=generator, dtype=torch.float64),
        torch.randn(*batch, inner, columns, generator=generator, dtype=torch.float64),
    )


@given(SIZES, SIZES, SIZES, st.lists(st.integers(1, 3), max_size=2))
def test_spectrum_equals_that_of_the_dense_product(rows, inner, columns, batch):
    product = factored(rows, inner, columns, *batch)
    dense = product.left @ product.right
    kept = min(rows, inner, columns)
    expected = torch.linalg.svdvals(dense)[..., :kept]
    assert product.shape == dense.shape
    torch.testing.assert_close(product.singular_values(), expected, rtol=1e-10, atol=1e-10)
    torch.testing.assert_close(product.frobenius_norm(), torch.linalg.matrix_norm(dense))
    u, s, vh = product.svd()
    assert s.shape[-1] == kept
    torch.testing.assert_close(u @ torch.diag_embed(s) @ vh, dense, rtol=1e-10, atol=1e-10)
    eye = torch.eye(kept, dtype=torch.float64).expand(*batch, kept, kept)
    torch.testing.assert_close(u.mT @ u, eye)
    torch.testing.assert_close(vh @ vh.mT, eye)
    torch.testing.assert_close(product.mT.dense(), dense.mT)
    assert (product.rank() == torch.linalg.matrix_rank(dense)).all()


@given(st.integers(2, 10), st.integers(1, 10), st.integers(1, 12))
def test_truncation_is_the_best_of_its_rank(rows, inner, k):
    product = factored(rows, inner, 7)
    cut = product.truncate(k)
    lost = torch.linalg.svdvals(product.dense())[k:].square().sum().sqrt()
    torch.testing.assert_close(torch.linalg.matrix_norm(product.dense() - cut.dense()), lost, rtol=1e-8, atol=1e-8)
    assert cut.rank() <= k


def test_small_singular_values_survive_where_a_gram_matrix_would_lose_them():
    basis = torch.linalg.qr(torch.randn(50, 3, generator=torch.Generator().manual_seed(0), dtype=torch.float64)).Q
    product = FactoredMatrix(basis * torch.tensor([1.0, 1e-6, 1e-12]), basis.mT.contiguous())
    expected = torch.tensor([1.0, 1e-6, 1e-12], dtype=torch.float64)
    torch.testing.assert_close(product.singular_values(), expected, rtol=1e-3, atol=0)
    assert product.rank() == 3
    assert product.rank(rtol=1e-3) == 1


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_narrow_factors_are_analysed_in_float32(dtype):
    exact = factored(9, 3, 7)
    narrow = FactoredMatrix(exact.left.to(dtype), exact.right.to(dtype))
    wide = FactoredMatrix(narrow.left.float(), narrow.right.float())
    assert torch.equal(narrow.singular_values(), wide.singular_values())
    assert torch.equal(narrow.frobenius_norm(), wide.frobenius_norm())
    assert narrow.rank() == 3
    for ours, theirs in zip(narrow.svd(), wide.svd(), strict=True):
        assert torch.equal(ours, theirs)
    cut = narrow.truncate(2)
    assert cut.left.dtype == cut.right.dtype == dtype
    torch.testing.assert_close(cut.dense().float(), wide.truncate(2).dense(), rtol=0.05, atol=0.05)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_layers_of_narrow_types_are_analysed(dtype):
    layer = MultiheadAttention(16, 4, 8, dtype=dtype)
    for form in (layer.qk(0), layer.ov(3)):
        assert form.singular_values().dtype == torch.float32
        assert form.rank() == 8


def test_zero_has_rank_zero():
    assert FactoredMatrix(torch.zeros(4, 2), torch.zeros(2, 5)).rank() == 0


def test_factors_must_meet():
    with pytest.raises(ShapeError, match=r"with one K, got \[3, 2\] and \[3, 4\]"):
        FactoredMatrix(torch.zeros(3, 2), torch.zeros(3, 4))
    with pytest.raises(InvalidInputError, match="k: expected at least 1"):
        factored(3, 2, 3).truncate(0)
