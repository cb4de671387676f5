"""A layer exported to transformers gives our numbers, or is refused by name."""

import pytest
import torch
from transformers import AutoModel

from rankwise.errors import InvalidInputError
from rankwise.nn import MultiheadAttention, Transformer
from rankwise.nn.transformers_export import export_attention, export_transformer, head_dim_config
from rankwise.spec import AttentionSpec, ModelSpec, RotarySpec

TOKENS = 13


def randomised(module, seed=0):
    generator = torch.Generator().manual_seed(seed)
    for parameter in module.parameters():
        torch.nn.init.normal_(parameter, mean=float(parameter.ndim == 1) * 0.5, std=0.3, generator=generator)
    return module.eval()


def assert_same_layer(layer, **options):
    """Through the whole exported model's machinery: masks, positions, kernels."""
    target = export_attention(layer, **options)
    model = AutoModel.from_config(target.config)
    x = torch.randn(2, TOKENS, layer.spec.dim, generator=torch.Generator().manual_seed(1))
    visible = torch.ones(TOKENS, TOKENS, dtype=torch.bool).tril()
    if layer.spec.window is not None:
        visible = visible.triu(1 - layer.spec.window)
    with torch.no_grad():
        places = model.rotary_emb(x, torch.arange(TOKENS)[None])
        theirs = target(x, position_embeddings=places, attention_mask=visible[None, None])[0]
        torch.testing.assert_close(theirs, layer(x), rtol=1e-5, atol=1e-5)
    return target.config


@pytest.mark.parametrize("bias", [False, True])
@pytest.mark.parametrize("kv_heads", [1, 2, 4])
@pytest.mark.parametrize("rank", [2, 6, 30])
def test_llama(rank, kv_heads, bias):
    layer = MultiheadAttention(24, 4, rank, kv_heads=kv_heads, rope=500.0, causal=True, bias=bias)
    config = assert_same_layer(randomised(layer))
    assert (config.model_type, config.head_dim, config.hidden_size) == ("llama", rank, 24)
    assert config.rope_parameters["rope_theta"] == 500.0


@pytest.mark.parametrize(
    ("options", "kind"),
    [
        ({"rope": True, "temperature": "learned"}, "llama"),
        ({"rope": RotarySpec(interleaved=True)}, "llama"),
        ({"rope": True, "average": 2}, "llama"),
        ({}, "smollm3"),
        ({"rope": True, "window": 4}, "smollm3"),
        ({"window": 4}, "smollm3"),
        ({"rope": True, "qk_norm": True}, "qwen3"),
        ({"rope": RotarySpec(interleaved=True), "qk_norm": True, "window": 5}, "qwen3"),
    ],
)
def test_what_can_be_folded_in_is(options, kind):
    layer = randomised(MultiheadAttention(24, 4, 10, kv_heads=2, causal=True, **options))
    assert assert_same_layer(layer).model_type == kind


def test_a_dim_that_heads_do_not_divide_goes_where_that_is_allowed():
    config = assert_same_layer(randomised(MultiheadAttention(25, 4, 10, rope=True, causal=True)))
    assert (config.model_type, config.hidden_size, config.num_attention_heads) == ("smollm3", 25, 4)


@pytest.mark.parametrize("rope", [True, None])
def test_a_smaller_value_rank_needs_padding(rope):
    layer = randomised(MultiheadAttention(24, 4, 10, value_rank=6, kv_heads=2, rope=rope, causal=True))
    with pytest.raises(InvalidInputError, match=r"value_rank: expected rank=10, .*got 6.*pad=True"):
        export_attention(layer)
    assert assert_same_layer(layer, pad=True).head_dim == 10


def test_a_larger_value_rank_can_be_padded_without_positions_alone():
    still = randomised(MultiheadAttention(24, 4, 6, value_rank=9, causal=True))
    assert assert_same_layer(still, pad=True).head_dim == 10
    turning = MultiheadAttention(24, 4, 6, value_rank=9, rope=True, causal=True)
    with pytest.raises(InvalidInputError, match="cannot be padded with zeros under rotary"):
        export_attention(turning, pad=True)


def test_an_odd_rank_needs_padding_too():
    layer = randomised(MultiheadAttention(24, 4, 7, causal=True))
    with pytest.raises(InvalidInputError, match=r"and that even.*pad with zeros to 8"):
        export_attention(layer)
    assert assert_same_layer(layer, pad=True).head_dim == 8


def test_one_temperature_for_all_heads_fits_the_gain_of_queries():
    layer = randomised(MultiheadAttention(24, 4, 10, rope=True, qk_norm=True, temperature="learned", causal=True))
    with pytest.raises(InvalidInputError, match="temperature: expected one for all heads with qk_norm"):
        export_attention(layer)
    torch.nn.init.constant_(layer.log_beta, 0.7)
    assert_same_layer(layer)


@pytest.mark.parametrize(
    ("options", "named"),
    [
        ({"causal": False}, "causal"),
        ({"scores": "hardmax"}, "scores"),
        ({"context_dim": 7}, "context_dim"),
        ({"rope": RotarySpec(dims=4)}, "rope"),
        ({"rope": RotarySpec(frequencies=((1.0, 0.1),))}, "rope"),
        ({"qk_norm": True}, "rope"),
    ],
)
def test_what_cannot_be_expressed_is_named(options, named):
    spec = AttentionSpec(**{"dim": 24, "heads": 4, "rank": 10, "causal": True} | options)
    with pytest.raises(InvalidInputError, match=f"^{named}: "):
        head_dim_config(spec)


STACK = {"dim": 24, "layers": 2, "heads": 4, "rank": 10, "causal": True, "norm_place": "pre", "positions": "rotary"}


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"feedforward": 40},
        {"feedforward": 40, "activation": "gelu", "bias": False, "kv_heads": 2},
        {"positions": "none", "temperature": "learned", "feedforward": 8},
        {"window": 3},
        {"qk_norm": True},
    ],
)
def test_a_whole_stack(options, tmp_path):
    model = randomised(Transformer(ModelSpec(**STACK | options)))
    x = torch.randn(2, TOKENS, 24, generator=torch.Generator().manual_seed(1))
    exported = export_transformer(model)
    with torch.no_grad():
        expected = model(x)
        torch.testing.assert_close(exported(inputs_embeds=x).last_hidden_state, expected, rtol=1e-5, atol=1e-5)
        exported.save_pretrained(tmp_path)
        again = AutoModel.from_pretrained(tmp_path)
        assert again.config.head_dim == 10
        torch.testing.assert_close(again(inputs_embeds=x).last_hidden_state, expected, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize(
    "options",
    [
        {"norm": "unit"},
        {"norm_place": "post"},
        {"residual": "none"},
        {"residual": "learned"},
        {"positions": "additive", "max_points": 16},
        {"kv_lora_rank": 8, "rope_head_dim": 4},
        {"qk_norm": True, "feedforward": 8},
    ],
)
def test_a_stack_that_cannot_be_expressed_is_named(options):
    named = next(iter(options)) if "feedforward" not in options else "feedforward"
    with pytest.raises(InvalidInputError, match=f"^{named}: .*cannot hold it"):
        head_dim_config(ModelSpec(**STACK | options))
