import pytest
import torch

from rankwise.errors import InvalidInputError, ShapeError
from rankwise.measure.attention import attention_ranks


def test_identity_and_uniform_attention_are_the_extremes():
    identity, uniform = torch.eye(5), torch.full((5, 5), 0.2)
    weights = torch.stack((identity, uniform)).expand(3, 2, 5, 5)
    ranks = attention_ranks(weights)
    for name in ("hardmax", "effective", "stable", "above_0.1", "above_0.01", "above_0.001"):
        torch.testing.assert_close(ranks[name], torch.tensor([5.0, 1.0], dtype=torch.float64), atol=1e-6, rtol=0)
    assert ranks["largest"].tolist() == pytest.approx([1.0, 0.2])
    assert ranks["entropy"].tolist() == pytest.approx([0.0, torch.tensor(5.0).log().item()], abs=1e-6)


def test_means_are_over_examples_and_heads_stay_apart():
    block = torch.zeros(4, 4)
    block[:2, 0], block[2:, 3] = 1.0, 1.0
    weights = torch.stack((torch.eye(4), block))[:, None]  # two examples of one head: rank 4 and rank 2
    assert attention_ranks(weights)["hardmax"].tolist() == [3.0]
    assert attention_ranks(weights.transpose(0, 1))["hardmax"].tolist() == [4.0, 2.0]


def test_causal_softmax_has_full_numerical_but_not_hardmax_rank():
    scores = torch.randn(2, 3, 32, 32, generator=torch.Generator().manual_seed(0))
    weights = scores.masked_fill(~torch.ones(32, 32, dtype=torch.bool).tril(), -torch.inf).softmax(-1)
    ranks = attention_ranks(weights)
    assert (ranks["hardmax"] < 24).all()
    assert (ranks["above_0.001"] > ranks["hardmax"]).all()
    assert (torch.linalg.matrix_rank(weights.double()) == 32).all()


def test_a_row_that_sees_nothing_picks_no_column_and_counts_in_no_mean():
    weights = torch.tensor([[0.0, 0.0, 0.0], [0.1, 0.2, 0.7], [0.0, 0.0, 0.0]])[None, None]
    ranks = attention_ranks(weights)
    for name in ("hardmax", "effective", "stable", "above_0.001"):
        assert ranks[name].tolist() == pytest.approx([1.0]), name
    alone = attention_ranks(weights[:, :, 1:2])
    for name in ("entropy", "largest"):
        assert ranks[name].tolist() == pytest.approx(alone[name].tolist()), name
    assert attention_ranks(torch.zeros(1, 1, 3, 3))["hardmax"].tolist() == [0.0]


@pytest.mark.parametrize("entry", [float("nan"), float("inf")])
def test_weights_that_are_no_numbers_are_refused(entry):
    weights = torch.eye(3).expand(1, 2, 3, 3).clone()
    weights[0, 1, 2, 0] = entry
    with pytest.raises(InvalidInputError, match="weights: expected finite numbers"):
        attention_ranks(weights)


def test_what_is_not_a_stack_of_matrices_is_refused():
    with pytest.raises(ShapeError, match=r"expected \[examples, heads, queries, keys\]"):
        attention_ranks(torch.eye(3))
    with pytest.raises(InvalidInputError, match="expected attention weights"):
        attention_ranks(torch.ones(1, 1, 2, 2, dtype=torch.int64))
