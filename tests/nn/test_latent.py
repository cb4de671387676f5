import subprocess
import sys
from dataclasses import replace

import hypothesis.strategies as st
import pytest
import torch
from hypothesis import given, settings
from torch import nn
from transformers.models.deepseek_v2 import modeling_deepseek_v2 as v2
from transformers.models.deepseek_v3 import modeling_deepseek_v3 as v3

from rankwise.errors import InvalidInputError, ShapeError
from rankwise.nn import LatentAttention
from rankwise.spec import LatentSpec, RotarySpec

# every size differs
SPEC = LatentSpec(
    dim=21,
    heads=3,
    q_lora_rank=11,
    kv_lora_rank=9,
    qk_nope_head_dim=5,
    qk_rope_head_dim=6,
    v_head_dim=7,
    rope=RotarySpec(base=500.0, interleaved=True),
)
B, N = 2, 8


def generator(seed=0):
    return torch.Generator().manual_seed(seed)


def tokens(batch=B, count=N, spec=SPEC, seed=0, dtype=torch.float64):
    return torch.randn(batch, count, spec.dim, dtype=dtype, generator=generator(seed))


def layer(spec=SPEC, dtype=torch.float64, seed=1):
    """A layer whose every parameter, norm gains and biases included, is random."""
    module = LatentAttention(spec, dtype=dtype)
    with torch.no_grad():
        for parameter in module.parameters():
            parameter.copy_(torch.randn(parameter.shape, dtype=dtype, generator=generator(seed)) / 2)
            seed += 1
    return module


@pytest.fixture
def everything_in_float64(monkeypatch):
    """transformers upcasts norms, softmax and rotary angles to float32; here each float32 it names reads as float64."""
    for name in ("float32", "float"):
        monkeypatch.setattr(torch, name, torch.float64)
    # the copy that a conversion would have made: view_as_complex needs it
    monkeypatch.setattr(torch.Tensor, "float", lambda tensor: tensor.double().contiguous())


def config_of(family, spec):
    interleaved = {"rope_interleave": spec.rope.interleaved} if family is v3 else {}
    config = (family.DeepseekV3Config if family is v3 else family.DeepseekV2Config)(
        hidden_size=spec.dim,
        num_attention_heads=spec.heads,
        num_key_value_heads=spec.heads,
        q_lora_rank=spec.q_lora_rank,
        kv_lora_rank=spec.kv_lora_rank,
        qk_nope_head_dim=spec.qk_nope_head_dim,
        qk_rope_head_dim=spec.qk_rope_head_dim,
        v_head_dim=spec.v_head_dim,
        attention_bias=spec.bias,
        rope_parameters={"rope_type": "default", "rope_theta": spec.rope.base},
        **interleaved,
    )
    config._attn_implementation = "eager"
    return config


def theirs(family, spec, seed=2, dtype=torch.float64):
    """transformers' attention with random weights, and a function x -> (output, weights)."""
    config = config_of(family, spec)
    attention = (v3.DeepseekV3Attention if family is v3 else v2.DeepseekV2Attention)(config, layer_idx=0).to(dtype)
    angles = (v3.DeepseekV3RotaryEmbedding if family is v3 else v2.DeepseekV2RotaryEmbedding)(config)
    with torch.no_grad():
        for parameter in attention.parameters():
            parameter.copy_(torch.randn(parameter.shape, dtype=dtype, generator=generator(seed)) / 2)
            seed += 1

    def run(x, visible, positions):
        bias = torch.zeros(visible.shape, dtype=x.dtype).masked_fill(~visible, -torch.inf)[None, None]
        return attention(x, position_embeddings=angles(x, positions), attention_mask=bias)

    return attention, run


@pytest.mark.usefixtures("everything_in_float64")
@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("bias", [False, True])
@pytest.mark.parametrize("q_lora_rank", [11, None])
@pytest.mark.parametrize(("family", "interleaved"), [(v3, True), (v3, False), (v2, True)], ids=["v3", "v3-half", "v2"])
def test_equal_to_transformers(family, interleaved, q_lora_rank, bias, causal):
    rope = replace(SPEC.rope, interleaved=interleaved)
    spec = replace(SPEC, q_lora_rank=q_lora_rank, bias=bias, causal=causal, rope=rope)
    attention, run = theirs(family, spec)
    ours = LatentAttention.from_transformers(attention.state_dict(), spec)
    x = tokens().requires_grad_()
    positions = torch.stack((torch.arange(N), torch.arange(N) + 40))
    visible = torch.ones(N, N, dtype=torch.bool).tril(0 if causal else N)
    output, weights = run(x, visible, positions)
    (expected_gradient,) = torch.autograd.grad(output.square().sum(), x)

    fused = ours(x, positions=positions)
    (gradient,) = torch.autograd.grad(fused.square().sum(), x)
    explicit, own_weights = ours(x, positions=positions, return_weights=True)
    torch.testing.assert_close(fused, output, rtol=0, atol=1e-10)
    torch.testing.assert_close(explicit, output, rtol=0, atol=1e-10)
    torch.testing.assert_close(own_weights, weights, rtol=0, atol=1e-12)
    torch.testing.assert_close(gradient, expected_gradient, rtol=1e-10, atol=1e-10)
    assert sum(p.numel() for p in attention.parameters()) == spec.parameters()


def test_equal_to_transformers_as_shipped_within_float32():
    attention, run = theirs(v3, SPEC, dtype=torch.float32)
    ours = LatentAttention.from_transformers(attention.state_dict(), SPEC)
    x = tokens(dtype=torch.float32)
    output, _ = run(x, torch.ones(N, N, dtype=torch.bool), torch.arange(N)[None])
    torch.testing.assert_close(ours(x), output, rtol=1e-5, atol=1e-5 * output.abs().max().item())


@pytest.mark.parametrize("q_lora_rank", [11, None])
@pytest.mark.parametrize("bias", [False, True])
def test_weights_make_the_round_trip(q_lora_rank, bias):
    spec = replace(SPEC, q_lora_rank=q_lora_rank, bias=bias)
    module = layer(spec)
    attention, _ = theirs(v3, spec)
    attention.load_state_dict(module.to_transformers())
    back = LatentAttention.from_transformers(attention.state_dict(), spec)
    assert all(torch.equal(a, b) for a, b in zip(module.parameters(), back.parameters(), strict=True))
    assert sum(p.numel() for p in module.parameters()) == spec.parameters()


def test_loading_keeps_type_and_device_and_owns_its_memory():
    state = layer(dtype=torch.bfloat16).to_transformers()
    module = LatentAttention.from_transformers(state, SPEC)
    assert {p.dtype for p in module.parameters()} == {torch.bfloat16}
    with torch.no_grad():
        module.out.weight.zero_()
    assert state["o_proj.weight"].abs().sum() > 0


def test_loading_says_what_does_not_fit():
    state = layer().to_transformers()
    with pytest.raises(InvalidInputError, match=r"missing \['q_proj.weight'\], unexpected .*'q_b_proj.weight'"):
        LatentAttention.from_transformers(state, replace(SPEC, q_lora_rank=None))
    with pytest.raises(ShapeError, match=r"kv_b_proj.weight: expected \[39, 9\].*got \[36, 9\]"):
        LatentAttention.from_transformers(state, replace(SPEC, v_head_dim=8))
    integers = {name: tensor.long() for name, tensor in state.items()}
    with pytest.raises(InvalidInputError, match=r"expected floating-point weights, got torch\.int64"):
        LatentAttention.from_transformers(integers, SPEC)


def oracle(module, x, visible, positions):
    """One head, one query, one key at a time, from the effective bilinear forms and complex rotations."""
    spec, (batch, count, _) = module.spec, x.shape

    def rms(latent):
        return (latent.square().mean() + spec.norm_eps).sqrt()

    def turned(pairs, position):
        half = len(pairs) // 2
        frequencies = spec.rope.base ** (-torch.arange(half, dtype=torch.float64) / half)
        a, b = (pairs[0::2], pairs[1::2]) if spec.rope.interleaved else (pairs[:half], pairs[half:])
        return torch.complex(a, b) * torch.polar(torch.ones(half, dtype=torch.float64), position * frequencies)

    query_size = spec.q_lora_rank or 0
    output, weights = torch.zeros_like(x), x.new_zeros(batch, spec.heads, count, count)
    for b in range(batch):
        low = x[b] @ module.down.weight.T
        for h in range(spec.heads):
            nope, rope, ov = module.qk_nope(h).dense(), module.qk_rope(h), module.ov(h).dense()
            for i in range(count):
                seen = [j for j in range(count) if visible[b, h, i, j]]
                if not seen:
                    continue
                by_query = rms(low[i, :query_size]) if query_size else 1.0
                by_key = [rms(low[j, query_size : query_size + spec.kv_lora_rank]) for j in range(count)]
                query = turned(rope.left.T @ x[b, i], positions[b, i].double())
                scores = torch.stack(
                    [
                        x[b, i] @ nope @ x[b, j] / by_query / by_key[j]
                        + (query * turned(rope.right @ x[b, j], positions[b, j].double()).conj()).sum().real / by_query
                        for j in seen
                    ]
                )
                weights[b, h, i, seen] = (scores / spec.score_dim**0.5).softmax(0)
                for j in seen:
                    output[b, i] += weights[b, h, i, j] * (ov @ x[b, j]) / by_key[j]
    return output, weights


@settings(max_examples=25)
@given(data=st.data())
def test_equal_to_a_plain_oracle_for_every_shape_and_mask(data):
    size = st.integers(1, 5)
    spec = LatentSpec(
        dim=data.draw(size),
        heads=data.draw(st.integers(1, 3)),
        q_lora_rank=data.draw(st.none() | size),
        kv_lora_rank=data.draw(size),
        qk_nope_head_dim=data.draw(size),
        qk_rope_head_dim=2 * data.draw(st.integers(0, 2)),
        v_head_dim=data.draw(size),
        rope=RotarySpec(base=50.0, interleaved=data.draw(st.booleans())),
        causal=data.draw(st.booleans()),
    )
    batch, count, seed = data.draw(st.integers(1, 2)), data.draw(st.integers(1, 4)), data.draw(st.integers(0, 99))
    shapes = [
        (count, count), (batch, count, count), (batch, 1, count), (batch, spec.heads, count, count),
        (batch, 1, count, count), (batch, spec.heads, 1, count), (batch, 1, 1, count),
    ]  # fmt: skip
    shape = data.draw(st.sampled_from(shapes))
    mask = torch.rand(shape, generator=generator(seed)) < 0.6
    padding = torch.rand(batch, count, generator=generator(seed + 1)) > 0.8
    positions = torch.randint(0, 20, (batch, count), generator=generator(seed))
    visible = mask if mask.ndim == 4 else mask[:, None] if mask.ndim == 3 else mask[None, None]
    visible = visible & ~padding[:, None, None]
    if spec.causal:
        visible = visible & (positions[:, None, :, None] >= positions[:, None, None, :])
    visible = visible.expand(batch, spec.heads, count, count)

    module, x = layer(spec, seed=seed), tokens(batch, count, spec, seed)
    expected, expected_weights = oracle(module, x, visible, positions)
    output, weights = module(x, mask=mask, key_padding_mask=padding, positions=positions, return_weights=True)
    torch.testing.assert_close(output, expected, rtol=1e-9, atol=1e-10)
    torch.testing.assert_close(weights, expected_weights, rtol=1e-9, atol=1e-10)
    fused = module(x, mask=mask, key_padding_mask=padding, positions=positions)
    torch.testing.assert_close(fused, expected, rtol=1e-9, atol=1e-10)


@pytest.mark.parametrize("bias", [False, True])
@pytest.mark.parametrize("causal", [False, True])
def test_a_row_that_sees_nothing_is_zero_with_finite_gradients(bias, causal):
    module = layer(replace(SPEC, bias=bias, causal=causal))
    mask = torch.rand(B, N, N, generator=generator(5)) < 0.7
    mask[0, 3] = False
    mask[1, 0] = False
    x = tokens().requires_grad_()
    for return_weights in (False, True):
        result = module(x, mask=mask, return_weights=return_weights)
        output = result[0] if return_weights else result
        assert torch.equal(output[0, 3], torch.zeros(SPEC.dim, dtype=torch.float64))
        assert torch.equal(output[1, 0], torch.zeros(SPEC.dim, dtype=torch.float64))
        assert output[0, 2].abs().min() > 0
        if return_weights:
            assert result[1][0, :, 3].abs().max() == 0
        (gradient,) = torch.autograd.grad(output.square().sum(), x)
        assert gradient.isfinite().all()


@pytest.mark.parametrize(("batch", "count"), [(0, 5), (0, 120), (2, 0)])
@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("heads", [2, 16])
def test_empty_inputs_have_empty_outputs(batch, count, causal, heads):
    module = layer(replace(SPEC, causal=causal, heads=heads))
    x = torch.zeros(batch, count, SPEC.dim, dtype=torch.float64)
    module(x).sum().backward()
    assert module(x).shape == x.shape
    output, weights = module(x, return_weights=True)
    assert output.shape == x.shape
    assert weights.shape == (batch, heads, count, count)


def test_a_head_may_be_blind_alone():
    module = layer()
    mask = torch.ones(1, SPEC.heads, 1, N, dtype=torch.bool)
    mask[:, 1] = False
    x = tokens()
    _, weights = module(x, return_weights=True)
    attended = weights @ module._unfolded(*module._latents(x, torch.arange(N)[None]))[2].transpose(1, 2)
    attended[:, 1] = 0
    torch.testing.assert_close(module(x, mask=mask), module.out(attended.transpose(1, 2).flatten(2)))


@pytest.mark.parametrize("value_dim", [7, 15])  # below and above the score dimension 11
@pytest.mark.parametrize("causal", [False, True])
def test_long_inputs_agree_with_their_attention_matrix(value_dim, causal):
    """Long enough for the fused kernel, whose widths must be padded to one."""
    module, x = layer(replace(SPEC, v_head_dim=value_dim, causal=causal)), tokens(count=150)
    explicit, _ = module(x, return_weights=True)
    torch.testing.assert_close(module(x), explicit, rtol=1e-10, atol=1e-11)
    mask = torch.rand(B, SPEC.heads, 150, 150, generator=generator(3)) < 0.5
    mask[0, :, 10] = False
    explicit, _ = module(x, mask=mask, return_weights=True)
    torch.testing.assert_close(module(x, mask=mask), explicit, rtol=1e-10, atol=1e-11)
    assert module(x, mask=mask)[0, 10].abs().max() == 0


def test_only_relative_positions_count():
    module, x = layer(), tokens()
    torch.testing.assert_close(module(x, positions=torch.arange(N) + 100), module(x), rtol=1e-9, atol=1e-10)
    assert not torch.allclose(module(x, positions=torch.arange(N) * 2), module(x))


def test_effective_forms_have_the_rank_the_spec_says():
    module = layer()
    for head in range(SPEC.heads):
        assert module.qk_nope(head).shape == module.qk_rope(head).shape == module.ov(head).shape == (21, 21)
        assert int(module.qk_nope(head).rank()) == SPEC.qk_nope_head_dim
        assert int(module.qk_rope(head).rank()) == SPEC.qk_rope_head_dim
        assert int(module.ov(head).rank()) == SPEC.v_head_dim
    with pytest.raises(InvalidInputError, match=r"head: expected 0 .. 2, got 3"):
        module.ov(3)


def test_cache_bytes_follow_the_type():
    assert layer(dtype=torch.float64).cache_bytes_per_token == (9 + 6) * 8
    assert LatentAttention(LatentSpec.deepseek_v3(), device="meta", dtype=torch.bfloat16).cache_bytes_per_token == 1152


def test_deepseek_v3_has_as_many_parameters_as_counted():
    spec = LatentSpec.deepseek_v3()
    assert sum(p.numel() for p in LatentAttention(spec, device="meta").parameters()) == spec.parameters()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"x": torch.zeros(N, 1, 1, 21)}, r"x: expected \[batch, tokens, dim\] = \[B, N, 21\], got \[8, 1, 1, 21\]"),
        ({"x": torch.zeros(B, N, 19)}, r"got \[2, 8, 19\]"),
        ({"mask": torch.ones(N, N).int()}, "mask: expected booleans"),
        ({"mask": torch.ones(N, N + 1, dtype=torch.bool)}, r"mask: expected \[queries, keys\] = \[8, 8\]"),
        ({"mask": torch.ones(B, 2, N, N, dtype=torch.bool)}, "mask: expected"),
        ({"key_padding_mask": torch.ones(N, B, dtype=torch.bool)}, r"key_padding_mask: expected \[batch, keys\]"),
        ({"positions": torch.zeros(B, N)}, r"positions: expected whole numbers .* got torch.float32 \[2, 8\]"),
        ({"positions": torch.zeros(N + 1, dtype=torch.long)}, r"positions: expected .* got torch.int64 \[9\]"),
    ],
)
def test_wrong_inputs_are_refused_by_name(arguments, message):
    x = arguments.pop("x", torch.zeros(B, N, 21))
    with pytest.raises(InvalidInputError, match=message):
        LatentAttention(SPEC)(x, **arguments)


def test_a_spec_is_required():
    with pytest.raises(InvalidInputError, match="expected a LatentSpec, got dict"):
        LatentAttention({"dim": 4})


def test_exports_with_dynamic_sizes():
    module = layer(replace(SPEC, causal=True), dtype=torch.float32).eval()
    # lengths on one side of the threshold between the batched product and the fused kernel
    sizes = {0: torch.export.Dim("batch"), 1: torch.export.Dim("tokens", min=128, max=4096)}
    exported = torch.export.export(module, (tokens(2, 150, dtype=torch.float32),), dynamic_shapes=(sizes,))
    longer = tokens(3, 201, dtype=torch.float32)
    torch.testing.assert_close(exported.module()(longer), module(longer), rtol=1e-5, atol=1e-5)


def test_trains():
    module = LatentAttention(replace(SPEC, causal=True))
    head = nn.Linear(SPEC.dim, 1)
    x = tokens(16, dtype=torch.float32)
    target = x[:, :1, :1].expand(-1, N, -1)  # what the first token said
    optimizer = torch.optim.Adam([*module.parameters(), *head.parameters()], lr=1e-2)
    losses = []
    for _ in range(100):
        loss = (head(module(x)) - target).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    assert losses[-1] < 0.1 * losses[0]


def test_compiles_without_a_graph_break():
    """In a process of its own: the shape checks of the tests are not compilable, and users do not have them."""
    program = """
import torch
from rankwise.nn import LatentAttention
from rankwise.spec import LatentSpec
spec = LatentSpec(dim=8, heads=2, q_lora_rank=4, kv_lora_rank=5, qk_nope_head_dim=3, qk_rope_head_dim=2, v_head_dim=6,
                  causal=True)
layer, x, mask = LatentAttention(spec), torch.randn(3, 7, 8), torch.rand(7, 7) < 0.5
compiled = torch.compile(layer, fullgraph=True, backend="aot_eager")
torch.testing.assert_close(compiled(x), layer(x))
torch.testing.assert_close(compiled(x, mask=mask), layer(x, mask=mask))
compiled(x).sum().backward()
assert layer.down.weight.grad.abs().sum() > 0
"""
    subprocess.run([sys.executable, "-c", program], check=True, timeout=300)
