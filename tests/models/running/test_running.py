"""A model at work, seen one attention block at a time, and models that must not be run."""

import json
import pickle
import weakref

import pytest
import torch
import transformers
from safetensors.torch import load_file, save_file

from rankwise.errors import InvalidInputError, ShapeError
from rankwise.models.running.model import load_running, running_from
from saved_models import saved, tiny_language_model, tokens
from tiny_models import tiny_model

SHOWN = ["bert", "gpt2", "llama", "mistral", "gemma2", "gemma3", "qwen3", "gpt-neox", "roberta", "distilbert",
         "deepseek-v3"]  # fmt: skip


def watched(name, **options):
    running = running_from(tiny_model(name), objective="embedding")
    calls = []
    output = running.watch(tokens(**options), calls.append)
    return running, calls, output


@pytest.mark.parametrize("name", SHOWN)
def test_probabilities_are_the_softmax_of_the_logits_that_are_shown(name):
    running, calls, output = watched(name, length=20)
    assert [call.index for call in calls] == [0, 1]
    assert tuple(call.name for call in calls) == running.attention_names()
    for call in calls:
        logits = call.logits()
        if call.softcap is not None:
            logits = torch.tanh(logits / call.softcap) * call.softcap
        if call.visible is not None:
            logits = logits.masked_fill(~call.visible, -torch.inf)
        torch.testing.assert_close(logits.softmax(-1), call.probabilities)
        assert not call.crosses
    plain = running(tokens(length=20))
    assert torch.equal(plain.last_hidden_state, output.last_hidden_state)


def test_inputs_are_those_behind_the_norm():
    running, calls, _ = watched("llama")
    for call in calls:
        assert not call.inputs.requires_grad
        query = call.module.q_proj(call.inputs).unflatten(-1, (6, 8)).transpose(1, 2)
        torch.testing.assert_close(query[:, :, 0], call.queries[:, :, 0])  # position 0 does not turn
        norm = running.model.layers[call.index].input_layernorm
        torch.testing.assert_close(
            call.inputs.div(norm.weight).square().mean(-1), torch.ones(3, 12), rtol=1e-3, atol=1e-3
        )


@pytest.mark.parametrize(("name", "seen"), [("bert", None), ("llama", 78), ("mistral", 78), ("gemma3", 78)])
def test_masks_are_the_models_own(name, seen):
    _, calls, _ = watched(name, length=12)
    for call in calls:
        assert (None if call.visible is None else int(call.visible[0, 0].sum())) == seen


def test_a_window_hides_what_lies_further_back():
    running = running_from(tiny_model("mistral", sliding_window=4), objective="embedding")
    seen = []
    running.watch(tokens(), lambda call: seen.append(call.visible[0, 0].sum(-1).tolist()))
    assert seen == [[1, 2, 3] + [4] * 9] * 2


@pytest.mark.parametrize("name", ["falcon-multi-query", "falcon-grouped", "falcon-alibi"])
def test_models_that_multiply_their_heads_themselves_are_watched_by_hooks(name):
    _, calls, _ = watched(name)
    assert len(calls) == 2
    for call in calls:
        assert call.queries is None
        assert torch.equal(call.visible, torch.ones(12, 12, dtype=torch.bool).tril())
        torch.testing.assert_close(call.probabilities.sum(-1), torch.ones(call.probabilities.shape[:-1]))
        with pytest.raises(InvalidInputError, match="does not show its queries"):
            call.logits()


def test_cross_attention_reads_keys_from_the_encoder():
    _, calls, _ = watched("t5")
    kinds = [(call.name.split(".")[0], call.crosses) for call in calls]
    assert kinds == [("encoder", False), ("decoder", False), ("decoder", True), ("decoder", False), ("decoder", True)]


def test_nothing_is_kept_from_one_block_to_the_next():
    running = running_from(tiny_model("bert", num_hidden_layers=3), objective="embedding")
    seen = []

    def visit(call):
        assert all(old() is None for old in seen), "the matrices of an earlier block are still in memory"
        seen.append(weakref.ref(call.probabilities))

    running.watch(tokens(), visit)
    assert len(seen) == 3


def test_no_logits_are_made_for_whom_only_attention_matters():
    running = running_from(tiny_language_model("llama"), objective="causal")
    calls, heads = [], []
    running.attention_names()
    running.model.lm_head.register_forward_hook(lambda *_: heads.append(1))
    output = running.watch(tokens(), calls.append)
    assert (len(calls), heads) == (2, [])
    assert calls[1].name == "model.layers.1.self_attn"
    assert torch.equal(running.model.lm_head(output.last_hidden_state), running(tokens()).logits)


def test_the_model_is_as_it_was_afterwards():
    running, _, _ = watched("llama")
    assert running.config._attn_implementation == "eager"
    assert not any(module._forward_pre_hooks or module._forward_hooks for module in running.model.modules())


@pytest.mark.parametrize(
    ("bad", "error"),
    [
        (torch.zeros(3), ShapeError),
        (torch.full((1, 4), 50), InvalidInputError),
        (torch.zeros(1, 65), InvalidInputError),
    ],
)
def test_tokens_that_do_not_fit_are_refused(bad, error):
    running = running_from(tiny_model("bert"), objective="embedding")
    with pytest.raises(error, match="tokens: expected"):
        running.watch(bad.long(), lambda call: None)


def test_a_model_that_cannot_be_eager_any_more_is_refused():
    import transformers

    fused = transformers.AutoModel.from_config(tiny_model("falcon-multi-query").config, attn_implementation="sdpa")
    with pytest.raises(InvalidInputError, match="attn_implementation='eager'"):
        running_from(fused, objective="embedding")


def test_a_saved_model_runs_as_the_one_in_memory(tmp_path):
    model = tiny_language_model("llama")
    running = load_running(saved(model, tmp_path / "m"))
    assert running.objective == "causal"
    assert running.tokenizer is None
    assert running.longest == 64
    with torch.no_grad():
        torch.testing.assert_close(running(tokens()).logits, model(tokens()).logits)


def test_a_half_precision_model_is_run_in_float32(tmp_path):
    running = load_running(saved(tiny_model("bert", dtype=torch.bfloat16), tmp_path / "m"))
    assert {parameter.dtype for parameter in running.model.parameters()} == {torch.float32}


def edited(folder, **changes):
    path = folder / "config.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | changes))
    return folder


class Canary:
    def __init__(self, path):
        self.path = path

    def __reduce__(self):
        return (open, (str(self.path), "w"))


def test_pickles_are_refused_and_not_opened(tmp_path):
    folder = saved(tiny_model("bert"), tmp_path / "m")
    (folder / "model.safetensors").unlink()
    (folder / "pytorch_model.bin").write_bytes(pickle.dumps(Canary(tmp_path / "canary")))
    with pytest.raises(InvalidInputError, match=r"safetensors"):
        load_running(folder)
    (folder / "pytorch_model.bin").rename(folder / "model.safetensors")
    with pytest.raises(InvalidInputError, match="pickle"):
        load_running(folder)
    assert not (tmp_path / "canary").exists()


def test_code_that_comes_with_a_model_is_not_run(tmp_path):
    folder = saved(tiny_model("bert"), tmp_path / "m")
    (folder / "evil.py").write_text(f"open({str(tmp_path / 'canary')!r}, 'w')\nclass Evil: pass\n")
    edited(folder, model_type="evil", auto_map={"AutoConfig": "evil.Evil", "AutoModel": "evil.Evil"})
    with pytest.raises(InvalidInputError, match="transformers can build"):
        load_running(folder)
    assert not (tmp_path / "canary").exists()


def test_weights_that_would_stay_random_are_refused(tmp_path):
    folder = saved(tiny_model("bert"), tmp_path / "m")
    tensors = load_file(folder / "model.safetensors")
    del tensors["encoder.layer.1.attention.self.query.weight"]
    save_file(tensors, folder / "model.safetensors", {"format": "pt"})
    with pytest.raises(InvalidInputError, match="random values"):
        load_running(folder)


@pytest.mark.parametrize(
    ("changes", "said"),
    [({"num_hidden_layers": 10**9}, "at least one tensor a layer"), ({"num_attention_heads": 7}, "transformers can")],
)
def test_a_config_that_lies_is_refused(tmp_path, changes, said):
    with pytest.raises(InvalidInputError, match=said):
        load_running(edited(saved(tiny_model("bert"), tmp_path / "m"), **changes))


def test_a_model_of_images_cannot_be_run_on_texts(tmp_path):
    with pytest.raises(InvalidInputError, match="reads pixel_values"):
        load_running(saved(tiny_model("vit"), tmp_path / "m"))


@pytest.mark.parametrize(
    ("error", "said"),
    [
        (AttributeError("no such thing"), "BertModel to run on token ids alone, got AttributeError: no such thing"),
        (RecursionError("maximum recursion depth exceeded"), "got RecursionError: maximum recursion depth"),
        (MemoryError(), "in the memory of this machine, got too little"),
    ],
)
def test_failures_in_a_models_own_code_are_messages(error, said):
    class Broken(torch.nn.Module):
        def forward(self, *args, **kwargs):
            raise error

    running = running_from(tiny_model("bert"), objective="embedding")
    running.model.encoder.layer[1] = Broken()
    with pytest.raises(InvalidInputError, match=said):
        running(tokens())


def test_parts_of_another_kind_are_refused(tmp_path):
    text = {"vocab_size": 50, "hidden_size": 40, "num_attention_heads": 5, "num_hidden_layers": 1}
    config = transformers.CLIPConfig(text_config=text, vision_config=text | {"image_size": 16, "patch_size": 8})
    with pytest.raises(InvalidInputError, match="transformers can build"):
        load_running(saved(transformers.CLIPModel._from_config(config), tmp_path / "m"))


def test_what_a_visitor_raises_is_not_taken_for_the_models_failure():
    running = running_from(tiny_model("bert"), objective="embedding")

    def visit(call):
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        running.watch(tokens(), visit)


def test_attention_that_is_no_number_is_refused():
    model = tiny_language_model("llama")
    with torch.no_grad():
        model.model.layers[0].self_attn.q_proj.weight[0, 0] = torch.nan
    running = running_from(model, objective="causal")
    with pytest.raises(InvalidInputError, match="expected attention of finite numbers, got NaN"):
        running.watch(tokens(), lambda call: None)


def test_shared_layers_count_every_run():
    config = transformers.AlbertConfig(
        vocab_size=50, embedding_size=24, hidden_size=40, num_attention_heads=5, intermediate_size=44,
        num_hidden_layers=4, max_position_embeddings=20,
    )  # fmt: skip
    running = running_from(transformers.AlbertModel._from_config(config), objective="embedding")
    assert len(running.attention_names()) == 4
    assert len(set(running.attention_names())) == 1
    calls = []
    running.watch(tokens(), lambda call: calls.append(call.index))
    assert calls == [0, 1, 2, 3]


def test_an_encoder_without_its_head_is_loaded_by_the_weights_it_has(tmp_path):
    config = transformers.MPNetConfig(
        vocab_size=50, hidden_size=40, num_attention_heads=5, intermediate_size=44, num_hidden_layers=1
    )
    folder = saved(transformers.MPNetModel._from_config(config), tmp_path / "m")
    running = load_running(edited(folder, architectures=["MPNetForMaskedLM"]))
    assert (running.objective, type(running.model).__name__) == ("embedding", "MPNetModel")


@pytest.mark.parametrize(
    "lie", [{"vocab_size": 10**8}, {"intermediate_size": 10**9}, {"max_position_embeddings": 10**9}]
)
def test_a_config_that_asks_for_more_than_the_files_hold_allocates_nothing(tmp_path, lie):
    folder = edited(saved(tiny_model("bert"), tmp_path / "m"), **lie)
    with pytest.raises(InvalidInputError, match="files of this size can hold"):
        load_running(folder)


def test_a_path_that_is_not_there_is_never_looked_for_elsewhere(tmp_path):
    with pytest.raises(InvalidInputError, match="never downloaded"):
        load_running(tmp_path / "gpt2")


@pytest.mark.parametrize(
    ("kind", "model"), [("Roberta", "RobertaModel"), ("Camembert", "CamembertModel"), ("MPNet", "MPNetModel")]
)
def test_the_longest_text_has_a_position_for_every_token(kind, model):
    """These count from after the padding id, whatever their name."""
    config = getattr(transformers, f"{kind}Config")(
        vocab_size=50, hidden_size=40, num_attention_heads=5, intermediate_size=44, num_hidden_layers=1,
        max_position_embeddings=20, pad_token_id=1,
    )  # fmt: skip
    built = getattr(transformers, model)._from_config(config, attn_implementation="eager")
    running = running_from(built, objective="embedding")
    assert running.longest == 18
    assert running(torch.full((1, 18), 5)).last_hidden_state.shape == (1, 18, 40)
    unpadded = transformers.RobertaModel(transformers.RobertaConfig(**config.to_dict() | {"pad_token_id": None}))
    assert running_from(unpadded, objective="embedding").longest == 20
