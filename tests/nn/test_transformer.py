from dataclasses import replace

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn

from rankwise.errors import InvalidInputError, ShapeError
from rankwise.nn import MultiheadAttention, Transformer, UnitNorm
from rankwise.spec import ModelSpec


def draw(*shape, seed=1):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


@st.composite
def specs(draw_from):
    positions = draw_from(st.sampled_from(["none", "additive", "concatenated", "rotary"]))
    average = draw_from(st.integers(1, 2))
    last_residual = draw_from(st.sampled_from([None, False]))
    start = draw_from(st.sampled_from([None, 0.0, -1.5])) if last_residual is None else None
    return ModelSpec(
        dim=draw_from(st.integers(2, 6)),
        layers=draw_from(st.integers(1, 3)),
        heads=average * draw_from(st.integers(1, 3)),
        average=average,
        rank=2 * draw_from(st.integers(1, 3)),
        value_rank=draw_from(st.none() | st.integers(1, 5)),
        temperature=draw_from(st.sampled_from(["fixed", "learned"])),
        bias=draw_from(st.booleans()),
        feedforward=draw_from(st.sampled_from([0, 7])),
        last_residual=last_residual,
        last_residual_start=start,
        activation=draw_from(st.sampled_from(["relu", "gelu"])),
        norm=draw_from(st.sampled_from(["rms", "unit", "none"])),
        norm_place=draw_from(st.sampled_from(["pre", "post"])),
        positions=positions,
        position_dim=3 if positions == "concatenated" else 0,
        max_points=8 if positions in ("additive", "concatenated") else 0,
        output_map=draw_from(st.booleans()),
        init=draw_from(st.sampled_from(["standard", "paper"])),
        causal=draw_from(st.booleans()),
    )


@settings(max_examples=80)
@given(spec=specs(), cross=st.booleans())
def test_parameters_are_counted_and_shapes_come_out(spec, cross):
    model = Transformer(spec, dtype=torch.float64)
    assert sum(p.numel() for p in model.parameters()) == spec.parameters()
    points, queries = draw(2, 5, spec.dim), draw(2, 3, spec.dim, seed=2)
    inputs = (queries, points) if cross else (points,)
    output, weights = model(*inputs, return_weights=True)
    assert output.shape == (2, 3 if cross else 5, spec.dim)
    assert output.isfinite().all()
    assert [w.shape for w in weights] == [(2, spec.heads, output.shape[1], 5)] * spec.layers
    torch.testing.assert_close(model(*inputs), output)
    output.square().sum().backward()
    # the bias of keys adds the same to all scores of a query: it cancels, and merged projections leave it out
    assert all(p.grad is not None for name, p in model.named_parameters() if not name.endswith("k_bias"))


@pytest.mark.parametrize("place", ["pre", "post"])
def test_equals_torchs_encoder_layer_with_the_same_norm(place):
    theirs = nn.TransformerEncoderLayer(
        12, 3, 20, dropout=0.0, batch_first=True, norm_first=place == "pre", dtype=torch.float64
    )
    theirs.norm1, theirs.norm2 = (nn.RMSNorm(12, eps=1e-6, dtype=torch.float64) for _ in range(2))
    generator = torch.Generator().manual_seed(0)
    for parameter in theirs.parameters():
        nn.init.normal_(parameter, std=0.4, generator=generator)
    ours = Transformer(ModelSpec(dim=12, heads=3, rank=4, feedforward=20, norm_place=place), dtype=torch.float64)
    block = ours.blocks[0]
    block.attention = MultiheadAttention.from_torch(theirs.self_attn)
    block.feedforward[0].load_state_dict(theirs.linear1.state_dict())
    block.feedforward[2].load_state_dict(theirs.linear2.state_dict())
    block.attention_norm.load_state_dict(theirs.norm1.state_dict())
    block.feedforward_norm.load_state_dict(theirs.norm2.state_dict())
    x = draw(2, 6, 12)
    expected = theirs(x)
    if place == "pre":
        expected = nn.functional.rms_norm(expected, (12,), eps=1e-6)
    torch.testing.assert_close(ours(x), expected, rtol=1e-10, atol=1e-10)


def test_the_transforms_of_torch_func_work_on_the_whole_model():
    """Gradients an example by vmap are those of one example after the other."""
    model = Transformer(ModelSpec(dim=6, layers=2, heads=2, rank=3, feedforward=8), dtype=torch.float64)
    weights = {name: weight.detach() for name, weight in model.named_parameters()}
    x = draw(3, 4, 6)

    def loss(parameters, example):
        return torch.func.functional_call(model, parameters, (example[None],)).square().sum()

    together = torch.func.vmap(torch.func.grad(loss), (None, 0))(weights, x)
    for index, example in enumerate(x):
        model.zero_grad()
        model(example[None]).square().sum().backward()
        for name, parameter in model.named_parameters():
            if parameter.grad is not None:
                torch.testing.assert_close(together[name][index], parameter.grad)


def test_second_derivatives_exist_where_the_weights_are_asked_for():
    model = Transformer(ModelSpec(dim=4, layers=2, heads=2, rank=3, feedforward=7), dtype=torch.float64)
    x = draw(1, 3, 4).requires_grad_()
    assert torch.autograd.gradgradcheck(lambda inputs: model(inputs, return_weights=True)[0], (x,))


def test_an_empty_batch_has_an_empty_output():
    model = Transformer(ModelSpec(dim=4, layers=2, heads=2, rank=3, feedforward=7))
    output = model(torch.zeros(0, 3, 4))
    assert output.shape == (0, 3, 4)
    output.sum().backward()


def test_an_average_of_modules_is_the_mean_of_their_outputs():
    modules = [nn.MultiheadAttention(6, 2, batch_first=True, dtype=torch.float64) for _ in range(3)]
    layer = MultiheadAttention(6, 6, 3, average=3, dtype=torch.float64)
    parts = [MultiheadAttention.from_torch(m) for m in modules]
    for part in parts:
        nn.init.normal_(part.o_bias)
    with torch.no_grad():
        for name, parameter in layer.named_parameters():
            parameter.copy_(torch.cat([dict(part.named_parameters())[name] for part in parts]))
    x = draw(2, 5, 6)
    expected = torch.stack([part(x) for part in parts]).mean(0)
    torch.testing.assert_close(layer(x), expected, rtol=1e-10, atol=1e-10)


def test_paper_start_copies_one_layer():
    model = Transformer(ModelSpec(dim=8, layers=3, heads=2, rank=4, feedforward=16, init="paper"))
    first, *others = [block.state_dict() for block in model.blocks]
    assert all(torch.equal(first[name], other[name]) for other in others for name in first)
    apart = Transformer(ModelSpec(dim=8, layers=2, heads=2, rank=4))
    assert not torch.equal(apart.blocks[0].attention.q_weight, apart.blocks[1].attention.q_weight)


@pytest.mark.parametrize(("layers", "loss"), [(1, 2.40), (3, 2.27), (5, 2.14)])
def test_initial_losses_of_the_papers_experiment(layers, loss):
    """Farthest neighbour, d = 64, N = 16, one module of one head: squared error a point before any training."""
    generator = torch.Generator().manual_seed(0)
    spec = ModelSpec(dim=64, layers=layers, heads=1, rank=64, feedforward=2048, norm="unit", init="paper")
    losses = []
    for seed in range(8):
        torch.manual_seed(seed)
        model = Transformer(spec)
        points = nn.functional.normalize(torch.randn(64, 16, 64, generator=generator), dim=-1)
        farthest = (points @ points.mT).argmin(-1)
        targets = points.gather(1, farthest[..., None].expand_as(points))
        with torch.no_grad():
            losses.append((model(points) - targets).square().sum(-1).mean().item())
    assert abs(sum(losses) / len(losses) - loss) < 0.03


def test_without_the_last_residual_the_output_is_what_the_heads_bring():
    spec = ModelSpec(dim=6, layers=1, heads=2, rank=3, last_residual=False, norm="none")
    model = Transformer(spec, dtype=torch.float64)
    points = draw(2, 5, 6)
    torch.testing.assert_close(model(points), model.blocks[0].attention(points), rtol=0, atol=0)


def test_without_the_last_residual_depth_starts_where_one_layer_does():
    """Silent earlier layers leave unit vectors as they are, so three layers compute what the last one does alone."""
    heads = {"dim": 6, "heads": 2, "rank": 3, "bias": False}
    fields = heads | {"last_residual": False, "norm": "unit", "branch_gain": 0.0}
    deep = Transformer(ModelSpec(layers=3, **fields), dtype=torch.float64)
    shallow = Transformer(ModelSpec(layers=1, **fields), dtype=torch.float64)
    shallow.blocks[0].load_state_dict(deep.blocks[2].state_dict())
    points = nn.functional.normalize(draw(2, 5, 6), dim=-1)
    torch.testing.assert_close(deep(points), shallow(points))
    assert [block.attention_residual for block in deep.blocks] == [True, True, False]


@pytest.mark.parametrize("fields", [{"last_residual": True}, {"last_residual": False, "residual": False}])
def test_a_last_residual_that_says_nothing_new_is_refused(fields):
    with pytest.raises(InvalidInputError, match="last_residual: expected false or nothing"):
        ModelSpec(dim=6, heads=2, rank=3, **fields)


def test_the_last_residual_has_a_weight_that_starts_where_it_is_told_and_learns():
    fields = {"dim": 6, "layers": 2, "heads": 2, "rank": 2, "norm": "none"}
    weighed = Transformer(ModelSpec(**fields, last_residual_start=-0.5), dtype=torch.float64)
    plain = Transformer(ModelSpec(**fields), dtype=torch.float64)
    plain.load_state_dict(weighed.state_dict(), strict=False)
    points = draw(2, 5, 6)
    before_last, _ = plain.blocks[0](points, None, False)
    torch.testing.assert_close(weighed(points), plain(points) - 1.5 * before_last)
    weighed(points).sum().backward()
    torch.testing.assert_close(weighed.blocks[1].residual_weight.grad, before_last.sum())
    assert weighed.blocks[0].residual_weight is None


@pytest.mark.parametrize("fields", [{"last_residual": False}, {"residual": False}])
def test_a_weight_without_a_last_residual_is_refused(fields):
    with pytest.raises(InvalidInputError, match="last_residual_start: expected a last residual to weigh"):
        ModelSpec(dim=6, heads=2, rank=3, last_residual_start=0.0, **fields)


def test_unit_norm_has_one_scalar_and_unit_vectors():
    norm = UnitNorm()
    assert [p.numel() for p in norm.parameters()] == [1]
    torch.testing.assert_close(norm(torch.randn(3, 4, 5)).norm(dim=-1), torch.ones(3, 4))


@pytest.mark.parametrize("bias", [True, False])
def test_a_feedforward_may_start_with_larger_hidden_units_and_no_biases(bias):
    spec = ModelSpec(dim=4, layers=2, heads=1, rank=4, feedforward=32, bias=bias)
    torch.manual_seed(0)
    plain = Transformer(spec)
    torch.manual_seed(0)
    large = Transformer(replace(spec, feedforward_gain=16.0))
    for before, after in zip(plain.blocks, large.blocks, strict=True):
        torch.testing.assert_close(after.feedforward[0].weight, 16 * before.feedforward[0].weight)
        torch.testing.assert_close(after.feedforward[2].weight, before.feedforward[2].weight)
        if bias:
            assert before.feedforward[0].bias.abs().max() > 0 == after.feedforward[0].bias.abs().max()


@pytest.mark.parametrize(("gain", "longest"), [(None, 1.0), (0.2, 0.2)])
def test_concatenated_positions_start_as_long_as_the_spec_says(gain, longest):
    spec = ModelSpec(
        dim=4, heads=1, rank=4, positions="concatenated", position_dim=64, position_gain=gain, max_points=64
    )
    table = Transformer(spec).positions
    assert 0.99 * longest < table.abs().max() <= longest


def test_concatenated_positions_make_permuted_points_tell():
    model = Transformer(ModelSpec(dim=4, heads=1, rank=4, positions="concatenated", position_dim=2, max_points=5))
    points = torch.randn(1, 5, 4)
    assert (model(points.flip(1)).flip(1) - model(points)).abs().max() > 1e-3


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda m: m(torch.zeros(2, 3, 5)), ShapeError, r"tokens: expected \[batch, tokens, dim=4\], got \[2, 3, 5\]"),
        (lambda m: m(torch.zeros(2, 3, 4), torch.zeros(3, 4)), ShapeError, r"points: expected"),
        (lambda m: m(torch.zeros(2, 9, 4)), InvalidInputError, "at most max_points=8"),
    ],
)
def test_what_does_not_fit_is_named(call, error, message):
    with pytest.raises(error, match=message):
        call(Transformer(ModelSpec(dim=4, heads=1, rank=2, positions="additive", max_points=8)))
