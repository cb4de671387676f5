"""The layer under ``torch.compile`` and ``torch.export``.

These run in a fresh interpreter: the shape checks that pytest installs would be traced along with the layer.
"""

import subprocess
import sys

import pytest

SPECS = {
    "softmax": "16, 4, 3, value_rank=5, kv_heads=2, temperature='learned'",
    "causal_window": "16, 4, 4, causal=True, window=3",
    "rotary": "16, 2, 8, rope=True, qk_norm=True, causal=True",
    "hardmax": "16, 3, 4, scores='hardmax'",
    "merged": "16, 2, 32",
}

COMPILED = """
import torch
from rankwise.nn import MultiheadAttention
torch.manual_seed(0)
for name, layer in dict({layers}).items():
    for p in layer.parameters(): torch.nn.init.normal_(p, std=.3)
    x, padding = torch.randn(2, 7, 16), torch.rand(2, 7) < .3
    expected = layer(x, key_padding_mask=padding)
    got = torch.compile(layer, fullgraph=True, backend={backend!r})(x, key_padding_mask=padding)
    torch.testing.assert_close(got, expected, rtol=1e-5, atol=1e-5, msg=lambda m: name + m)
    got.sum().backward()
"""

EXPORTED = """
import torch
from rankwise.nn import MultiheadAttention
torch.manual_seed(0)
for name, layer in dict({layers}).items():
    free = {{"query": {{0: torch.export.Dim.AUTO, 1: torch.export.Dim.AUTO}}}}
    program = torch.export.export(layer, (torch.randn(2, 7, 16),), dynamic_shapes=free)
    other = torch.randn(5, 130, 16)
    torch.testing.assert_close(program.module()(other), layer(other), rtol=1e-5, atol=1e-5, msg=lambda m: name + m)
"""


DECODED = """
import torch
from torch._dynamo.testing import CompileCounterWithBackend
from rankwise.nn import LatentAttention, MultiheadAttention
from rankwise.spec import LatentSpec
torch.manual_seed(0)
latent = LatentSpec(dim=16, heads=4, q_lora_rank=None, kv_lora_rank=6, qk_nope_head_dim=8, qk_rope_head_dim=4,
                    v_head_dim=8, causal=True)
ordinary = MultiheadAttention(16, 4, 4, kv_heads=2, causal=True, rope=True)
for layer in (ordinary, LatentAttention(latent)):
    layer.requires_grad_(False)
    counter = CompileCounterWithBackend({backend!r})
    step = torch.compile(layer, fullgraph=True, backend=counter)
    x, cache = torch.randn(2, 120, 16), layer.new_cache(2, 120)
    with torch.no_grad():
        got = torch.cat([step(piece, cache=cache) for piece in x.split(1, dim=1)], dim=1)
        torch.testing.assert_close(got, layer(x), rtol=1e-5, atol=1e-5)
    assert counter.frame_count <= 3, f"compiled {{counter.frame_count}} times for 120 tokens"
    torch._dynamo.reset()
"""


def run(script, **options):
    layers = ", ".join(f"{name}=MultiheadAttention({arguments})" for name, arguments in SPECS.items())
    command = [sys.executable, "-c", script.format(layers=layers, **options)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=500, check=False)
    assert done.returncode == 0, done.stderr[-3000:]


def test_compiles_into_one_graph():
    run(COMPILED, backend="aot_eager")


@pytest.mark.slow
def test_compiles_with_inductor():
    run(COMPILED, backend="inductor")


def test_exports_with_free_batch_size_and_length():
    run(EXPORTED)


def test_decoding_compiles_a_few_times_not_once_per_token():
    run(DECODED, backend="aot_eager")
