"""A token asked alone, with its position, gets what it gets in the full pass."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from rankwise.nn import MultiheadAttention

sizes = st.fixed_dictionaries(
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
