import hypothesis.strategies as st
import pytest
import torch
from hypothesis import given
from transformers.models.deepseek_v3.configuration_deepseek_v3 import DeepseekV3Config
from transformers.models.deepseek_v3.modeling_deepseek_v3 import apply_rotary_pos_emb_interleave
from transformers.models.llama.modeling_llama import LlamaConfig, LlamaRotaryEmbedding, apply_rotary_pos_emb

from rankwise.errors import InvalidInputError, ShapeError
from rankwise.nn import rotate, rotation
from rankwise.spec import RotarySpec


def random(*shape, dtype=torch.float64, seed=0):
    return torch.randn(*shape, dtype=dtype, generator=torch.Generator().manual_seed(seed))


def brute_force(x, positions, base, dims, interleaved):
    """One 2x2 rotation matrix after another."""
    out = x.clone()
    for n, position in enumerate(positions):
        for i in range(dims // 2):
            angle = torch.tensor(float(position) * base ** (-2 * i / dims), dtype=torch.float64)
            c, s = angle.cos(), angle.sin()
            pair = [2 * i, 2 * i + 1] if interleaved else [i, i + dims // 2]
            out[..., n, pair] = x[..., n, pair] @ torch.stack((torch.stack((c, -s)), torch.stack((s, c)))).T
    return out


@pytest.mark.parametrize("interleaved", [False, True])
@pytest.mark.parametrize("dims", [None, 2, 6])
def test_each_pair_turns_by_its_own_angle(interleaved, dims):
    spec = RotarySpec(base=100.0, dims=dims, interleaved=interleaved)
    x = random(2, 3, 5, 10)
    positions = torch.tensor([0, 3, 7, 1, 1000])
    cos, sin = rotation(positions, spec, 10, x.dtype)
    expected = brute_force(x, positions.tolist(), 100.0, dims or 10, interleaved)
    torch.testing.assert_close(rotate(x, cos, sin, interleaved), expected, rtol=0, atol=1e-11)


def test_bit_equal_to_llama_in_float32():
    config = LlamaConfig(
        hidden_size=48, num_attention_heads=4, rope_parameters={"rope_type": "default", "rope_theta": 5e5}
    )
    q, k = random(2, 4, 9, 12, dtype=torch.float32), random(2, 4, 9, 12, dtype=torch.float32, seed=1)
    positions = torch.tensor([[0, 1, 2, 3, 4, 50, 600, 7000, 80000], list(range(9))])
    expected_q, expected_k = apply_rotary_pos_emb(q, k, *LlamaRotaryEmbedding(config)(q, positions))
    cos, sin = rotation(positions[:, None], RotarySpec(base=5e5), 12, q.dtype)
    assert torch.equal(rotate(q, cos, sin, interleaved=False), expected_q)
    assert torch.equal(rotate(k, cos, sin, interleaved=False), expected_k)


def test_equal_to_deepseek_up_to_the_order_it_writes_pairs_in():
    base = DeepseekV3Config().rope_parameters["rope_theta"]
    q, k = random(2, 4, 9, 12), random(2, 1, 9, 12, seed=1)
    cos, sin = rotation(torch.arange(9), RotarySpec(base=base), 12, q.dtype)
    doubled = [torch.cat((part, part), dim=-1)[None] for part in (cos, sin)]
    their_q, their_k = apply_rotary_pos_emb_interleave(q, k, *doubled)
    evens_then_odds = torch.cat((torch.arange(0, 12, 2), torch.arange(1, 12, 2)))
    ours_q, ours_k = rotate(q, cos, sin, interleaved=True), rotate(k, cos, sin, interleaved=True)
    assert torch.equal(ours_q[..., evens_then_odds], their_q)
    assert torch.equal(ours_k[..., evens_then_odds], their_k)
    torch.testing.assert_close(ours_q @ ours_k.mT, their_q @ their_k.mT, rtol=0, atol=1e-13)


@given(
    pairs=st.integers(1, 4),
    still=st.integers(0, 3),
    m=st.integers(0, 500),
    n=st.integers(0, 500),
    shift=st.integers(0, 500),
    interleaved=st.booleans(),
)
def test_scores_depend_on_the_offset_alone(pairs, still, m, n, shift, interleaved):
    rank = 2 * pairs + still
    spec = RotarySpec(dims=2 * pairs, interleaved=interleaved)
    q, k = random(1, rank, seed=pairs), random(1, rank, seed=still + 10)

    def turned(x, position):
        return rotate(x, *rotation(torch.tensor([position]), spec, rank, x.dtype), interleaved)

    score, shifted = turned(q, m) @ turned(k, n).T, turned(q, m + shift) @ turned(k, n + shift).T
    torch.testing.assert_close(score, shifted, rtol=0, atol=1e-10)
    torch.testing.assert_close(turned(q, m).norm(), q.norm(), rtol=1e-12, atol=0)


def test_narrow_types_keep_exact_positions_and_their_type():
    x = random(1, 12, dtype=torch.float32).bfloat16()
    cos, sin = rotation(torch.tensor([100_001]), RotarySpec(), 12, x.dtype)
    assert cos.dtype == torch.float32
    turned = rotate(x, cos, sin, interleaved=False)
    assert turned.dtype == torch.bfloat16
    expected = brute_force(x.double(), [100_001], 10_000.0, 12, interleaved=False)
    # half a unit in the last place of bfloat16 and the float32 rounding of an angle near 1e5
    torch.testing.assert_close(turned.double(), expected, rtol=2**-8, atol=0.02)


def test_too_few_coordinates_are_refused():
    cos, sin = rotation(torch.arange(3), RotarySpec(), 8, torch.float64)
    with pytest.raises(ShapeError, match="expected at least 8 coordinates"):
        rotate(random(3, 6), cos, sin, interleaved=True)
    with pytest.raises(InvalidInputError, match="choose an even rank"):
        rotation(torch.arange(3), RotarySpec(), 7, torch.float64)


def test_frequencies_of_ones_own_equal_the_base_they_come_from_and_differ_by_key_head():
    from rankwise.nn import MultiheadAttention

    base = tuple(100.0 ** (-2 * i / 4) for i in range(2))
    x = random(2, 5, 12)
    plain = MultiheadAttention(12, 4, 4, kv_heads=2, rope=RotarySpec(base=100.0), dtype=torch.float64)
    own = MultiheadAttention(12, 4, 4, kv_heads=2, rope=RotarySpec(frequencies=(base,)), dtype=torch.float64)
    each = MultiheadAttention(
        12, 4, 4, kv_heads=2, rope=RotarySpec(frequencies=(base, (3.0, 0.0))), dtype=torch.float64
    )
    own.load_state_dict(plain.state_dict())
    each.load_state_dict(plain.state_dict())
    weights = [layer(x, return_weights=True)[1] for layer in (plain, own, each)]
    torch.testing.assert_close(weights[1], weights[0])
    torch.testing.assert_close(weights[2][:, :2], weights[0][:, :2])
    assert not torch.allclose(weights[2][:, 2:], weights[0][:, 2:])


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        ({"frequencies": ()}, "rows of one length"),
        ({"frequencies": ((1.0,), (1.0, 2.0))}, "rows of one length"),
        ({"frequencies": ((float("nan"),),)}, "finite number"),
        ({"frequencies": ((1.0,),), "dims": 2}, "rope.dims: expected None"),
    ],
)
def test_frequencies_that_cannot_be_meant_are_refused(fields, said):
    with pytest.raises(InvalidInputError, match=said):
        RotarySpec(**fields)


def test_frequencies_must_fit_the_heads():
    from rankwise.spec import AttentionSpec

    with pytest.raises(InvalidInputError, match="one for each of 4 key heads, got 3"):
        AttentionSpec(dim=8, heads=4, rank=4, rope=RotarySpec(frequencies=((1.0,),) * 3))
    with pytest.raises(InvalidInputError, match="do not fit rank 2"):
        AttentionSpec(dim=8, heads=4, rank=2, rope=RotarySpec(frequencies=((1.0, 2.0),)))
