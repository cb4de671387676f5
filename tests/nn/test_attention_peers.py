"""Our layer with another library's weights gives that library's numbers."""

import pytest
import torch
from transformers import GPT2Config, LlamaConfig, Qwen3Config
from transformers.models.gpt2.modeling_gpt2 import GPT2Attention
from transformers.models.llama.modeling_llama import LlamaAttention, LlamaRotaryEmbedding
from transformers.models.qwen3.modeling_qwen3 import Qwen3Attention

from rankwise.nn import MultiheadAttention, rotation

BATCH, TOKENS = 2, 11


def randomised(module):
    generator = torch.Generator().manual_seed(0)
    for parameter in module.parameters():
        torch.nn.init.normal_(parameter, std=0.3, generator=generator)
    return module.double().eval()


def inputs(dim):
    return torch.randn(BATCH, TOKENS, dim, generator=torch.Generator().manual_seed(1), dtype=torch.float64)


def additive_causal_mask():
    hidden = torch.ones(TOKENS, TOKENS, dtype=torch.bool).triu(1)
    return torch.zeros(TOKENS, TOKENS, dtype=torch.float64).masked_fill(hidden, float("-inf"))[None, None]


def copy_heads(ours, theirs, heads, kv_heads):
    """(out, in) projections cut into heads."""
    with torch.no_grad():
        ours.q_weight.copy_(theirs.q_proj.weight.unflatten(0, (heads, -1)))
        ours.k_weight.copy_(theirs.k_proj.weight.unflatten(0, (kv_heads, -1)))
        ours.v_weight.copy_(theirs.v_proj.weight.unflatten(0, (kv_heads, -1)))
        ours.o_weight.copy_(theirs.o_proj.weight.mT.unflatten(0, (heads, -1)))


def test_gpt2():
    config = GPT2Config(n_embd=24, n_head=4, attn_pdrop=0.0, resid_pdrop=0.0, attn_implementation="eager")
    theirs = randomised(GPT2Attention(config, layer_idx=0))
    ours = MultiheadAttention(24, 4, 6, causal=True, dtype=torch.float64)
    with torch.no_grad():  # GPT-2 stores (in, out) and fuses q, k, v
        weights = theirs.c_attn.weight.mT.unflatten(0, (3, 4, 6))
        biases = theirs.c_attn.bias.unflatten(0, (3, 4, 6))
        for name, weight, bias in zip("qkv", weights, biases, strict=True):
            getattr(ours, f"{name}_weight").copy_(weight)
            getattr(ours, f"{name}_bias").copy_(bias)
        ours.o_weight.copy_(theirs.c_proj.weight.unflatten(0, (4, 6)))
        ours.o_bias.copy_(theirs.c_proj.bias[None])
    x = inputs(24)
    expected = theirs(x, attention_mask=additive_causal_mask())[0]
    torch.testing.assert_close(ours(x), expected, rtol=1e-10, atol=1e-10)


@pytest.mark.parametrize("kv_heads", [1, 2, 6])
@pytest.mark.parametrize("head_dim", [4, 10])
def test_llama_with_grouped_heads_rotary_positions_and_a_head_dim_of_its_own(kv_heads, head_dim):
    config = LlamaConfig(
        hidden_size=18,
        num_attention_heads=6,
        num_key_value_heads=kv_heads,
        head_dim=head_dim,
        attn_implementation="sdpa",  # "eager" takes its softmax in float32
    )
    theirs = randomised(LlamaAttention(config, layer_idx=0))
    ours = MultiheadAttention(
        18, 6, head_dim, kv_heads=kv_heads, rope=10_000.0, causal=True, bias=False, dtype=torch.float64
    )
    copy_heads(ours, theirs, 6, kv_heads)
    x = inputs(18)
    positions = torch.arange(TOKENS) + 5
    output = ours(x, positions=positions)
    rounded = LlamaRotaryEmbedding(config)(x, positions[None])  # angles in float32
    expected = theirs(x, position_embeddings=rounded, attention_mask=additive_causal_mask())[0]
    torch.testing.assert_close(output, expected, rtol=1e-5, atol=1e-5)
    cos, sin = rotation(positions, ours.spec.rope, head_dim, torch.float64)
    exact = (torch.cat((cos, cos), -1)[None], torch.cat((sin, sin), -1)[None])
    expected = theirs(x, position_embeddings=exact, attention_mask=additive_causal_mask())[0]
    torch.testing.assert_close(output, expected, rtol=1e-10, atol=1e-10)


def test_qwen3_normalises_queries_and_keys():
    config = Qwen3Config(
        hidden_size=20,
        num_attention_heads=4,
        num_key_value_heads=2,
        head_dim=8,
        layer_types=["full_attention"],
        num_hidden_layers=1,
        attn_implementation="eager",
    )
    theirs = randomised(Qwen3Attention(config, layer_idx=0))
    ours = MultiheadAttention(
        20, 4, 8, kv_heads=2, rope=10_000.0, qk_norm=True, causal=True, bias=False, dtype=torch.float64
    )
    copy_heads(ours, theirs, 4, 2)
    with torch.no_grad():
        ours.q_norm.weight.copy_(theirs.q_norm.weight)
        ours.k_norm.weight.copy_(theirs.k_norm.weight)
    x = inputs(20)
    rotary = LlamaRotaryEmbedding(LlamaConfig(hidden_size=20, num_attention_heads=4, head_dim=8))(
        x, torch.arange(TOKENS)[None]
    )
    expected = theirs(x, position_embeddings=rotary, attention_mask=additive_causal_mask())[0]
    torch.testing.assert_close(ours(x), expected, rtol=1e-5, atol=1e-5)
