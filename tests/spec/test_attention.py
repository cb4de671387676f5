import pytest

from rankwise.errors import InvalidInputError
from rankwise.spec import AttentionSpec, ModelSpec, RotarySpec, heads_for_budget


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"rank": 0}, "rank: expected at least 1, got 0"),
        ({"heads": True}, "heads: expected a whole number"),
        ({"kv_heads": 3}, "kv_heads: expected a divisor of heads=4, got 3"),
        ({"average": 3}, "average: expected a divisor of heads=4, got 3"),
        ({"scores": "hardmx"}, "did you mean 'hardmax'"),
        ({"temperature": 1.0}, "temperature: expected one of"),
        ({"bias": 1}, "bias: expected True or False, got 1"),
        ({"rope": RotarySpec(), "rank": 5}, "choose an even rank"),
        ({"rope": RotarySpec(dims=6), "rank": 4}, "6 rotating coordinates do not fit rank 4"),
        ({"window": 0}, "window: expected at least 1, got 0"),
    ],
)
def test_nonsense_is_refused_with_what_was_expected(fields, message):
    with pytest.raises(InvalidInputError, match=message):
        AttentionSpec(**{"dim": 8, "heads": 4, "rank": 2} | fields)


def test_standard_scaling_is_asked_for_by_name():
    assert AttentionSpec.standard(dim=512, heads=8).rank == 64
    with pytest.raises(InvalidInputError, match="divisor of dim=512"):
        AttentionSpec.standard(dim=512, heads=7)


def test_standard_scaling_has_four_dim_squared_weights():
    spec = AttentionSpec(dim=64, heads=8, rank=8, bias=False)
    assert spec.parameters() == 4 * 64**2


@pytest.mark.parametrize(("exponent", "heads"), [(1, 8), (1.5, 64), (2, 512)])
def test_paper_budgets(exponent, heads):
    assert heads_for_budget(64, 8, exponent) == heads
    assert ModelSpec.from_budget(dim=64, rank=8, exponent=exponent).heads == heads


def test_a_budget_that_is_not_whole_says_so():
    with pytest.raises(InvalidInputError, match=r"not a whole number; choose a rank that divides 64"):
        heads_for_budget(64, 24, 1)


@pytest.mark.parametrize(("width", "count"), [(1, 280_898), (8, 397_378), (64, 1_329_218)])
@pytest.mark.parametrize("rank", [1, 8, 64])
def test_parameter_counts_of_the_papers_experiment(width, count, rank):
    spec = ModelSpec(dim=64, heads=width * 64 // rank, rank=rank, average=width, feedforward=2048, norm="unit")
    assert spec.parameters() == count


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"positions": "concatenated"}, "position_dim: expected a positive number"),
        ({"positions": "additive"}, "max_points: expected a positive number"),
        ({"max_points": 4}, "max_points: expected a positive number exactly when"),
        ({"residual": True}, "residual: expected one of 'plain', 'learned', 'none', got true"),
        ({"init": "zero"}, "init: expected one of 'standard', 'identity', 'paper', got 'zero'"),
        ({"norm": "layer"}, "norm: expected one of 'rms', 'unit', 'none'"),
        ({"kv_heads": 3}, "kv_heads: expected a divisor"),
    ],
)
def test_models_check_what_they_are_made_of(fields, message):
    with pytest.raises(InvalidInputError, match=message):
        ModelSpec(**{"dim": 8, "heads": 4, "rank": 2} | fields)
