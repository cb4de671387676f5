"""``rankwise.reduce`` of a model in memory: the command's result, a model that generates, and an untouched original."""

import json

import numpy as np
import pytest
import torch
from transformers import ByT5Tokenizer

import rankwise
from rankwise.cli import main
from rankwise.cli.output import printed
from rankwise.errors import InvalidInputError
from saved_models import saved, tiny_language_model, tokens
from tiny_models import tiny_model

IDS = tokens(texts=8, length=24)
ASKED = {"keep": 0.5, "tokens": IDS, "context": 8, "recall": False}
TIMED = ("seconds", "generation", "stored", "model", "texts", "not_tested")


def state(model):
    return {name: tensor.clone() for name, tensor in model.state_dict().items()}


def logits(model, ids=IDS):
    with torch.no_grad():
        return model(input_ids=ids).logits


@pytest.mark.parametrize("form", ["latents", "mla"])
def test_it_is_the_command_s_result_and_leaves_the_original(form, tmp_path):
    model = tiny_language_model("llama").train()
    model.set_attn_implementation("sdpa")
    before, modules = state(model), [type(module) for module in model.modules()]
    found = rankwise.reduce(model, form=form, out=tmp_path / "smaller", **ASKED)
    assert model.training
    assert model.config._attn_implementation == "sdpa"
    assert [type(module) for module in model.modules()] == modules
    assert all(torch.equal(before[name], tensor) for name, tensor in model.state_dict().items())
    np.save(tmp_path / "ids.npy", IDS.numpy())
    command = ["reduce", saved(model, tmp_path / "m"), "--keep", 0.5, "--tokens", tmp_path / "ids.npy", "--length", 24]
    told = json.loads(
        printed(lambda: main([*map(str, command), "--context", "8", "--no-recall", "--format", form, "--json"]))
    )
    own = json.loads(json.dumps(found.to_json()))
    assert {key: own[key] for key in told if key not in TIMED} == {key: told[key] for key in told if key not in TIMED}
    assert found.report.model == "LlamaForCausalLM"
    torch.testing.assert_close(logits(found.model), logits(rankwise.load_reduced(tmp_path / "smaller")))
    assert (logits(found.model) - logits(model.eval())).abs().max() > 1e-2


@pytest.mark.parametrize("form", ["latents", "mla"])
def test_the_reduced_model_generates_from_a_cache_of_half_the_size(form):
    model = tiny_language_model("llama")
    found = rankwise.reduce(model, form=form, **ASKED)
    prompt = IDS[:1, :6]
    with_cache = found.model.generate(prompt, max_new_tokens=8, do_sample=False, pad_token_id=0, eos_token_id=None)
    without = found.model.generate(
        prompt, max_new_tokens=8, do_sample=False, use_cache=False, pad_token_id=0, eos_token_id=None
    )
    assert torch.equal(with_cache, without)
    with torch.no_grad():
        cache = found.model(input_ids=IDS, use_cache=True).past_key_values
    kept = [layer.keys if form == "latents" else torch.cat([layer.keys, layer.values], -1) for layer in cache.layers]
    assert sum(each.shape[1] * each.shape[-1] for each in kept) == found.report.cache_numbers.after
    assert found.report.cache_numbers.after == found.report.cache_numbers.before / 2


def test_types_are_kept_and_frequencies_are_not_rounded():
    model = tiny_language_model("llama").bfloat16()
    found = rankwise.reduce(model, keep=1.0, tokens=IDS, context=0, recall=False)
    assert {value.dtype for value in found.model.parameters()} == {torch.bfloat16}
    assert {value.dtype for value in model.parameters()} == {torch.bfloat16}
    assert found.model.model.rotary_emb.inv_freq.dtype == torch.float32
    generated = found.model.generate(IDS[:1, :4], max_new_tokens=4, do_sample=False, pad_token_id=0)
    assert generated.shape[1] > 4


def test_training_the_reduced_model_leaves_the_original():
    model = tiny_language_model("llama")
    before = state(model)
    found = rankwise.reduce(model, keep=0.5, method="weights", context=0, recall=False)
    assert found.report.cost is None
    with torch.no_grad():
        for value in found.model.parameters():
            value.add_(1.0)
    assert all(torch.equal(before[name], tensor) for name, tensor in model.state_dict().items())


def test_texts_need_the_tokenizer(tmp_path):
    model = tiny_language_model("llama", vocab_size=400)
    text = tmp_path / "text.txt"
    text.write_text("the rank of a head is the dimension of its keys. " * 40)
    with pytest.raises(InvalidInputError, match="tokenizer="):
        rankwise.reduce(model, keep=0.5, text=text)
    found = rankwise.reduce(
        model, keep=0.5, text=text, tokenizer=ByT5Tokenizer(), length=32, context=0, recall=False, out=tmp_path / "o"
    )
    assert found.report.texts.evaluation_source == ("text.txt",)
    assert (tmp_path / "o" / "tokenizer_config.json").is_file()
    torch.testing.assert_close(logits(found.model), logits(rankwise.load_reduced(tmp_path / "o")))


def test_an_encoder_in_memory():
    found = rankwise.reduce(tiny_model("bert"), keep=0.5, tokens=IDS)
    assert found.report.objective == "embedding"
    with torch.no_grad():
        assert found.model(input_ids=IDS).last_hidden_state.isfinite().all()


def test_a_reduction_of_a_folder_has_its_model_too(tmp_path):
    folder = saved(tiny_language_model("llama"), tmp_path / "m")
    np.save(tmp_path / "ids.npy", IDS.numpy())
    asked = {"keep": 0.5, "length": 24, "context": 0, "recall": False}
    on_disk = rankwise.reduce(folder, tokens=tmp_path / "ids.npy", **asked)
    in_memory = rankwise.reduce(tiny_language_model("llama"), tokens=IDS, **asked)
    torch.testing.assert_close(logits(on_disk.model), logits(in_memory.model))


def test_what_cannot_be_reduced_is_refused():
    with pytest.raises(InvalidInputError, match="expected one of transformers"):
        rankwise.reduce(torch.nn.Linear(2, 2), keep=0.5, tokens=IDS)
    with pytest.raises(InvalidInputError, match="got int"):
        rankwise.reduce(3, keep=0.5)
    with pytest.raises(InvalidInputError, match="expected one of text, records and tokens"):
        rankwise.reduce(tiny_language_model("llama"), keep=0.5, tokens=IDS, text="a.txt")
    with pytest.raises(InvalidInputError, match="which reads pixel_values"):
        rankwise.reduce(tiny_model("vit"), keep=0.5, tokens=IDS)


def test_a_copy_that_runs_is_float32_whatever_the_model_is():
    model = tiny_language_model("gpt2").bfloat16()
    found = rankwise.audit(model, tokens=IDS)
    assert all(np.isfinite(row["qk_effective"]) for row in found.rows)
    assert model.dtype == torch.bfloat16
    need = rankwise.need(model, tokens=tokens(texts=6, length=40), layers=(1,), steps=0)
    assert 1 <= need.rank <= model.config.n_embd
