"""What each head's own choice needs: planted ranks are found, the sink and the mask are respected."""

import pytest
import torch
from torch import nn

from rankwise.models.running.attention_call import AttentionCall
from rankwise.models.running.model import running_from
from rankwise.need.measurement import NeedSettings
from rankwise.need.model import measure_model_need
from rankwise.need.per_head import head_needs
from tiny_models import tiny_model


def attention_call(queries, keys, *, causal=False, **changes):
    """What a block with these queries [T, H, N, R] and keys [T, G, N, R] would show."""
    texts, heads, count, _ = queries.shape
    visible = torch.ones(count, count).tril().bool()[None, None] if causal else None
    inputs = torch.zeros(texts, count, 4)
    shown = {
        "index": 0, "name": "x", "module": nn.Identity(), "inputs": inputs, "context": inputs, "queries": queries,
        "keys": keys, "values": keys, "scale": 1.0, "softcap": None,
        "probabilities": torch.full((texts, heads, count, count), 1 / count), "visible": visible,
    }  # fmt: skip
    return AttentionCall(**shown | changes)


def gaussian(*shape, seed=0):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed))


@pytest.mark.parametrize("causal", [False, True])
def test_a_planted_rank_is_enough_and_less_is_not(causal):
    planted = (1, 3, 8)
    queries, keys = 2 * gaussian(8, 3, 40, 8), gaussian(8, 3, 40, 8, seed=1)
    for head, rank in enumerate(planted):
        turn = torch.linalg.qr(gaussian(8, 8, seed=head)).Q
        queries[:, head] = queries[:, head] * (torch.arange(8) < rank) @ turn
    found = head_needs(attention_call(queries, keys, causal=causal))
    assert [one.head for one in found] == [0, 1, 2]
    for one, rank in zip(found, planted, strict=True):
        assert one.rank == 8
        assert rank - (rank > 3) * 2 <= one.attention <= rank
        assert one.top <= rank
        assert one.several <= rank


def test_the_sink_is_set_apart():
    """A first key that takes nearly all attention would make any cut look good."""
    queries, keys = 2 * gaussian(8, 1, 40, 8), gaussian(8, 1, 40, 8, seed=1)
    queries[..., 0] = 3.0
    plain = head_needs(attention_call(queries, keys))
    sunk = keys.clone()
    sunk[:, :, 0] = 0.0
    sunk[:, :, 0, 0] = 40.0
    assert float((queries @ sunk.mT).softmax(-1)[..., 0].mean()) > 0.95
    (with_sink,) = head_needs(attention_call(queries, sunk))
    assert with_sink.attention >= plain[0].attention - 1
    assert with_sink.attention > 4


def test_key_heads_are_shared_by_groups_and_blocks_that_show_nothing_have_none():
    queries, keys = gaussian(4, 4, 30, 6), gaussian(4, 2, 30, 6, seed=1)
    shared = head_needs(attention_call(queries, keys))
    own = head_needs(attention_call(queries, keys.repeat_interleave(2, dim=1)))
    assert shared == own
    assert head_needs(attention_call(queries, keys, scale=None)) == ()
    assert head_needs(attention_call(queries[:1], keys[:1])) == ()  # nothing to hold out
    assert head_needs(attention_call(queries, keys, context=torch.zeros(4, 30, 4))) == ()


@pytest.mark.parametrize("name", ["bert", "llama", "gemma3"])
def test_heads_of_real_architectures_are_measured(name):
    running = running_from(tiny_model(name).eval(), objective="causal" if name != "bert" else "embedding")
    tokens = torch.randint(0, 50, (12, 20), generator=torch.Generator().manual_seed(0))
    found = measure_model_need(running, tokens, settings=NeedSettings(steps=0, questions=1000), blocks=[1])
    heads = found[0].heads
    assert [one.head for one in heads] == list(range(len(heads)))
    assert len(heads) > 1
    for one in heads:
        assert min(one.top, one.several, one.attention) >= 1
        assert max(one.top, one.several, one.attention) <= one.rank
