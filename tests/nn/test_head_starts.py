import math

import pytest
import torch

from rankwise.errors import InvalidInputError
from rankwise.nn.attention import MultiheadAttention
from rankwise.nn.head_starts import SHARPNESS, start_farthest
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


def test_heads_that_cannot_start_so_are_refused():
    with pytest.raises(InvalidInputError, match="head_init: expected a learned temperature"):
        ModelSpec(dim=16, heads=2, rank=8, head_init="farthest")
    with pytest.raises(InvalidInputError, match="head_init: expected a learned temperature"):
        ModelSpec(dim=16, heads=2, rank=8, kv_heads=1, temperature="learned", head_init="farthest")
    with pytest.raises(InvalidInputError, match="head_init: expected one of"):
        ModelSpec(dim=16, heads=2, rank=8, temperature="learned", head_init="nearest")
