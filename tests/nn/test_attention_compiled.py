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
    x, key_mask = torch.randn(2, 7, 16), torch.rand(2, 7) > .3
    expected = layer(x, key_mask=key_mask)
    got = torch.compile(layer, fullgraph=True, backend={backend!r})(x, key_mask=key_mask)
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
