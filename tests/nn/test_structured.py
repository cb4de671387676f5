"""Structured score forms against their dense matrices, written out entry by entry from the formulas."""

import copy

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from rankwise.errors import InvalidInputError
from rankwise.nn import MultiheadAttention, Transformer
from rankwise.spec import AttentionSpec, ModelSpec, RotarySpec

DOUBLE = torch.float64


def drawn(*shape, seed=1):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=DOUBLE)


def randomised(layer, seed=0):
    generator = torch.Generator().manual_seed(seed)
    for parameter in layer.parameters():
        torch.nn.init.normal_(parameter, std=0.5, generator=generator)
    return layer


def dense_form(layer, head):
    """M of one head, an entry at a time."""
    spec, group = layer.spec, head // (layer.spec.heads // layer.spec.key_heads)
    D, C, R, b = spec.dim, spec.source_dim, spec.rank, spec.blocks
    q, k, m = layer.q_weight[head], layer.k_weight[group], torch.zeros(D, C, dtype=DOUBLE)
    for row in range(D):
        a, i = divmod(row, D // b)
        for column in range(C):
            c, t = divmod(column, C // b)
            if spec.score_form == "monarch":
                m[row, column] = sum(q[a, s * (C // b) + t, i] * k[t, s * b + a, c] for s in range(R))
            else:
                m[row, column] = q[:, row] @ k[:, column]
                if a == c:
                    m[row, column] += layer.block_weight[head, a, t, i]
    return m


@st.composite
def structured_specs(draw, **fixed):
    blocks, group = draw(st.integers(1, 4)), draw(st.integers(1, 2))
    bias = draw(st.booleans())
    fields = {
        "dim": blocks * draw(st.integers(1, 4)),
        "context_dim": draw(st.sampled_from([None, blocks, 3 * blocks])),
        "heads": group * draw(st.integers(1, 3)),
        "kv_heads": group,
        "rank": draw(st.integers(1, 3)),
        "value_rank": draw(st.integers(1, 5)),
        "temperature": draw(st.sampled_from(["fixed", "learned"])),
        "causal": draw(st.booleans()),
        "bias": bias,
        "score_form": draw(st.sampled_from(["block_low_rank", "monarch"])),
        "blocks": blocks,
    }
    return AttentionSpec(**fields | fixed)


@settings(max_examples=25)
@given(spec=structured_specs(bias=False), keys=st.sampled_from([3, 5, 100]))
def test_scores_are_those_of_the_dense_matrix(spec, keys):
    layer = randomised(MultiheadAttention.from_spec(spec, dtype=DOUBLE))
    y, x = drawn(2, keys, spec.dim, seed=2), drawn(2, keys, spec.source_dim, seed=3)
    output, weights = layer(y, x, return_weights=True)
    expected = torch.zeros_like(output)
    for head in range(spec.heads):
        form = dense_form(layer, head)
        torch.testing.assert_close(layer.qk(head).dense(), form, rtol=1e-10, atol=1e-10)
        scores = layer.score_scale(head) * y @ form @ x.mT
        if spec.causal:
            hidden = torch.ones(keys, keys, dtype=torch.bool).triu(1)
            scores = scores.masked_fill(hidden, float("-inf"))
        torch.testing.assert_close(weights[:, head], scores.softmax(-1), rtol=1e-10, atol=1e-10)
        expected += scores.softmax(-1) @ x @ layer.ov(head).dense().mT
    torch.testing.assert_close(output, expected, rtol=1e-10, atol=1e-10)
    torch.testing.assert_close(layer(y, x), expected, rtol=1e-10, atol=1e-10)


@settings(max_examples=60)
@given(spec=structured_specs(qk_norm=True) | structured_specs())
def test_the_spec_counts_what_the_module_has(spec):
    layer = MultiheadAttention.from_spec(spec)
    assert spec.parameters() == sum(parameter.numel() for parameter in layer.parameters())
    for name, shape in spec.score_shapes().items():
        assert getattr(layer, name).shape == shape


@pytest.mark.parametrize("form", ["block_low_rank", "monarch"])
@pytest.mark.parametrize("kv_heads", [1, 2])
def test_gradients(form, kv_heads):
    spec = AttentionSpec(
        dim=4, context_dim=6, heads=2, kv_heads=kv_heads, rank=2, temperature="learned", score_form=form, blocks=2
    )
    layer = randomised(MultiheadAttention.from_spec(spec, dtype=DOUBLE))
    y, x = drawn(1, 3, spec.dim, seed=2).requires_grad_(), drawn(1, 4, spec.source_dim, seed=3).requires_grad_()
    names = ["q_weight", "k_weight", "q_bias", "log_beta"] + ["block_weight"] * (layer.block_weight is not None)

    def through(y, x, *weights):
        return torch.func.functional_call(layer, dict(zip(names, weights, strict=True)), (y, x))

    assert torch.autograd.gradcheck(through, (y, x, *(getattr(layer, name) for name in names)))


@pytest.mark.parametrize(("form", "rank", "weights"), [("block_low_rank", 4, 1024), ("monarch", 1, 1024)])
def test_full_rank_at_the_weights_of_rank_8(form, rank, weights):
    """d = 64 in 8 blocks of 8: as many score weights as a head of rank 8, whose form has rank 8."""
    layer = randomised(MultiheadAttention(64, 1, rank, value_rank=1, bias=False, score_form=form, blocks=8))
    plain = MultiheadAttention(64, 1, 8, value_rank=1, bias=False)
    assert sum(torch.Size(shape).numel() for shape in layer.spec.score_shapes().values()) == weights
    assert layer.spec.parameters() == plain.spec.parameters()
    assert layer.qk(0).rank() == 64
    assert plain.qk(0).rank() == 8


@pytest.mark.parametrize("form", ["block_low_rank", "monarch"])
def test_both_contain_the_identity(form):
    """One head of full rank is exact search: weights of 0 and 1 make M = I."""
    layer = MultiheadAttention(12, 1, 1, value_rank=12, bias=False, score_form=form, blocks=3, dtype=DOUBLE)
    with torch.no_grad():
        if layer.block_weight is None:
            for weight in (layer.q_weight, layer.k_weight):
                weight.copy_(torch.eye(weight.shape[-1]).expand_as(weight))
        else:
            layer.q_weight.zero_()
            layer.block_weight.copy_(torch.eye(4).expand_as(layer.block_weight))
    assert torch.equal(layer.qk(0).dense(), torch.eye(12, dtype=DOUBLE))


def test_monarch_of_tile_rank_b_is_every_matrix():
    """Each tile [D/b, b] of a given matrix is factored by its SVD."""
    b, size = 3, 4
    target = drawn(12, 12)
    layer = MultiheadAttention(12, 1, b, bias=False, score_form="monarch", blocks=b, dtype=DOUBLE)
    with torch.no_grad():
        for a in range(b):
            for t in range(size):
                tile = target.view(b, size, b, size)[a, :, :, t]
                u, s, vh = torch.linalg.svd(tile, full_matrices=False)
                for term in range(b):
                    layer.q_weight[0, a, term * size + t] = u[:, term] * s[term]
                    layer.k_weight[0, t, term * b + a] = vh[term]
    torch.testing.assert_close(layer.qk(0).dense(), target, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("form", ["block_low_rank", "monarch"])
@pytest.mark.parametrize("options", [{"qk_norm": True}, {"rope": RotarySpec(dims=4)}, {"window": 2}])
def test_other_options_see_ordinary_queries_and_keys(form, options):
    """With norms, rotations and masks the layer is an ordinary one whose weights are the thin maps A and B."""
    layer = randomised(
        MultiheadAttention(8, 2, 2, value_rank=3, score_form=form, blocks=4, dtype=DOUBLE, **options), seed=3
    )
    plain = MultiheadAttention(8, 2, layer.spec.score_dim, value_rank=3, dtype=DOUBLE, **options)
    state = {name: value for name, value in layer.state_dict().items() if name in plain.state_dict()}
    state["q_weight"] = torch.stack([layer.qk(head).left.mT for head in range(2)])
    state["k_weight"] = torch.stack([layer.qk(head).right for head in range(2)])
    plain.load_state_dict(state)
    x = drawn(2, 6, 8)
    torch.testing.assert_close(layer(x), plain(x), rtol=1e-10, atol=1e-10)


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"score_form": "monarch"}, "blocks: expected a number exactly when"),
        ({"blocks": 2}, "blocks: expected a number exactly when"),
        ({"score_form": "monarch", "blocks": 3}, "blocks: expected a divisor of dim=8"),
        ({"score_form": "block_low_rank", "blocks": 4, "context_dim": 6}, "context_dim=6"),
        ({"score_form": "butterfly", "blocks": 2}, "score_form: expected one of"),
    ],
)
def test_what_does_not_fit_is_said(fields, message):
    with pytest.raises(InvalidInputError, match=message):
        MultiheadAttention(8, 1, 2, **fields)


def test_what_has_no_structure_refuses_it():
    layer = MultiheadAttention(8, 4, 2, score_form="monarch", blocks=2)
    with pytest.raises(InvalidInputError, match="low rank"):
        layer.to_torch()


def test_a_model_of_structured_heads_trains_and_is_counted():
    spec = ModelSpec(dim=8, layers=2, heads=2, rank=1, value_rank=4, score_form="monarch", blocks=2)
    model = Transformer(spec)
    assert spec.parameters() == sum(parameter.numel() for parameter in model.parameters())
    before = copy.deepcopy(model.state_dict())
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    model(torch.randn(4, 5, 8)).square().sum().backward()
    optimizer.step()
    changed = {name for name, value in model.state_dict().items() if not torch.equal(value, before[name])}
    assert {"blocks.0.attention.q_weight", "blocks.1.attention.k_weight"} <= changed
