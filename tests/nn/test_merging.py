from rankwise.nn.merging import merged_scores_pay, merged_values_pay
from rankwise.spec import AttentionSpec, RotarySpec

SIZES = (64, 64, 16, 16)


def test_full_rank_pays_and_low_rank_does_not():
    full, low = (AttentionSpec(dim=64, heads=64, rank=rank) for rank in (64, 8))
    assert merged_scores_pay(full, SIZES)
    assert merged_values_pay(full, SIZES)
    assert not merged_scores_pay(low, SIZES)
    assert not merged_values_pay(low, SIZES)


def test_a_tiny_batch_does_not_repay_the_product_of_the_weights():
    spec = AttentionSpec(dim=64, heads=4, rank=64)
    assert not merged_scores_pay(spec, (1, 4, 1, 1))


def test_shared_keys_make_rank_cheap():
    spec = AttentionSpec(dim=64, heads=64, rank=64, kv_heads=1)
    assert not merged_scores_pay(spec, SIZES)


def test_what_stands_between_the_factors_keeps_them_apart():
    assert not merged_scores_pay(AttentionSpec(dim=64, heads=64, rank=64, rope=RotarySpec()), SIZES)
    assert not merged_scores_pay(AttentionSpec(dim=64, heads=64, rank=64, qk_norm=True), SIZES)
