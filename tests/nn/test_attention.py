import copy
import dataclasses

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn

from attention_oracle import attention_oracle
from rankwise.errors import InvalidInputError, ShapeError
from rankwise.nn import MultiheadAttention, mixing
from rankwise.spec import AttentionSpec, RotarySpec

DOUBLE = torch.float64


def randomised(layer, seed=0):
    """Also the parameters that start at zero or one must take part."""
    generator = torch.Generator().manual_seed(seed)
    for parameter in layer.parameters():
        nn.init.normal_(parameter, std=0.5, generator=generator)
    return layer


def draw(*shape, seed=1, dtype=DOUBLE):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=dtype)


@st.composite
def every_size_different(draw_from):
    """dim, context_dim, rank, value_rank and both lengths pairwise different; heads and key heads free."""
    dim, context_dim, rank, value_rank, queries, keys = draw_from(
        st.lists(st.integers(1, 11), min_size=6, max_size=6, unique=True)
    )
    kv_heads = draw_from(st.integers(1, 3))
    average = draw_from(st.sampled_from([1, 2]))
    spec = AttentionSpec(
        dim=dim,
        context_dim=context_dim,
        rank=rank,
        value_rank=value_rank,
        kv_heads=kv_heads,
        heads=kv_heads * average * draw_from(st.integers(1, 3)),
        average=average,
        scores=draw_from(st.sampled_from(["softmax", "hardmax"])),
        temperature=draw_from(st.sampled_from(["fixed", "learned"])),
        causal=draw_from(st.booleans()),
        window=draw_from(st.none() | st.integers(1, 12)),
        bias=draw_from(st.booleans()),
    )
    mask = draw_from(st.sampled_from(["none", "IJ", "BIJ", "BHIJ", "keys"]))
    mask += draw_from(st.sampled_from(["", " of numbers"]))
    return spec, draw_from(st.integers(1, 3)), queries, keys, mask


def random_masks(kind, batch, heads, queries, keys):
    name, _, numbers = kind.partition(" ")
    shapes = {"IJ": (queries, keys), "BIJ": (batch, queries, keys), "BHIJ": (batch, heads, queries, keys)}
    if name == "none":
        return {}
    drawn = draw(*shapes.get(name, (batch, keys)), seed=7)
    hidden = drawn < -0.5
    if numbers:
        return {"key_padding_mask" if name == "keys" else "mask": drawn.masked_fill(hidden, float("-inf"))}
    return {"key_padding_mask": hidden} if name == "keys" else {"mask": ~hidden}


def visible_keys(spec, batch, queries, keys, masks):
    offset = torch.arange(queries)[:, None] - torch.arange(keys)
    visible = torch.ones(batch, spec.heads, queries, keys, dtype=torch.bool)
    if spec.causal:
        visible = visible & (offset >= 0)
    if spec.window is not None:
        visible = visible & (offset.abs() < spec.window)
    added = torch.zeros(batch, spec.heads, queries, keys, dtype=DOUBLE)
    if "mask" in masks:
        mask = masks["mask"]
        full = mask[:, None] if mask.ndim == 3 else mask
        visible, added = (visible & full, added) if mask.dtype == torch.bool else (visible, added + full)
    if "key_padding_mask" in masks:
        padding = masks["key_padding_mask"][:, None, None]
        visible, added = (visible & ~padding, added) if padding.dtype == torch.bool else (visible, added + padding)
    return visible & added.isfinite(), added.nan_to_num(neginf=0.0)


@pytest.mark.parametrize("fused_from", [1, 1000], ids=["fused kernel", "batched product"])
@settings(max_examples=150)
@given(case=every_size_different())
def test_every_combination_of_sizes_equals_the_plain_einsum(fused_from, case):
    spec, batch, queries, keys, kind = case
    layer = randomised(MultiheadAttention.from_spec(spec, dtype=DOUBLE))
    query, context = draw(batch, queries, spec.dim, seed=2), draw(batch, keys, spec.source_dim, seed=3)
    masks = random_masks(kind, batch, spec.heads, queries, keys)
    visible, added = visible_keys(spec, batch, queries, keys, masks)
    expected, expected_weights = attention_oracle(layer, query, context, visible, added)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(mixing, "FUSED_KERNEL_FROM_KEYS", fused_from)
        output = layer(query, context, **masks)
        again, weights = layer(query, context, **masks, return_weights=True)
    torch.testing.assert_close(output, expected, rtol=1e-9, atol=1e-9)
    torch.testing.assert_close(again, expected, rtol=1e-9, atol=1e-9)
    torch.testing.assert_close(weights, expected_weights, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("fused_from", [1, 1000], ids=["fused kernel", "batched product"])
@settings(max_examples=60)
@given(case=every_size_different())
def test_gradients_equal_those_of_the_plain_einsum(fused_from, case):
    spec, batch, queries, keys, kind = case
    layer = randomised(MultiheadAttention.from_spec(spec, dtype=DOUBLE))
    plain = copy.deepcopy(layer)
    query, context = draw(batch, queries, spec.dim, seed=2), draw(batch, keys, spec.source_dim, seed=3)
    masks = random_masks(kind, batch, spec.heads, queries, keys)
    visible, added = visible_keys(spec, batch, queries, keys, masks)
    # The oracle has -inf in rows that see nothing; their gradient is defined by ours alone, and must be finite.
    if not visible.any(-1).all():
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(mixing, "FUSED_KERNEL_FROM_KEYS", fused_from)
            layer(query, context, **masks).square().sum().backward()
        assert all(p.grad.isfinite().all() for p in layer.parameters() if p.grad is not None)
        return
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(mixing, "FUSED_KERNEL_FROM_KEYS", fused_from)
        layer(query, context, **masks).square().sum().backward()
    attention_oracle(plain, query, context, visible, added)[0].square().sum().backward()
    for (name, ours), theirs in zip(layer.named_parameters(), plain.parameters(), strict=True):
        ours_grad = torch.zeros_like(ours) if ours.grad is None else ours.grad
        theirs_grad = torch.zeros_like(theirs) if theirs.grad is None else theirs.grad
        torch.testing.assert_close(
            ours_grad, theirs_grad, rtol=1e-8, atol=1e-8, msg=lambda m, name=name: f"{name}: {m}"
        )


TORCH_SHAPES = [(8, 1, None, 5, 5), (8, 4, None, 3, 7), (12, 3, 5, 6, 4), (16, 16, None, 4, 130), (6, 2, 9, 129, 128)]


@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize(("dim", "heads", "context_dim", "queries", "keys"), TORCH_SHAPES)
@pytest.mark.parametrize("masking", ["none", "boolean", "numbers", "padding", "causal"])
def test_forward_and_gradients_equal_torch(dim, heads, context_dim, queries, keys, bias, masking):
    kdim = {} if context_dim is None else {"kdim": context_dim, "vdim": context_dim}
    theirs = randomised(nn.MultiheadAttention(dim, heads, bias=bias, batch_first=True, dtype=DOUBLE, **kdim), seed=4)
    ours = MultiheadAttention.from_torch(theirs)
    query = draw(2, queries, dim, seed=5).requires_grad_()
    context = draw(2, keys, context_dim or dim, seed=6).requires_grad_()
    offset = torch.arange(queries)[:, None] - torch.arange(keys)
    boolean = draw(queries, keys, seed=8) > 0
    boolean[:, 0] = True
    padding = draw(2, keys, seed=9) > 0
    padding[:, -1] = True
    our_mask = {
        "none": {},
        "boolean": {"mask": boolean},
        "numbers": {"mask": draw(queries, keys, seed=8)},
        "padding": {"key_padding_mask": ~padding},
        "causal": {"mask": offset >= 0},
    }
    their_mask = {
        "none": {},
        "boolean": {"attn_mask": ~boolean},
        "numbers": {"attn_mask": draw(queries, keys, seed=8)},
        "padding": {"key_padding_mask": ~padding},
        "causal": {"attn_mask": offset < 0},
    }
    expected, expected_weights = theirs(query, context, context, average_attn_weights=False, **their_mask[masking])
    expected_grads = torch.autograd.grad(expected.square().sum(), [query, context, theirs.out_proj.weight])
    output = ours(query, context, **our_mask[masking])
    grads = torch.autograd.grad(output.square().sum(), [query, context, ours.o_weight])
    _, weights = ours(query, context, **our_mask[masking], return_weights=True)
    close = {"rtol": 1e-10, "atol": 1e-10}
    torch.testing.assert_close(output, expected, **close)
    torch.testing.assert_close(weights, expected_weights, **close)
    torch.testing.assert_close(grads[0], expected_grads[0], **close)
    torch.testing.assert_close(grads[1], expected_grads[1], **close)
    torch.testing.assert_close(grads[2].flatten(0, 1).mT, expected_grads[2], **close)


@pytest.mark.parametrize("keys", [9, 140])
def test_plain_causal_equals_a_causal_mask(keys):
    plain = randomised(MultiheadAttention(6, 2, 3, dtype=DOUBLE))
    causal = MultiheadAttention(6, 2, 3, causal=True, dtype=DOUBLE)
    causal.load_state_dict(plain.state_dict())
    x = draw(2, keys, 6)
    mask = torch.ones(keys, keys, dtype=torch.bool).tril()
    torch.testing.assert_close(causal(x), plain(x, mask=mask), rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("context_dim", [None, 5])
@pytest.mark.parametrize("bias", [True, False])
def test_round_trip_through_torch(context_dim, bias):
    layer = randomised(
        MultiheadAttention(12, 3, 4, context_dim=context_dim, bias=bias, temperature="learned", average=3, dtype=DOUBLE)
    )
    query, context = draw(2, 4, 12), draw(2, 7, context_dim or 12, seed=2)
    theirs = layer.to_torch()
    torch.testing.assert_close(theirs(query, context, context)[0], layer(query, context), rtol=1e-10, atol=1e-10)
    back = MultiheadAttention.from_torch(theirs)
    torch.testing.assert_close(back(query, context), layer(query, context), rtol=1e-10, atol=1e-10)


def test_from_torch_keeps_dtype_dropout_and_training_mode():
    theirs = nn.MultiheadAttention(8, 2, dropout=0.25, dtype=torch.bfloat16).eval()
    ours = MultiheadAttention.from_torch(theirs)
    assert ours.spec.dropout == ours.to_torch().dropout == 0.25
    assert {p.dtype for p in ours.parameters()} == {torch.bfloat16}
    assert not ours.training


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: MultiheadAttention(8, 3, 4).to_torch(), "heads\\*rank == dim"),
        (lambda: MultiheadAttention(8, 2, 4, value_rank=3).to_torch(), "value_rank=3"),
        (lambda: MultiheadAttention(8, 2, 4, causal=True).to_torch(), "causal=True"),
        (lambda: MultiheadAttention.from_torch(nn.MultiheadAttention(8, 2, add_bias_kv=True)), "add_bias_kv=False"),
        (lambda: MultiheadAttention.from_torch(nn.MultiheadAttention(8, 2, kdim=3, vdim=4)), "kdim == vdim"),
    ],
)
def test_what_torch_cannot_be_is_said(make, message):
    with pytest.raises(InvalidInputError, match=message):
        make()


def test_factored_forms_give_the_layers_own_scores_and_outputs():
    layer = randomised(MultiheadAttention(7, 4, 3, value_rank=2, kv_heads=2, context_dim=5, bias=False, dtype=DOUBLE))
    query, context = draw(1, 6, 7), draw(1, 9, 5, seed=2)
    output, weights = layer(query, context, return_weights=True)
    rebuilt = torch.zeros_like(output)
    for h in range(4):
        scores = layer.score_scale(h) * query @ layer.qk(h).dense() @ context.mT
        torch.testing.assert_close(scores.softmax(-1), weights[:, h])
        rebuilt += weights[:, h] @ context @ layer.ov(h).dense().mT
    torch.testing.assert_close(rebuilt, output)
    assert layer.qk(3).shape == (7, 5)
    assert layer.qk(3).rank() == 3
    assert layer.ov(3).rank() == 2


def test_qk_norm_makes_scores_blind_to_the_length_of_queries():
    layer = MultiheadAttention(6, 2, 4, qk_norm=True, bias=False, dtype=DOUBLE)
    query, context = draw(2, 3, 6), draw(2, 5, 6, seed=2)
    _, weights = layer(query, context, return_weights=True)
    _, longer = layer(100 * query, context, return_weights=True)
    torch.testing.assert_close(weights, longer, rtol=1e-4, atol=1e-4)


def test_rotary_scores_depend_on_the_offset_alone():
    layer = MultiheadAttention(6, 2, 4, rope=RotarySpec(base=100.0), dtype=DOUBLE)
    x = draw(1, 5, 6)
    _, here = layer(x, positions=torch.arange(5), return_weights=True)
    _, there = layer(x, positions=torch.arange(5) + 17, return_weights=True)
    torch.testing.assert_close(here, there, rtol=1e-9, atol=1e-9)
    _, moved = layer(x, positions=torch.arange(5), context_positions=torch.arange(5) + 1, return_weights=True)
    assert (here - moved).abs().max() > 1e-3


def test_hardmax_ties_go_to_the_lowest_index_and_copy_exactly():
    layer = MultiheadAttention(3, 1, 3, scores="hardmax", bias=False)
    with torch.no_grad():
        for weight in (layer.q_weight, layer.k_weight, layer.v_weight, layer.o_weight):
            weight.copy_(torch.eye(3)[None])
    context = torch.tensor([[[0.1, 0.0, 0.7], [1.0, 0.3, 0.0], [1.0, 0.2, 0.0]]])
    output, weights = layer(torch.tensor([[[1.0, 0.0, 0.0]]]), context, return_weights=True)
    assert weights[0, 0, 0].tolist() == [0.0, 1.0, 0.0]
    assert torch.equal(output[0, 0], context[0, 1])


def test_hardmax_gives_no_gradient_through_the_choice():
    layer = MultiheadAttention(4, 2, 3, scores="hardmax", temperature="learned")
    layer(torch.randn(2, 5, 4)).sum().backward()
    for chooser in (layer.q_weight, layer.k_weight, layer.q_bias, layer.log_beta):
        assert chooser.grad is None or not chooser.grad.any()
    assert layer.v_weight.grad.abs().sum() > 0


@pytest.mark.parametrize("scores", ["softmax", "hardmax"])
@pytest.mark.parametrize("keys", [4, 120])
@pytest.mark.parametrize("rank", [2, 16])
def test_a_query_that_sees_nothing_gets_zeros(scores, keys, rank):
    layer = randomised(MultiheadAttention(4, 2, rank, scores=scores))
    x = torch.randn(2, keys, 4, requires_grad=True)
    mask = torch.ones(keys, keys, dtype=torch.bool)
    mask[2] = False
    output = layer(x, mask=mask)
    assert torch.equal(output[:, 2], torch.zeros(2, 4))
    assert output.isfinite().all()
    assert (output[:, 1] != 0).all()
    output.square().sum().backward()
    assert x.grad.isfinite().all()
    assert all(p.grad.isfinite().all() for p in layer.parameters() if p.grad is not None)


EMPTY = [
    {},
    {"heads": 16, "rank": 1},
    {"rank": 32},
    {"kv_heads": 2, "value_rank": 3},
    {"causal": True},
    {"window": 3},
    {"rope": True, "qk_norm": True},
    {"scores": "hardmax"},
    {"scores": "hardmax", "causal": True},
]


@pytest.mark.parametrize("fields", EMPTY, ids=str)
def test_without_keys_there_is_nothing_to_see(fields):
    layer = randomised(MultiheadAttention(16, **{"heads": 4, "rank": 8} | fields))
    x = torch.randn(2, 5, 16, requires_grad=True)
    nothing = {"mask": torch.ones(5, 0, dtype=torch.bool), "key_padding_mask": torch.zeros(2, 0, dtype=torch.bool)}
    for masks in ({}, nothing):
        output = layer(x, x[:, :0], **masks)
        assert torch.equal(output, torch.zeros(2, 5, 16))
        output, weights = layer(x, x[:, :0], return_weights=True, **masks)
        assert torch.equal(output, torch.zeros(2, 5, 16))
        assert weights.shape == (2, layer.spec.heads, 5, 0)
        output.sum().backward()
        assert all(not p.grad.any() for p in layer.parameters() if p.grad is not None)


@pytest.mark.parametrize("fields", EMPTY, ids=str)
@pytest.mark.parametrize(("batch", "queries", "keys"), [(0, 5, 5), (0, 3, 120), (2, 0, 5), (2, 0, 120), (2, 0, 0)])
def test_empty_inputs_have_empty_outputs(fields, batch, queries, keys):
    layer = MultiheadAttention(16, **{"heads": 4, "rank": 8} | fields)
    query, context = torch.randn(batch, queries, 16), torch.randn(batch, keys, 16)
    for inputs in ((query,), (query, context)):
        seen = inputs[-1].shape[1]
        layer(*inputs).sum().backward()
        with torch.no_grad():
            assert layer(*inputs).shape == query.shape
        output, weights = layer(*inputs, return_weights=True)
        assert output.shape == query.shape
        assert weights.shape == (batch, layer.spec.heads, queries, seen)


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda a: a(torch.zeros(2, 3, 9)), ShapeError, r"query: expected \[batch, queries, dim=8\].*got \[2, 3, 9\]"),
        (lambda a: a(torch.zeros(8)), ShapeError, r"got \[8\]"),
        (lambda a: a(torch.zeros(2, 3, 8), torch.zeros(1, 3, 8)), ShapeError, r"context: expected \[batch=2"),
        (lambda a: a(torch.zeros(2, 3, 8), mask=torch.ones(3, 4, dtype=torch.bool)), ShapeError, r"mask: expected"),
        (lambda a: a(torch.zeros(2, 3, 8), mask=torch.ones(3, 1, dtype=torch.bool)), ShapeError, r"except for keys"),
        (lambda a: a(torch.zeros(2, 3, 8), mask=torch.ones(3, dtype=torch.bool)), ShapeError, r"mask: expected"),
        (lambda a: a(torch.zeros(2, 3, 8), mask=torch.ones(3, 3).int()), InvalidInputError, "mask: expected booleans"),
        (
            lambda a: a(torch.zeros(2, 3, 8), key_padding_mask=torch.ones(3, 2)),
            ShapeError,
            r"\[batch, keys\] = \[2, 3\]",
        ),
        (lambda a: a(torch.zeros(2, 3, 8), positions=torch.arange(4)), ShapeError, r"positions: .*\[tokens\] = \[3\]"),
        (lambda a: a(torch.zeros(2, 3, 8), positions=[0, 1]), ShapeError, r"positions: .* got torch.int64 \[2\]"),
        (lambda a: a(torch.zeros(2, 3, 8), positions=torch.ones(3)), ShapeError, "whole numbers .* got torch.float32"),
        (lambda a: a(torch.zeros(2, 3, 8), positions=[[0, 1, 2], [0]]), InvalidInputError, "one per token, got"),
        (lambda a: a.qk(2), InvalidInputError, "head: expected a whole number from 0 to 1, got 2"),
    ],
)
def test_what_does_not_fit_is_named(call, error, message):
    with pytest.raises(error, match=message):
        call(MultiheadAttention(8, 2, 4))


def test_self_attention_needs_one_dimension():
    with pytest.raises(InvalidInputError, match="self-attention needs context_dim = dim = 8"):
        MultiheadAttention(8, 2, 4, context_dim=5)(torch.zeros(1, 2, 8))


@pytest.mark.parametrize("rope", [False, "x", RotarySpec(dims=6)])
def test_nonsense_rope_is_refused(rope):
    with pytest.raises(InvalidInputError, match="rope"):
        MultiheadAttention(8, 2, 4, rope=rope)


def test_hardmax_refuses_nan():
    x = torch.randn(1, 3, 4)
    x[0, 1, 2] = float("nan")
    with pytest.raises(InvalidInputError, match="NaN"):
        MultiheadAttention(4, 1, 2, scores="hardmax")(x)


@pytest.mark.parametrize("spec", [
    AttentionSpec(dim=6, heads=4, rank=5, value_rank=3, kv_heads=2, temperature="learned", qk_norm=True, average=2),
    AttentionSpec(dim=6, heads=2, rank=9, context_dim=4, bias=False),
])  # fmt: skip
def test_parameters_are_counted_without_building(spec):
    assert sum(p.numel() for p in MultiheadAttention.from_spec(spec).parameters()) == spec.parameters()


def test_repr_shows_the_sizes():
    assert "dim=8, heads=2, rank=3, causal=True" in repr(MultiheadAttention(8, 2, 3, causal=True))


def test_second_derivatives_exist_where_the_weights_are_asked_for():
    layer = MultiheadAttention(3, 2, 2, dtype=DOUBLE)
    x = draw(1, 3, 3).requires_grad_()
    assert torch.autograd.gradgradcheck(lambda inputs: layer(inputs, return_weights=True)[0], (x,))
    first = torch.autograd.grad(layer(x).square().sum(), x, create_graph=True)[0]
    with pytest.raises(RuntimeError, match="once_differentiable"):
        first.sum().backward()


def test_rank_is_dim_over_heads_unless_named():
    assert MultiheadAttention(12, 3).spec == MultiheadAttention(12, 3, 4).spec
    with pytest.raises(InvalidInputError, match=r"heads: expected a divisor of dim=12 .* name the rank"):
        MultiheadAttention(12, 5)


@pytest.mark.parametrize("mask_shape", [(4, 6), (3, 4, 6), (1, 3, 4, 6)])
def test_one_sequence_needs_no_batch(mask_shape):
    layer = randomised(MultiheadAttention(6, 3, 4, rope=True, dtype=DOUBLE))
    query, context, padding = draw(4, 6), draw(6, 6, seed=2), draw(6, seed=3) > 1
    mask = draw(*mask_shape, seed=4) > -1
    full = mask[None] if mask.ndim == 3 else mask
    expected, expected_weights = layer(
        query[None], context[None], mask=full, key_padding_mask=padding[None], return_weights=True
    )
    output, weights = layer(query, context, mask=mask, key_padding_mask=padding, return_weights=True)
    assert torch.equal(output, expected[0])
    assert torch.equal(weights, expected_weights[0])
    assert torch.equal(layer(query, context, mask=mask, key_padding_mask=padding), layer(
        query[None], context[None], mask=full, key_padding_mask=padding[None])[0])  # fmt: skip


@pytest.mark.parametrize("scores", ["softmax", "hardmax"])
@pytest.mark.parametrize("keys", [8, 100], ids=["batched product", "fused kernel"])
def test_dropout_keeps_the_mean_in_training_and_is_absent_in_evaluation(scores, keys):
    layer = randomised(MultiheadAttention(4, 2, 4, scores=scores, bias=False, dropout=0.25, dtype=DOUBLE))
    one = draw(1, keys, 4)
    without = MultiheadAttention.from_spec(dataclasses.replace(layer.spec, dropout=0.0), dtype=DOUBLE)
    without.load_state_dict(layer.state_dict())
    expected = without(one)
    assert torch.equal(layer.eval()(one), expected)
    torch.manual_seed(0)
    many = layer.train()(one.expand(4000, -1, -1)) - expected
    assert many.std(0).min() > 0
    standard_errors = many.mean(0) / (many.std(0) / 4000**0.5)
    assert standard_errors.abs().max() < 5
    # the matrices that are returned are those before dropout
    torch.testing.assert_close(layer(one, return_weights=True)[1].sum(-1), torch.ones(1, 2, keys, dtype=DOUBLE))


def test_dropout_is_a_share():
    for wrong in (-0.1, 1.0, float("nan"), True):
        with pytest.raises(InvalidInputError, match="dropout: expected"):
            MultiheadAttention(4, 2, 4, dropout=wrong)


def test_numbers_that_are_added_receive_gradients():
    layer = randomised(MultiheadAttention(4, 2, 3, dtype=DOUBLE))
    x, bias = draw(1, 5, 4), draw(1, 2, 5, 5, seed=3)
    bias[0, 0, 2, 3] = float("-inf")
    bias.requires_grad_()
    layer(x, mask=bias).square().sum().backward()
    assert bias.grad.isfinite().all()
    assert bias.grad[0, 0, 2, 3] == 0
    step = torch.zeros_like(bias)
    step[0, 1, 3, 2] = 1e-6
    with torch.no_grad():
        rise = layer(x, mask=bias + step).square().sum() - layer(x, mask=bias - step).square().sum()
    torch.testing.assert_close(rise / 2e-6, bias.grad[0, 1, 3, 2], rtol=1e-6, atol=1e-8)
