"""Reducing a model from beginning to end: the curve, the choice, the files, and an original that stays untouched."""

import hashlib
import json
import shutil
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file

from rankwise.errors import InvalidInputError
from rankwise.models.running.model import load_running, running_from
from rankwise.reduce.cost import cost_meter, pooling_of
from rankwise.reduce.factored_model import load_factored
from rankwise.reduce.reduction import ReductionOptions, reduce_model, split_texts
from saved_models import saved, tiny_language_model, tokens
from tiny_models import tiny_model


def texts(running):
    return split_texts(tokens(texts=8, vocabulary=running.vocabulary), ("drawn",))


def digests(folder):
    return {path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in folder.iterdir() if path.is_file()}


def test_the_whole_way(tmp_path):
    folder = saved(tiny_language_model("llama"), tmp_path / "m")
    (folder / "evil.py").write_text("raise SystemExit")
    before = digests(folder)
    document = reduce_model(folder, ReductionOptions(rank=4), texts, out=tmp_path / "out")
    assert digests(folder) == before
    json.dumps(document, allow_nan=False)
    curve = {(point["method"], point["rank"]): point for point in document["curve"]}
    for method in ("activations", "weights"):
        assert curve[method, 8]["cost"] == pytest.approx(0, abs=1e-12)
        assert curve[method, 2]["lost_scores"] >= curve[method, 4]["lost_scores"] > 0
    assert document["cost"]["cost"] == curve["activations", 4]["cost"]
    assert [point["layer"] for point in document["sensitivity"]] == ["decoder 0", "decoder 1"]
    assert [len(kept) for kept in document["layers"][0]["dropped_pairs"]] == [2, 2]

    # the model in its old shape, loaded as any other, has the loss that was measured
    assert not (tmp_path / "out" / "evil.py").exists()
    original, cut = load_running(folder), load_running(tmp_path / "out")
    meter = cost_meter(original, texts(original).evaluation)
    assert meter.measure(cut)["loss"] == pytest.approx(document["cost"]["loss"], rel=1e-6)
    changed = load_file(tmp_path / "out" / "model.safetensors")
    kept = load_file(folder / "model.safetensors")
    assert changed.keys() == kept.keys()
    different = {name for name in kept if not torch.equal(kept[name], changed[name])}
    assert {name.split(".")[-2] for name in different} == {"q_proj", "k_proj"}

    # and the factors do what its attention does, with half of the keys
    small = load_factored(tmp_path / "out" / "factored")
    calls = []
    cut.watch(tokens(), calls.append)
    assert [layer.module for layer in small] == [call.name for call in calls]
    for layer, call in zip(small, calls, strict=True):
        _, weights = layer.attention(call.inputs, return_weights=True)
        torch.testing.assert_close(weights, call.probabilities, rtol=1e-4, atol=1e-5)
    stored = load_file(tmp_path / "out" / "factored" / "attention.safetensors")
    saving = document["savings"]["attention_parameters"]
    assert sum(tensor.numel() for tensor in stored.values()) == saving["after"] < saving["before"]
    cache = document["savings"]["kv_cache_bytes_per_token"]
    assert (cache["before"], cache["after"]) == (2 * 2 * 2 * (8 + 8), 2 * 2 * 2 * (4 + 8))

    with pytest.raises(InvalidInputError, match="nothing is overwritten"):
        reduce_model(folder, ReductionOptions(rank=4), texts, out=tmp_path / "out")
    assert not [path for path in tmp_path.iterdir() if path.name.startswith(".")]


def test_auto_finds_a_rank_within_the_tolerance_and_none_smaller_that_was_tried(tmp_path):
    folder = saved(tiny_model("bert"), tmp_path / "m")
    for tolerance in (0.0, 0.001, 2.0):
        options = ReductionOptions(rank=None, tolerance=tolerance, curve=False, sensitivity=False)
        document = reduce_model(folder, options, texts)
        assert document["cost"]["cost"] <= max(tolerance, 1e-9)
        tried = {point["rank"]: point["cost"] for point in document["curve"]}
        assert all(cost > tolerance for rank, cost in tried.items() if rank < document["rank"])
    assert document["rank"] == 1
    assert set(document["cost"]) == {"cost", "cosine", "least_cosine", "retrieval"}


def test_auto_says_when_cutting_the_values_alone_costs_too_much(tmp_path):
    folder = saved(tiny_model("bert"), tmp_path / "m")
    options = ReductionOptions(rank=None, value_rank=1, tolerance=0.0, curve=False, sensitivity=False)
    with pytest.raises(InvalidInputError, match="expected a rank that costs at most 0, got none: --value-rank 1 alone"):
        reduce_model(folder, options, texts, out=tmp_path / "out")
    assert not (tmp_path / "out").exists()
    generous = ReductionOptions(rank=None, value_rank=1, tolerance=100.0, curve=False, sensitivity=False)
    assert reduce_model(folder, generous, texts)["rank"] == 1


def test_without_texts_nothing_is_run_or_measured(tmp_path):
    folder = saved(tiny_model("gpt2"), tmp_path / "m")
    document = reduce_model(folder, ReductionOptions(rank=3), out=tmp_path / "out")
    assert document["method"] == "weights"
    assert document["cost"] is None
    assert len(load_factored(tmp_path / "out" / "factored")) == 2
    with pytest.raises(InvalidInputError, match="--rank auto: expected texts"):
        reduce_model(folder, ReductionOptions(rank=None))
    with pytest.raises(InvalidInputError, match="--method activations: expected texts"):
        reduce_model(folder, ReductionOptions(rank=3, method="activations"))


@pytest.mark.parametrize("rank", [1, 3, 9])
def test_a_rank_that_no_head_can_have_is_refused_before_anything_is_written(tmp_path, rank):
    folder = saved(tiny_language_model("llama"), tmp_path / "m")
    with pytest.raises(InvalidInputError, match="--rank: expected 2 to 8 in steps of 2"):
        reduce_model(folder, ReductionOptions(rank=rank), out=tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_half_precision_stays_half_precision(tmp_path):
    folder = saved(tiny_model("bert", dtype=torch.bfloat16), tmp_path / "m")
    reduce_model(folder, ReductionOptions(rank=4), out=tmp_path / "out")
    for file in ("model.safetensors", "factored/attention.safetensors"):
        assert {tensor.dtype for tensor in load_file(tmp_path / "out" / file).values()} == {torch.bfloat16}
    query = load_file(tmp_path / "out" / "model.safetensors")["encoder.layer.0.attention.self.query.weight"]
    assert not query.unflatten(0, (5, 8))[:, 4:].any()


def test_float8_codes_cannot_be_cut(tmp_path):
    folder = saved(tiny_model("bert"), tmp_path / "m")
    tensors = load_file(folder / "model.safetensors")
    for name in [name for name in tensors if name.endswith("query.weight")]:
        tensors[name] = tensors[name].to(torch.float8_e4m3fn)
        tensors[f"{name}_scale"] = torch.ones(())
    save_file(tensors, folder / "model.safetensors")
    with pytest.raises(InvalidInputError, match="stored as F8_E4M3 with scales, which cannot be written back"):
        reduce_model(folder, ReductionOptions(rank=4), out=tmp_path / "out")


def hub_snapshot(folder, place):
    """The files of ``folder`` as the hub's cache keeps them: links to blobs."""
    snapshot, blobs = place / "models--a--b" / "snapshots" / "0123abcd", place / "models--a--b" / "blobs"
    snapshot.mkdir(parents=True)
    blobs.mkdir()
    for number, file in enumerate(sorted(folder.iterdir())):
        shutil.copy(file, blobs / str(number))
        (snapshot / file.name).symlink_to(Path("../../blobs") / str(number))
    return snapshot


def test_a_snapshot_of_the_hub_is_written_whole(tmp_path):
    folder = saved(tiny_model("bert"), tmp_path / "m")
    (folder / "tokenizer.json").write_text("{}")
    snapshot = hub_snapshot(folder, tmp_path)
    (snapshot / "again.json").symlink_to("config.json")
    reduce_model(snapshot, ReductionOptions(rank=4), out=tmp_path / "out")
    assert {path.name for path in (tmp_path / "out").iterdir()} == {
        "again.json", "config.json", "factored", "model.safetensors", "reduction.json", "tokenizer.json"
    }  # fmt: skip
    assert not any(path.is_symlink() for path in (tmp_path / "out").rglob("*"))
    assert (tmp_path / "out" / "config.json").read_text() == (folder / "config.json").read_text()


def test_what_links_lead_to_elsewhere_is_not_copied(tmp_path):
    folder = saved(tiny_model("bert"), tmp_path / "m")
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    (elsewhere / "secret.json").write_text("{}")
    (folder / "secret.json").symlink_to(elsewhere / "secret.json")
    (folder / "folder").symlink_to(elsewhere)
    reduce_model(folder, ReductionOptions(rank=4), out=tmp_path / "out")
    assert not list((tmp_path / "out").rglob("secret.json"))
    (folder / "config.json").rename(elsewhere / "config.json")
    (folder / "config.json").symlink_to(elsewhere / "config.json")
    with pytest.raises(InvalidInputError, match=r"expected a config\.json to copy"):
        reduce_model(folder, ReductionOptions(rank=4), out=tmp_path / "again")
    assert not (tmp_path / "again").exists()


def test_a_damaged_factored_checkpoint_is_refused(tmp_path):
    folder = saved(tiny_model("bert"), tmp_path / "m")
    reduce_model(folder, ReductionOptions(rank=4), out=tmp_path / "out")
    plan = tmp_path / "out" / "factored" / "plan.json"
    stated = json.loads(plan.read_text())
    stated["layers"][1]["spec"]["rank"] = 5
    plan.write_text(json.dumps(stated))
    with pytest.raises(InvalidInputError, match=r"1.q_weight: expected shape \[5, 5, 40\], got \[5, 4, 40\]"):
        load_factored(plan.parent)
    plan.write_text("{}")
    with pytest.raises(InvalidInputError, match="format: expected"):
        load_factored(plan.parent)


def test_a_failed_write_leaves_nothing(tmp_path, monkeypatch):
    folder = saved(tiny_model("bert"), tmp_path / "m")

    def full(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("rankwise.reduce.files.save_file", full)
    from rankwise.errors import StorageError

    with pytest.raises(StorageError, match="No space left"):
        reduce_model(folder, ReductionOptions(rank=4), out=tmp_path / "out")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["m"]


def test_masked_models_are_measured_on_the_same_hidden_tokens():
    import transformers

    config = transformers.BertConfig(
        vocab_size=50, hidden_size=16, num_hidden_layers=1, num_attention_heads=2, intermediate_size=8
    )
    running = running_from(transformers.BertForMaskedLM(config), objective="masked")
    with pytest.raises(InvalidInputError, match="mask token"):
        cost_meter(running, tokens())
    tokenizer = type("Tokenizer", (), {"mask_token_id": 3})()
    running = running_from(running.model, objective="masked", tokenizer=tokenizer)
    meter = cost_meter(running, tokens(texts=4))
    assert meter.measure(running)["cost"] == 0


def test_a_large_vocabulary_is_measured_a_few_texts_at_a_time(monkeypatch):
    running = running_from(tiny_language_model("gpt2"), objective="causal")
    whole = cost_meter(running, tokens(6)).original
    monkeypatch.setattr("rankwise.models.running.texts._NUMBERS_A_PASS", 2 * 12 * 50)
    sizes = []
    running.model.register_forward_hook(
        lambda module, args, kwargs, out: sizes.append(len(out.logits)), with_kwargs=True
    )
    assert cost_meter(running, tokens(6)).original == pytest.approx(whole)
    assert sizes == [2, 2, 2]


def test_pooling_is_what_the_model_says(tmp_path):
    folder = saved(tiny_model("bert"), tmp_path / "m")
    running = load_running(folder)
    assert pooling_of(running) == "mean"
    (folder / "1_Pooling").mkdir()
    for stated, expected in (({"pooling_mode_cls_token": True}, "first"), ({"pooling_mode_mean_tokens": True}, "mean")):
        (folder / "1_Pooling" / "config.json").write_text(json.dumps(stated))
        assert pooling_of(running) == expected
    for stated, got in (
        ({}, "'none'"),
        ({"pooling_mode": "lasttoken"}, "'lasttoken'"),
        ({"pooling_mode_mean_tokens": False, "pooling_mode_max_tokens": True}, r"\['pooling_mode_max_tokens'\]"),
    ):
        (folder / "1_Pooling" / "config.json").write_text(json.dumps(stated))
        with pytest.raises(InvalidInputError, match=f"first token, got {got}; without texts heads are cut"):
            pooling_of(running)
