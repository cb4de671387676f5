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
        residual=draw_from(st.sampled_from(["plain", "learned", "none"])),
        activation=draw_from(st.sampled_from(["relu", "gelu"])),
        norm=draw_from(st.sampled_from(["rms", "unit", "none"])),
        norm_place=draw_from(st.sampled_from(["pre", "post"])),
        positions=positions,
        position_dim=3 if positions == "concatenated" else 0,
        max_points=8 if positions in ("additive", "concatenated") else 0,
        init=draw_from(st.sampled_from(["standard", "identity", "paper"])),
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


@pytest.mark.parametrize("residual", ["learned", "none"])
def test_one_layer_without_a_plain_residual_initially_outputs_what_its_heads_do(residual):
    model = Transformer(ModelSpec(dim=6, heads=2, rank=3, residual=residual, norm="none"), dtype=torch.float64)
    points = draw(2, 5, 6)
    torch.testing.assert_close(model(points), model.blocks[0].attention(points), rtol=0, atol=0)


@pytest.mark.parametrize("place", ["pre", "post"])
def test_a_learned_residual_weighs_the_input_of_each_attention(place):
    fields = {"dim": 6, "layers": 3, "heads": 2, "rank": 2, "feedforward": 5, "norm_place": place}
    learned = Transformer(ModelSpec(**fields, residual="learned"), dtype=torch.float64)
    plain = Transformer(ModelSpec(**fields), dtype=torch.float64)
    plain.load_state_dict(learned.state_dict(), strict=False)
    weights, points = [block.residual_weight for block in learned.blocks], draw(2, 5, 6)
    assert torch.stack(weights).tolist() == [1, 1, 0]
    assert not torch.allclose(learned(points), plain(points))
    nn.init.ones_(weights[-1])
    torch.testing.assert_close(learned(points), plain(points))
    (learned(points) ** 3).sum().backward()
    assert all(weight.grad.abs() > 1e-6 for weight in weights)


@pytest.mark.parametrize("attention", [{}, {"kv_lora_rank": 4}])
@pytest.mark.parametrize(("residual", "kept"), [("plain", 1), ("learned", 0)])
def test_an_identity_start_computes_what_the_last_attention_does(attention, residual, kept):
    spec = ModelSpec(
        dim=6, heads=2, rank=3, layers=3, feedforward=5, norm="none", init="identity", residual=residual, **attention
    )
    model, points = Transformer(spec, dtype=torch.float64), draw(2, 4, 6)
    before_last, _ = model.blocks[0](points, None, None, False)
    torch.testing.assert_close(before_last, points)
    *_, last = model.attention_layers()
    torch.testing.assert_close(model(points), kept * points + last(points))
    assert last(points).abs().max() > 1e-3


@pytest.mark.parametrize(
    ("fields", "mean", "std"),
    [
        ({"positions": "additive"}, 0, 1 / 8),
        ({"positions": "concatenated", "position_dim": 16}, 0, 1 / 4),
        ({"positions": "concatenated", "position_dim": 16, "init": "identity"}, 0, 1 / 4),
        ({"positions": "additive", "init": "paper"}, -1, 1),
        ({"positions": "concatenated", "position_dim": 16, "init": "paper"}, 0, 3**-0.5),
    ],
)
def test_the_initial_scale_of_learned_positions(fields, mean, std):
    torch.manual_seed(0)
    table = Transformer(ModelSpec(dim=64, heads=1, rank=4, max_points=512, **fields)).positions
    assert table.mean().item() == pytest.approx(mean, abs=0.05 * std)
    assert table.std().item() == pytest.approx(std, rel=0.05)


def test_unit_norm_has_one_scalar_and_unit_vectors():
    norm = UnitNorm()
    assert [p.numel() for p in norm.parameters()] == [1]
    torch.testing.assert_close(norm(torch.randn(3, 4, 5)).norm(dim=-1), torch.ones(3, 4))


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
