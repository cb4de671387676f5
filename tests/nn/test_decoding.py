"""A token asked alone, with its position, gets what it gets in the full pass."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from rankwise.errors import InvalidInputError, ShapeError
from rankwise.nn import LatentAttention, MultiheadAttention, Transformer
from rankwise.spec import LatentSpec, ModelSpec

score_forms = st.just({}) | st.fixed_dictionaries(
    {"score_form": st.sampled_from(["block_low_rank", "monarch"]), "blocks": st.sampled_from([2, 4])}
)
low_rank_sizes = st.fixed_dictionaries(
    {
        "kv_heads": st.sampled_from([1, 2, 4]),
        "rank": st.sampled_from([2, 6, 16]),
        "value_rank": st.sampled_from([None, 3]),
        "rope": st.sampled_from([None, True]),
        "window": st.sampled_from([None, 1, 4]),
        "qk_norm": st.booleans(),
        "temperature": st.sampled_from(["fixed", "learned"]),
    }
)
sizes = st.builds(dict.__or__, low_rank_sizes, score_forms)


@settings(max_examples=60)
@given(options=sizes, tokens=st.integers(1, 9))
def test_decoding_token_by_token_equals_the_full_pass(options, tokens):
    torch.manual_seed(0)
    layer = MultiheadAttention(8, 4, causal=True, dtype=torch.float64, **options)
    x = torch.randn(2, tokens, 8, dtype=torch.float64)
    whole = layer(x)
    for at in range(tokens):
        seen = torch.arange(at + 1)
        alone = layer(x[:, at : at + 1], x[:, : at + 1], positions=seen[-1:], context_positions=seen)
        assert torch.allclose(alone[:, 0], whole[:, at], atol=1e-10)
        # also among keys that come later, which the mask must hide
        among = layer(x[:, at : at + 1], x, positions=seen[-1:], context_positions=torch.arange(tokens))
        assert torch.allclose(among[:, 0], whole[:, at], atol=1e-10)


def test_positions_may_be_lists_and_ranges():
    torch.manual_seed(0)
    layer, x = MultiheadAttention(8, 2, causal=True, rope=True), torch.randn(2, 10, 8)
    last = layer(x[:, -1:], x, positions=[9], context_positions=range(10))
    assert torch.allclose(last, layer(x)[:, -1:], atol=1e-6)
    latent = LatentAttention(
        LatentSpec(dim=8, heads=2, q_lora_rank=None, kv_lora_rank=4, qk_nope_head_dim=4, qk_rope_head_dim=2,
                   v_head_dim=4))  # fmt: skip
    assert torch.equal(latent(x, positions=[list(range(5, 15))] * 2), latent(x, positions=torch.arange(5, 15)))


@pytest.mark.parametrize("window", [None, 3])
def test_the_order_of_tokens_is_that_of_their_positions(window):
    torch.manual_seed(0)
    layer = MultiheadAttention(8, 2, 4, causal=True, window=window, rope=True, dtype=torch.float64)
    x, order = torch.randn(3, 7, 8, dtype=torch.float64), torch.randperm(7)
    assert torch.allclose(layer(x[:, order], positions=order), layer(x)[:, order], atol=1e-10)
    each = torch.stack([torch.randperm(7) for _ in range(3)])
    shuffled = torch.stack([x[b, each[b]] for b in range(3)])
    expected = torch.stack([layer(x)[b, each[b]] for b in range(3)])
    assert torch.allclose(layer(shuffled, positions=each), expected, atol=1e-10)


CLOSE = {torch.float32: 1e-5, torch.float64: 1e-10}


@torch.no_grad()
def decoded(layer, x, prompt, **options):
    """``x`` through a cache: the first ``prompt`` tokens at once, then one by one."""
    cache = layer.new_cache(len(x), x.shape[1])
    pieces = [x[:, :prompt]] if prompt else []
    pieces += list(x[:, prompt:].split(1, dim=1))
    return torch.cat([layer(piece, cache=cache, **options) for piece in pieces], dim=1)


@settings(max_examples=120)
@given(options=sizes, dtype=st.sampled_from([torch.float32, torch.float64]), data=st.data())
def test_decoding_from_a_cache_equals_the_full_pass(options, dtype, data):
    torch.manual_seed(0)
    scores = data.draw(st.sampled_from(["softmax", "hardmax"]))
    layer = MultiheadAttention(8, 4, causal=True, scores=scores, dtype=dtype, **options)
    tokens = data.draw(st.sampled_from([1, 2, 5, 9, 101]))
    x = torch.randn(2, tokens, 8, dtype=dtype)
    got = decoded(layer, x, data.draw(st.integers(0, tokens)))
    torch.testing.assert_close(got, layer(x).detach(), rtol=0, atol=CLOSE[dtype])


@settings(max_examples=60)
@given(data=st.data(), dtype=st.sampled_from([torch.float32, torch.float64]))
def test_latent_decoding_equals_the_full_pass(data, dtype):
    torch.manual_seed(0)
    size = st.integers(1, 9)
    spec = LatentSpec(
        dim=8,
        heads=data.draw(st.integers(1, 4)),
        q_lora_rank=data.draw(st.none() | size),
        kv_lora_rank=data.draw(size),
        qk_nope_head_dim=data.draw(size),
        qk_rope_head_dim=2 * data.draw(st.integers(0, 2)),
        v_head_dim=data.draw(size),
        causal=True,
        bias=data.draw(st.booleans()),
    )
    layer = LatentAttention(spec, dtype=dtype)
    x = torch.randn(2, data.draw(st.sampled_from([1, 3, 8, 99])), 8, dtype=dtype)
    got = decoded(layer, x, data.draw(st.integers(0, x.shape[1])))
    torch.testing.assert_close(got, layer(x).detach(), rtol=0, atol=CLOSE[dtype])


def test_absorbed_projections_are_used_and_equal_the_unfolded_ones(monkeypatch):
    torch.manual_seed(0)
    spec = LatentSpec(
        dim=16, heads=4, q_lora_rank=None, kv_lora_rank=12, qk_nope_head_dim=8, qk_rope_head_dim=4, v_head_dim=8,
        causal=True,
    )  # fmt: skip
    layer, x, used = LatentAttention(spec, dtype=torch.float64), torch.randn(2, 20, 16, dtype=torch.float64), []
    absorbed = layer._absorbed
    monkeypatch.setattr(layer, "_absorbed", lambda *given: used.append(given[0].shape[1]) or absorbed(*given))
    got = decoded(layer, x, 10)
    assert used == [1] * 10
    torch.testing.assert_close(got, layer(x).detach(), rtol=0, atol=1e-10)


@pytest.mark.parametrize("kind", ["ordinary", "latent"])
def test_left_padding_with_positions_of_its_own(kind):
    """Two prompts of 3 and 5 tokens, padded on the left, go on like each alone."""
    torch.manual_seed(0)
    if kind == "ordinary":
        layer = MultiheadAttention(8, 2, 4, causal=True, rope=True, window=4, dtype=torch.float64)
    else:
        layer = LatentAttention(
            LatentSpec(dim=8, heads=2, q_lora_rank=None, kv_lora_rank=4, qk_nope_head_dim=4, qk_rope_head_dim=2,
                       v_head_dim=4, causal=True), dtype=torch.float64)  # fmt: skip
    x = torch.randn(2, 9, 8, dtype=torch.float64)
    lengths = torch.tensor([3, 5])
    positions = torch.arange(9) - (5 - lengths)[:, None]
    padding = positions < 0
    cache = layer.new_cache(2, 9)
    with torch.no_grad():
        steps = [slice(0, 5), *(slice(at, at + 1) for at in range(5, 9))]
        got = [
            layer(x[:, s], cache=cache, positions=positions[:, s], key_padding_mask=padding[:, : s.stop]) for s in steps
        ]
        alone = [layer(x[b : b + 1, 5 - lengths[b] :])[0] for b in range(2)]
    got = torch.cat(got, dim=1)
    for b in range(2):
        torch.testing.assert_close(got[b, 5 - lengths[b] :], alone[b], rtol=0, atol=1e-10)


def test_cache_memory_is_what_the_sizes_say():
    layer = MultiheadAttention(16, 8, 4, value_rank=3, kv_heads=2, causal=True)
    assert layer.new_cache(5, 100).nbytes == 5 * 100 * 2 * (4 + 3) * 4
    structured = MultiheadAttention(
        16, 8, 4, value_rank=3, kv_heads=2, causal=True, score_form="block_low_rank", blocks=4
    )
    assert structured.new_cache(5, 100).nbytes == 5 * 100 * 2 * (4 + 16 + 3) * 4  # keys are (W_K x, x)
    spec = LatentSpec.deepseek_v3()
    latent = LatentAttention(spec, device="meta", dtype=torch.bfloat16)
    assert latent.new_cache(3, 10).nbytes == 3 * 10 * latent.cache_bytes_per_token
    cache = layer.new_cache(1, 100)
    pointers = [buffer.data_ptr() for buffer in cache.buffers]
    with torch.no_grad():
        for _ in range(3):
            layer(torch.randn(1, 20, 16), cache=cache)
    assert [buffer.data_ptr() for buffer in cache.buffers] == pointers
    assert repr(cache) == "TokenCache(60 of 100 tokens, batch=1, 5,600 bytes)"
    cache.clear()
    assert cache.length == 0


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda a, x, c: a(x, cache=c), InvalidInputError, "no_grad"),
        (lambda a, x, c: MultiheadAttention(8, 2)(x, cache=c), InvalidInputError, "cache: expected self-attention"),
        (lambda a, x, c: a(x, x, cache=c), InvalidInputError, "a context"),
        (lambda a, x, c: a.requires_grad_(False)(x.repeat(1, 4, 1), cache=c), InvalidInputError, "at most 6 tokens"),
        (lambda a, x, c: a.requires_grad_(False)(x[:1], cache=c), ShapeError, "expected batch 2"),
        (lambda a, x, c: MultiheadAttention(8, 4, causal=True)(x, cache=c), ShapeError, "made by this layer"),
    ],
)
def test_what_a_cache_cannot_do_is_said(call, error, message):
    layer = MultiheadAttention(8, 2, causal=True)
    with pytest.raises(error, match=message):
        call(layer, torch.randn(2, 3, 8), layer.new_cache(2, 6))


def test_positions_once_are_positions_always():
    layer = MultiheadAttention(8, 2, causal=True, rope=True).requires_grad_(False)
    cache, x = layer.new_cache(1, 6), torch.randn(1, 2, 8)
    layer(x, cache=cache, positions=torch.tensor([4, 5]))
    with pytest.raises(InvalidInputError, match="positions: expected them with every call"):
        layer(x, cache=cache)


@pytest.mark.parametrize(
    "fields",
    [
        {"positions": "rotary", "kv_heads": 1, "feedforward": 12},
        {"positions": "additive", "max_points": 9},
        {"positions": "concatenated", "max_points": 9, "position_dim": 3, "window": 2},
        {"positions": "rotary", "kv_lora_rank": 5, "rope_head_dim": 2, "norm_place": "pre"},
    ],
    ids=str,
)
def test_a_stack_decodes_token_by_token(fields):
    torch.manual_seed(0)
    model = Transformer(ModelSpec(dim=8, layers=3, heads=2, rank=4, causal=True, **fields), dtype=torch.float64)
    x = torch.randn(2, 9, 8, dtype=torch.float64)
    with torch.no_grad():
        cache = model.new_cache(2, 9)
        got = torch.cat([model(piece, cache=cache) for piece in (x[:, :4], *x[:, 4:].split(1, dim=1))], dim=1)
        torch.testing.assert_close(got, model(x), rtol=0, atol=1e-10)
