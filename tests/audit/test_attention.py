"""Ranks of attention on texts: by definition, beside the mask's baseline, pattern apart from content."""

import numpy as np
import pytest
import torch

from rankwise.audit.attention import (
    LayerAttention,
    _measure,
    _Pattern,
    attention_report,
    measure_attention,
)
from rankwise.audit.mask_baseline import SeenMask
from rankwise.models.running.attention_call import AttentionCall
from rankwise.models.running.model import running_from
from saved_models import tokens
from tiny_models import tiny_model


def call_of(probabilities, queries=None, keys=None):
    """A block that attended so."""
    texts, _, rows, columns = probabilities.shape
    return AttentionCall(
        index=0, name="block", module=torch.nn.Identity(), inputs=torch.zeros(texts, rows, 1),
        context=torch.zeros(texts, columns, 1), queries=queries, keys=keys, values=None, scale=1.0, softcap=None,
        probabilities=probabilities, visible=None,
    )  # fmt: skip


def layer():
    return LayerAttention(index=0, name="block", mask=SeenMask(kind="full"), queries=6, keys=6, head_dim=2, key_heads=1,
                          barrier=4.0, barrier_without_sink=3.5, uniform_entropy=np.log(6), crosses=False,
                          remark=None)  # fmt: skip


def measured(probabilities, **given):
    found = layer()
    _measure(found, call_of(probabilities, **given))
    return found


def one_hot(columns):
    return torch.eye(6)[torch.tensor(columns)]


def test_every_measure_of_a_matrix_that_is_known():
    head = measured(one_hot([0, 0, 0, 3, 4, 4])[None, None])
    values = {name: head.mean(name, 0) for name in head.measures}
    assert values["hardmax_rank"] == 3
    assert values["hardmax_rank_without_sink"] == 2  # rows 0 to 2 have nothing left
    assert values["stable_rank"] == pytest.approx(6 / 3)
    assert values["energy_90"] == 3
    assert values["rank_above_0.1"] == 3
    sizes = np.sqrt([3, 2, 1]) / np.sqrt([3, 2, 1]).sum()
    assert values["effective_rank"] == pytest.approx(np.exp(-(sizes * np.log(sizes)).sum()))
    assert values["entropy"] == pytest.approx(0, abs=1e-12)
    assert values["sink_share"] == 0.5
    assert values["max_probability"] == 1


def test_logits_know_their_rank_and_what_a_row_shares_does_not_count():
    generator = torch.Generator().manual_seed(0)
    queries, keys = torch.randn(1, 2, 6, 3, generator=generator), torch.randn(1, 1, 6, 3, generator=generator)
    keys[..., 0] = 100.0  # the same for all keys
    keys[..., 1] = 0.0
    found = measured(torch.full((1, 2, 6, 6), 1 / 6), queries=queries, keys=keys)
    for head in range(2):
        assert found.mean("logits_energy_90", head) == 1
        assert found.mean("logits_energy_99", head) == 1
        assert found.mean("centred_logits_energy_99", head) == 1
        exact = np.linalg.svd((queries[0, head] @ keys[0, 0].T).double().numpy(), compute_uv=False)
        assert (exact > 1e-5).sum() == 2


def test_pattern_and_content_are_told_apart():
    same = one_hot([1, 2, 3, 4, 5, 0])
    generator = torch.Generator().manual_seed(0)
    random = torch.stack([one_hot(torch.randint(0, 6, (6,), generator=generator).tolist()) for _ in range(200)])
    mixed = torch.where(torch.arange(200)[:, None, None] % 2 == 0, same, random)
    found = measured(torch.stack((same.expand(200, 6, 6), random, mixed), dim=1))
    assert found.fixed_share(0) == pytest.approx(1)
    assert found.fixed_share(1) < 0.02
    # half pattern, half noise, by hand: fixed |p/2 - u/2|^2 = 1.25, all 5 * (half and half) = 5
    assert found.fixed_share(2) == pytest.approx(1.25 / 5, abs=0.03)


def test_passes_of_more_texts_count_for_more():
    """The average of unbiased parts, whatever the sizes of the passes."""
    found = layer()
    found.patterns = [_Pattern(8, [4.0], [1.0]), _Pattern(2, [1.0], [8.0])]
    fixed, content = (8 * 4 + 2 * 1) / 10, (7 * 1 + 1 * 8) / 8
    assert found.fixed_share(0) == pytest.approx(fixed / (fixed + content))


def test_large_matrices_are_measured_a_few_texts_at_a_time(monkeypatch):
    running = running_from(tiny_model("gpt2"), objective="causal")
    whole = measure_attention(running, tokens(6))
    passes = []
    monkeypatch.setattr("rankwise.models.running.texts._NUMBERS_A_PASS", 3 * 5 * 12**2)
    parts = measure_attention(running, tokens(6), progress=lambda what, done, total: passes.append(total))
    assert passes[0] == 2 * len(whole)
    for one, other in zip(whole, parts, strict=True):
        assert one.measures.keys() == other.measures.keys()
        for name in one.measures:
            np.testing.assert_allclose(one.measures[name], other.measures[name], rtol=1e-4)
        assert len(other.patterns) == 2
    monkeypatch.setattr("rankwise.models.running.texts._NUMBERS_A_PASS", 1)
    assert [pattern.texts for pattern in measure_attention(running, tokens(6))[0].patterns] == [2, 2, 2]


def test_one_text_has_no_pattern_and_uniform_attention_no_share():
    assert measured(torch.full((1, 1, 6, 6), 1 / 6)).fixed_share(0) is None
    assert measured(torch.full((3, 1, 6, 6), 1 / 6)).fixed_share(0) is None


@pytest.mark.parametrize(
    ("name", "kinds"), [("bert", ["full"] * 2), ("llama", ["causal"] * 2), ("gemma2", ["window", "causal"]),
                        ("falcon-grouped", ["causal"] * 2)],
)  # fmt: skip
def test_every_layer_gets_the_baseline_of_its_mask(name, kinds):
    running = running_from(
        tiny_model(name, **({"sliding_window": 5} if name == "gemma2" else {})), objective="embedding"
    )
    steps = []
    layers = measure_attention(running, tokens(texts=10), progress=lambda what, *step: steps.append(step))
    assert [one.mask.kind for one in layers] == kinds
    assert steps == [(1, 4), (2, 4), (3, 4), (4, 4)]  # ten texts go through two layers in two passes
    report = attention_report(layers, texts=10, source=["a"])
    for kind, entry in zip(kinds, report.layers, strict=True):
        barriers = {"full": 12 * (1 - (11 / 12) ** 12), "causal": 6.5}
        assert entry.baseline.barrier == pytest.approx(barriers.get(kind, entry.baseline.barrier))
        assert (entry.window is not None) == (kind == "window")
        without = {"full": 11 * (1 - (10 / 11) ** 12), "causal": 6.0}
        expected = without.get(kind, entry.baseline.barrier_without_sink)
        assert entry.baseline.barrier_without_sink == pytest.approx(expected)
        for head in entry.heads:
            assert 1 <= head.mean["hardmax_rank"] <= 12
            assert head.spread["hardmax_rank"] >= 0
            assert 0 <= head.fixed_share <= 1


def test_heads_of_one_coordinate_are_measured_too():
    running = running_from(tiny_model("gpt2", n_embd=8, n_head=8), objective="causal")
    document = attention_report(measure_attention(running, tokens()), texts=3, source=["drawn"])
    assert document.layers[0].head_dim == 1
    assert document.layers[0].baseline.random_head is None


def test_heads_that_share_keys_are_told_and_random_ones_lie_at_the_baseline():
    model = tiny_model("llama", hidden_size=96, num_attention_heads=12, num_key_value_heads=4, head_dim=64, seed=3)
    running = running_from(model, objective="embedding")
    layers = measure_attention(running, tokens(texts=6, length=48, vocabulary=50))
    heads = attention_report(layers, texts=6, source=[]).layers[0].heads
    assert [head.key_head for head in heads] == [h // 3 for h in range(12)]


def test_heads_are_measured_on_one_thread_each(monkeypatch):
    seen = []
    svdvals = torch.linalg.svdvals

    def noting(matrix):
        seen.append(torch.get_num_threads())
        return svdvals(matrix)

    before = torch.get_num_threads()
    torch.set_num_threads(2)
    try:
        expected = measured(torch.full((2, 3, 6, 6), 1 / 6)).measures
        monkeypatch.setattr(torch.linalg, "svdvals", noting)
        assert measured(torch.full((2, 3, 6, 6), 1 / 6)).measures == expected
        assert torch.get_num_threads() == 2
    finally:
        torch.set_num_threads(before)
    assert seen == [1] * 6  # with and without the sink, of 3 heads
