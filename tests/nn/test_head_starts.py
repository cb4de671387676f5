import math

import pytest
import torch

from rankwise.errors import InvalidInputError
from rankwise.nn.attention import MultiheadAttention
from rankwise.nn.head_starts import SHARPNESS, start_address, start_farthest, start_shared_values
from rankwise.nn.transformer import Transformer
from rankwise.spec import ModelSpec
from rankwise.tasks import FarthestNeighbor


def started(heads, rank, *, dim=16, length=1.0, **fields):
    torch.manual_seed(0)
    layer = MultiheadAttention(dim, heads, rank, temperature="learned", **fields)
    start_farthest(layer, length)
    return layer


@pytest.mark.parametrize(("heads", "rank"), [(1, 16), (2, 8), (8, 4), (4, 5), (2, 24), (16, 1)])
def test_all_heads_together_move_the_whole_point(heads, rank):
    layer = started(heads, rank)
    moved = sum(layer.ov(head).dense() for head in range(heads))
    torch.testing.assert_close(moved, torch.eye(16), atol=1e-5, rtol=0)


@pytest.mark.parametrize("length", [1.0, 4.0])
@pytest.mark.parametrize(("heads", "rank"), [(1, 16), (4, 4), (8, 4), (3, 6)])
def test_scores_are_minus_a_projection_that_a_group_shares(heads, rank, length):
    layer = started(heads, rank, length=length)
    group = math.ceil(16 / rank)
    forms = [-layer.qk(head).dense() * layer.score_scale(head) * length**2 for head in range(heads)]
    sharpness = SHARPNESS * 4
    for head, form in enumerate(forms):
        torch.testing.assert_close(form @ form, sharpness * form, atol=1e-3, rtol=0)
        assert torch.linalg.matrix_rank(form) == rank
        same = torch.allclose(form, forms[head - head % group], atol=1e-4)
        assert same
    if heads > group:
        assert not torch.allclose(forms[0], forms[group], atol=0.1)


def test_one_full_rank_head_is_the_exact_answer_once_it_is_sharp():
    layer = started(1, 16)
    with torch.no_grad():
        layer.log_beta += 12
    batch = FarthestNeighbor(16, 8).sample(64, torch.Generator().manual_seed(1))
    torch.testing.assert_close(layer(batch.points), batch.targets, atol=1e-2, rtol=0)


def test_a_low_rank_start_beats_random_heads_of_the_same_layer():
    batch = FarthestNeighbor(16, 8).sample(512, torch.Generator().manual_seed(1))
    layer = started(2, 8)
    torch.manual_seed(0)
    random = MultiheadAttention(16, 2, 8, temperature="learned")

    def explained(output):
        share = (output * batch.targets).sum() / output.square().sum()
        return ((share * output - batch.targets) ** 2).sum(-1).mean().item()

    assert explained(layer(batch.points)) < 0.66
    assert explained(random(batch.points)) > 0.9


def test_the_last_layer_starts_so_whatever_the_norm_and_depth():
    for fields in ({"norm": "none"}, {"norm_place": "pre"}, {"layers": 3, "branch_gain": 0.0}, {"norm": "unit"}):
        torch.manual_seed(0)
        spec = ModelSpec(dim=16, heads=1, rank=16, temperature="learned", head_init="farthest", **fields)
        model = Transformer(spec)
        points = torch.nn.functional.normalize(torch.randn(4, 8, 16), dim=-1)
        weights = model(points, return_weights=True)[1][-1][:, 0]
        expected = (-SHARPNESS * 4 * points @ points.mT).softmax(-1)
        torch.testing.assert_close(weights, expected, atol=1e-3, rtol=0)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_narrow_types_start_so_too_up_to_their_rounding(dtype):
    layer, exact = started(4, 4, dtype=dtype), started(4, 4)
    for name, weight in layer.named_parameters():
        assert torch.equal(weight, exact.get_parameter(name).to(dtype)), name


def sharing(heads, rank, *, dim=16, **fields):
    torch.manual_seed(0)
    layer = MultiheadAttention(dim, heads, rank, temperature="learned", **fields)
    random = {name: weight.clone() for name, weight in layer.named_parameters()}
    start_shared_values(layer)
    return layer, random


@pytest.mark.parametrize(
    ("heads", "rank", "share"), [(32, 4, 4 / 7), (16, 8, 2 / 7), (128, 1, 8 / 7), (32, 16, 1 / 31)]
)
def test_heads_of_a_group_bring_the_same_coordinates_and_the_last_takes_them_away(heads, rank, share):
    layer, _ = sharing(heads, rank)
    moved = [layer.ov(head).dense() for head in range(heads)]
    groups = 16 // rank
    together = torch.zeros(16, 16)
    for group in range(groups):
        *votes, last = range(group, heads, groups)
        projection = moved[votes[0]] / share
        torch.testing.assert_close(projection @ projection, projection, atol=1e-5, rtol=0)
        together += projection
        for head in votes:
            torch.testing.assert_close(moved[head], moved[votes[0]])
        torch.testing.assert_close(moved[last], -len(votes) * moved[votes[0]])
    torch.testing.assert_close(together, torch.eye(16), atol=1e-5, rtol=0)


@pytest.mark.parametrize(("heads", "rank"), [(32, 4), (3, 5), (2, 24)])
def test_groups_leave_queries_keys_and_temperatures_as_they_were(heads, rank):
    layer, random = sharing(heads, rank)
    for name, weight in layer.named_parameters():
        assert torch.equal(weight, random[name]) == (name not in ("v_weight", "o_weight")), name


@pytest.mark.parametrize(("heads", "rank", "answered"), [(4, 4, 16), (3, 5, 15), (1, 4, 4), (1, 16, 16)])
def test_a_head_without_a_group_brings_its_coordinates_once(heads, rank, answered):
    layer, _ = sharing(heads, rank)
    moved = sum(layer.ov(head).dense() for head in range(heads))
    torch.testing.assert_close(moved @ moved, moved, atol=1e-5, rtol=0)
    assert moved.trace().item() == pytest.approx(answered, rel=1e-4)


def test_points_equal_to_each_other_get_no_answer_from_groups():
    """What votes for anyone bring is taken away: one point in all places leaves nothing to vote on."""
    layer, _ = sharing(32, 4)
    point = torch.nn.functional.normalize(torch.randn(1, 1, 16), dim=-1).expand(2, 8, 16)
    torch.testing.assert_close(layer(point), torch.zeros(2, 8, 16), atol=1e-5, rtol=0)


@pytest.mark.parametrize("temperature", ["fixed", "learned"])
def test_the_last_layer_starts_in_groups_if_the_spec_says_so(temperature):
    torch.manual_seed(0)
    spec = ModelSpec(dim=16, layers=2, heads=32, rank=4, temperature=temperature, head_init="shared")
    first, last = Transformer(spec).attention_layers()
    together = [sum(layer.ov(head).dense() for head in range(32)).abs().max() for layer in (first, last)]
    assert together[1] < 1e-5 < 0.1 < together[0]


def addressed(heads: int, rank: int, **fields) -> list[MultiheadAttention]:
    torch.manual_seed(0)
    spec = ModelSpec(dim=16, layers=3, heads=heads, rank=rank, head_init="address", **fields)
    return list(Transformer(spec).attention_layers())


@pytest.mark.parametrize(("heads", "rank", "value_rank"), [(2, 8, 8), (5, 3, 3), (16, 1, 1), (4, 4, 6), (3, 4, 24)])
def test_an_address_is_one_set_of_coordinates_for_all_layers_but_the_last(heads, rank, value_rank):
    *earlier, last = addressed(heads, rank, value_rank=value_rank)
    size = min(heads, 16 / rank)
    address = earlier[0].ov(0).dense() / (size / math.ceil(heads / 2))
    assert torch.linalg.matrix_rank(address, tol=1e-4) == min(value_rank, 16)
    torch.testing.assert_close(address @ address, address, atol=1e-5, rtol=0)
    for layer in earlier:
        for head in range(heads):
            half = math.floor(heads / 2) if head % 2 else math.ceil(heads / 2)
            torch.testing.assert_close(layer.ov(head).dense(), (-1) ** head * size / half * address, atol=1e-5, rtol=0)
        assert layer.v_weight.norm(dim=-1).min() > 0.5, "values that start at 0 on both sides never learn"
    rows = [last.v_weight[head] for head in range(heads)]
    assert not torch.allclose(rows[0], rows[1]), "the last layer brings the answer, all of its coordinates"


def test_points_equal_to_each_other_leave_an_address_empty():
    point = torch.nn.functional.normalize(torch.randn(1, 1, 16), dim=-1).expand(2, 8, 16)
    for layer in addressed(5, 3)[:-1]:
        torch.testing.assert_close(layer(point), torch.zeros(2, 8, 16), atol=1e-5, rtol=0)


def test_queries_and_keys_of_an_address_are_those_of_a_random_start():
    for layer in addressed(4, 4):
        bound = (layer.q_weight.norm(dim=-1) ** 2).mean()
        assert 0.3 < bound < 0.8, "rows of length sqrt(1/2), as the standard initialisation has them"
        overlap = layer.q_weight[0] @ layer.k_weight[0].mT
        assert overlap.abs().max() < 0.45, "no head starts as a search"


def test_a_branch_gain_leaves_the_address_and_silences_feedforwards():
    torch.manual_seed(0)
    silent = {"feedforward": 8, "branch_gain": 0.0, "norm": "none"}
    model = Transformer(ModelSpec(dim=16, layers=3, heads=4, rank=4, head_init="address", **silent))
    for layer in list(model.attention_layers())[:-1]:
        torch.testing.assert_close(layer.o_weight.norm(dim=-1), torch.full((4, 4), 2 / math.sqrt(0.5)))
    point = torch.nn.functional.normalize(torch.randn(1, 1, 16), dim=-1).expand(1, 8, 16)
    torch.testing.assert_close(model.blocks[0](point, None, False)[0], point)


def test_groups_need_a_key_head_for_every_head():
    with pytest.raises(InvalidInputError, match="layer: expected as many key heads as heads"):
        start_shared_values(MultiheadAttention(16, 4, 4, kv_heads=2))


def test_heads_that_cannot_start_so_are_refused():
    with pytest.raises(InvalidInputError, match="head_init: expected a learned temperature"):
        ModelSpec(dim=16, heads=2, rank=8, head_init="farthest")
    with pytest.raises(InvalidInputError, match="head_init: expected as many key heads as heads"):
        ModelSpec(dim=16, heads=2, rank=8, kv_heads=1, temperature="learned", head_init="farthest")
    for shape in ({"layers": 1, "heads": 2}, {"layers": 3, "heads": 1}):
        with pytest.raises(InvalidInputError, match="head_init: expected at least two layers of at least two heads"):
            ModelSpec(dim=16, rank=8, head_init="address", **shape)
    with pytest.raises(InvalidInputError, match="layers: expected at least two heads"):
        start_address([MultiheadAttention(16, 4, 4, kv_heads=2)])
    with pytest.raises(InvalidInputError, match="head_init: expected one of"):
        ModelSpec(dim=16, heads=2, rank=8, temperature="learned", head_init="nearest")
