"""Smaller heads: exact at full rank, lossless at a planted rank, and as factors the same as in the old shape."""

import numpy as np
import pytest
import torch

from rankwise.errors import InvalidInputError
from rankwise.models.files.source import open_model
from rankwise.models.running.model import running_from
from rankwise.reduce.cutting import changed_tensors, cut_model, module_names, prepare
from rankwise.reduce.factored_model import factored_layer, why_not_factored
from saved_models import saved, tokens
from tiny_models import tiny_model

CUT = ["bert", "gpt2", "llama", "llama-biased", "llama-multi-query", "mistral", "qwen2", "gpt-neox", "roberta"]


def reducer_of(name, tmp_path):
    model = tiny_model(name, **({"sliding_window": 4} if name == "mistral" else {}))
    source = open_model(saved(model, tmp_path / "m"))
    running = running_from(model, objective="embedding")
    return running, prepare(source, running, tokens(texts=4))


def outputs(running):
    """What each attention block gives, behind its output projection."""
    found = {}
    running.watch(tokens(texts=2, seed=1), lambda call: found.update({call.name: call}))
    return found


@pytest.mark.parametrize("name", [*CUT, "gemma2", "t5", "falcon-grouped"])
def test_full_rank_changes_no_bit(name, tmp_path):
    running, reducer = reducer_of(name, tmp_path)
    before = running(tokens()).last_hidden_state
    for method in reducer.methods:
        layers = reducer.cut(reducer.rank, method=method)
        assert changed_tensors(reducer.source, layers) == {}
        with cut_model(running, reducer.source, layers):
            assert torch.equal(running(tokens()).last_hidden_state, before)


def attention_output(call, layer):
    """The truncated module's own probabilities and values through the output weights of the old shape."""
    group = layer.ref.group
    mixed = call.probabilities @ call.values.repeat_interleave(group, 1)
    wide = torch.from_numpy(layer.same_shape()["o"])
    out = torch.einsum("thnv,hvd->tnd", mixed, wide)
    return out if layer.o_bias is None else out + layer.o_bias


@pytest.mark.parametrize("name", CUT)
@pytest.mark.parametrize("value_rank", [None, 3])
def test_factors_compute_what_the_truncated_model_computes(name, value_rank, tmp_path):
    running, reducer = reducer_of(name, tmp_path)
    rank = 4
    layers = reducer.cut(rank, value_rank, method="activations")
    paths = module_names(running, [layer.ref for layer in layers])
    with cut_model(running, reducer.source, layers):
        calls = outputs(running)
    for path, layer in zip(paths, layers, strict=True):
        call, module = calls[path], factored_layer(layer)
        assert module.spec.rank == rank
        assert module.q_weight.shape[1] == rank
        assert module.v_weight.shape[1] == (value_rank or layer.ref.value_rank)
        mixed, weights = module(call.inputs, return_weights=True)
        torch.testing.assert_close(weights, call.probabilities, rtol=1e-4, atol=1e-5)
        torch.testing.assert_close(mixed, attention_output(call, layer), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("name", [*CUT, "falcon-grouped"])
def test_activations_never_lose_more_of_the_scores_than_weights_alone(name, tmp_path):
    _, reducer = reducer_of(name, tmp_path)
    for rank in range(2, reducer.rank, 2):
        best, plain = (reducer.cut(rank, 2, method=method) for method in ("activations", "weights"))
        for one, other in zip(best, plain, strict=True):
            for mine, theirs in zip((*one.lost, *one.lost_values), (*other.lost, *other.lost_values), strict=True):
                assert 0 <= mine <= theirs + 1e-9


def test_a_planted_rank_is_cut_without_loss(tmp_path):
    model = tiny_model("bert")
    with torch.no_grad():
        for layer in model.encoder.layer:
            attention = layer.attention.self
            mix = torch.randn(5, 8, 3, generator=torch.Generator().manual_seed(0))
            attention.query.weight.copy_((mix @ attention.query.weight.unflatten(0, (5, 8))[:, :3]).flatten(0, 1))
            attention.query.bias.copy_((mix @ attention.query.bias.unflatten(0, (5, 8))[:, :3, None]).flatten())
    source = open_model(saved(model, tmp_path / "m"))
    running = running_from(model, objective="embedding")
    reducer = prepare(source, running, tokens(texts=6))
    before = running(tokens()).last_hidden_state
    for method in reducer.methods:
        layers = reducer.cut(3, method=method)
        assert max(share for layer in layers for share in layer.lost) < 1e-9
        with cut_model(running, source, layers):
            torch.testing.assert_close(running(tokens()).last_hidden_state, before, rtol=1e-3, atol=1e-4)


def test_dropped_coordinates_are_zero_and_rotating_ones_stay_in_place(tmp_path):
    _, reducer = reducer_of("llama", tmp_path)
    for layer in reducer.cut(4, method="activations"):
        wide = layer.same_shape()
        for g, kept in enumerate(layer.pairs):
            assert len(kept) == 2
            stay = sorted([*kept, *(pair + 4 for pair in kept)])
            rows = np.flatnonzero(np.abs(wide["k"][g]).sum(-1))
            assert rows.tolist() == stay
            for head in range(3 * g, 3 * g + 3):  # one set a key head, for all its query heads
                assert np.flatnonzero(np.abs(wide["q"][head]).sum(-1)).tolist() == stay


def test_an_odd_rank_would_split_a_pair(tmp_path):
    _, reducer = reducer_of("llama", tmp_path)
    with pytest.raises(InvalidInputError, match=r"whole pairs can be dropped\), got 5; choose 4"):
        reducer.cut(5, method="weights")


@pytest.mark.parametrize(("name", "reason"), [("qwen3", "QK-norm divides"), ("deepseek-v3", "latent attention")])
def test_what_cannot_be_cut_says_why(name, reason, tmp_path):
    source = open_model(saved(tiny_model(name), tmp_path / "m"))
    with pytest.raises(InvalidInputError, match=reason):
        prepare(source)


def test_what_cannot_be_factored_says_why(tmp_path):
    for name, reason in (("gemma2", "soft-capped"), ("t5", "position bias")):
        _, reducer = reducer_of(name, tmp_path / name)
        layer = reducer.cut(4, method="weights")[0]
        assert reason in why_not_factored(layer.ref)
        with pytest.raises(InvalidInputError, match=reason):
            factored_layer(layer)
