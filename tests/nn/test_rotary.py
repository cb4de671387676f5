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
