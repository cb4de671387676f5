"""Our attention inside models of transformers: their numbers, their masks, their cache."""

import pytest
import torch

from rankwise.errors import InvalidInputError
from rankwise.nn.transformers_attention import register_attention
from tiny_models import tiny_model


@pytest.fixture(autouse=True)
def registered():
    register_attention("rankwise-tested")


@torch.no_grad()
def hidden(model, implementation, ids, **options):
    model.set_attn_implementation(implementation)
    return model(ids, **options)


def ids_of(model, tokens, batch=2):
    return torch.randint(1, model.config.vocab_size, (batch, tokens), generator=torch.Generator().manual_seed(0))


@pytest.mark.parametrize("name", ["llama", "llama-multi-query", "mistral", "qwen2", "qwen3", "bert", "gpt2"])
@pytest.mark.parametrize("tokens", [20, 120])
def test_hidden_states_are_those_of_eager(name, tokens):
    model = tiny_model(name, **({"n_positions": 128} if name == "gpt2" else {"max_position_embeddings": 128}))
    ids = ids_of(model, tokens)
    padding = torch.ones_like(ids)
    padding[1, : tokens // 2] = 0  # on the left, so the last half counts
    for mask in (None, padding):
        ours, theirs = (hidden(model, which, ids, attention_mask=mask)[0] for which in ("rankwise-tested", "eager"))
        ours, theirs = (ours, theirs) if mask is None else (ours[:, tokens // 2 :], theirs[:, tokens // 2 :])
        torch.testing.assert_close(ours, theirs, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("name", ["llama", "mistral", "qwen3"])
def test_a_token_at_a_time_with_a_cache_is_the_same_as_all_at_once(name):
    model = tiny_model(name)
    ids = ids_of(model, 24)
    whole = hidden(model, "eager", ids).last_hidden_state
    first = hidden(model, "rankwise-tested", ids[:, :9], use_cache=True)
    steps, cache = [first.last_hidden_state], first.past_key_values
    for position in range(9, 24):
        out = hidden(model, "rankwise-tested", ids[:, position : position + 1], past_key_values=cache, use_cache=True)
        steps.append(out.last_hidden_state)
    torch.testing.assert_close(torch.cat(steps, 1), whole, rtol=1e-4, atol=1e-4)


def test_attention_matrices_come_out_and_go_to_the_observer():
    seen = []
    register_attention("rankwise-observed", observer=lambda module, weights: seen.append((module.layer_idx, weights)))
    model = tiny_model("qwen3")
    ids = ids_of(model, 11)
    theirs = hidden(model, "eager", ids, output_attentions=True).attentions
    ours = hidden(model, "rankwise-observed", ids, output_attentions=True).attentions
    assert [layer for layer, _ in seen] == [0, 1]
    for one, other, (_, observed) in zip(ours, theirs, seen, strict=True):
        torch.testing.assert_close(one, other, rtol=1e-4, atol=1e-5)
        assert torch.equal(observed, one)


def test_hardmax_reads_one_key_a_query():
    seen = []
    register_attention("rankwise-hard", scores="hardmax", observer=lambda _, weights: seen.append(weights))
    model = tiny_model("llama")
    ids = ids_of(model, 11)
    soft = hidden(model, "eager", ids, output_attentions=True).attentions[0]
    hidden(model, "rankwise-hard", ids)
    assert torch.equal(seen[0].sum(-1), torch.ones_like(seen[0].sum(-1)))
    assert torch.equal(seen[0].argmax(-1), soft.argmax(-1))


def test_gradients_flow_through():
    model = tiny_model("llama").train()
    ids, grads = ids_of(model, 11), []
    for which in ("rankwise-tested", "eager"):
        model.set_attn_implementation(which)
        model.zero_grad()
        model(ids).last_hidden_state.square().mean().backward()
        grads.append(model.layers[0].self_attn.q_proj.weight.grad.clone())
    torch.testing.assert_close(*grads, rtol=1e-4, atol=1e-5)


def test_dropout_of_the_model_is_done_in_training_alone():
    model = tiny_model("llama", attention_dropout=0.5)
    ids = ids_of(model, 5)

    def twice():
        return [hidden(model, "rankwise-tested", ids).last_hidden_state for _ in range(2)]

    assert torch.equal(*twice())
    model.train()
    assert not torch.equal(*twice())


def test_soft_caps_are_refused_not_ignored():
    model = tiny_model("gemma2")
    with pytest.raises(InvalidInputError, match="'softcap'"):
        hidden(model, "rankwise-tested", ids_of(model, 5))


def test_unknown_scores_are_refused():
    with pytest.raises(InvalidInputError, match="scores: expected one of"):
        register_attention(scores="sharp")
