from dataclasses import FrozenInstanceError, replace

import pytest

from rankwise.errors import InvalidInputError
from rankwise.spec import LatentSpec, RotarySpec

SMALL = {
    "dim": 10,
    "heads": 3,
    "q_lora_rank": 7,
    "kv_lora_rank": 5,
    "qk_nope_head_dim": 4,
    "qk_rope_head_dim": 2,
    "v_head_dim": 6,
}


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"dim": 0}, "dim: expected at least 1, got 0"),
        ({"heads": True}, "heads: expected a whole number"),
        ({"q_lora_rank": 0}, "q_lora_rank: expected at least 1, got 0"),
        ({"kv_lora_rank": 2.0}, "kv_lora_rank: expected a whole number"),
        ({"qk_rope_head_dim": 3}, "qk_rope_head_dim: expected an even number"),
        ({"qk_rope_head_dim": -2}, "qk_rope_head_dim: expected at least 0"),
        ({"rope": RotarySpec(dims=4)}, "4 rotating coordinates do not fit rank 2"),
        ({"rope": 10_000.0}, "rope: expected a RotarySpec, got 10000.0"),
        ({"causal": 1}, "causal: expected True or False"),
        ({"norm_eps": -1.0}, "norm_eps: expected a finite number"),
        ({"norm_eps": float("nan")}, "norm_eps: expected a finite number"),
    ],
)
def test_nonsense_is_refused_with_what_was_expected(fields, message):
    with pytest.raises(InvalidInputError, match=message):
        LatentSpec(**SMALL | fields)


def test_deepseek_v3_by_name():
    spec = LatentSpec.deepseek_v3()
    assert (spec.dim, spec.heads, spec.q_lora_rank, spec.kv_lora_rank) == (7168, 128, 1536, 512)
    assert (spec.qk_nope_head_dim, spec.qk_rope_head_dim, spec.v_head_dim, spec.score_dim) == (128, 64, 128, 192)
    assert spec.causal
    # the parameter count that the published weights' shapes add up to, layer norms of the block apart
    down, up = 7168 * (1536 + 576) + 1536 + 512, 128 * 192 * 1536 + 128 * 256 * 512
    assert spec.parameters() == down + up + 128 * 128 * 7168 == 187_107_328


def test_the_cache_holds_the_latent_and_one_rope_key():
    spec = LatentSpec.deepseek_v3()
    assert spec.cached_per_token == 576
    assert spec.cache_bytes_per_token() == 1152
    assert spec.cache_bytes_per_token(4) == 2304
    with pytest.raises(InvalidInputError, match="bytes_per_scalar"):
        spec.cache_bytes_per_token(0)


def test_specs_are_frozen_values():
    spec = LatentSpec(**SMALL)
    assert spec == LatentSpec(**SMALL)
    assert hash(spec) == hash(replace(spec))
    with pytest.raises(FrozenInstanceError):
        spec.dim = 3
