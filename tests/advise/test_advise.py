"""Advice: what is said for each situation, what it costs, and that no window is invented."""

import json
import re
import shlex
from dataclasses import replace
from pathlib import Path

import pytest

from rankwise.advise.advice import advice_document, advise, resources_of
from rankwise.advise.commands import ModelFiles
from rankwise.advise.inputs import situation
from rankwise.advise.removal import TakenAway, best_cut, taken_away
from rankwise.advise.resources import flash_tile, resources, rounded_up, roundings
from rankwise.audit.audit import audit_weights
from rankwise.audit.report import read_report
from rankwise.cli import main
from rankwise.errors import InvalidInputError
from rankwise.models.files.source import open_model
from rankwise.need.document import read_need
from rankwise.reduce.document import read_reduction
from rankwise.shapes import ModelShape
from rankwise.shapes.shape import LatentShape
from rankwise.shapes.use import context_length
from rankwise.theory.bounds import rank_required
from rankwise.theory.saturation import saturation_dim
from report_documents import need_document, reduction_document
from saved_models import saved_byte_model

CONFIG = {"hidden_size": 512, "num_hidden_layers": 4, "num_attention_heads": 8, "num_key_value_heads": 2,
          "intermediate_size": 2048, "max_position_embeddings": 4096, "model_type": "tiny"}  # fmt: skip


@pytest.fixture
def config(tmp_path):
    (tmp_path / "config.json").write_text(json.dumps(CONFIG))
    return tmp_path


@pytest.fixture
def need_file(tmp_path):
    def write(need, low=None, high=None, dim=512, **changes):
        document = need_document(dim) | changes
        if "measurements" not in changes:
            own = {"need": need, "need_low": low or need, "need_high": high or need}
            document["measurements"] = [document["measurements"][0] | own]
        path = tmp_path / "need.json"
        path.write_text(json.dumps(document))
        return read_need(path)

    return write


def test_without_a_measurement_the_worst_case_is_warned_about_and_measuring_comes_first():
    advice = advise(situation(dim=768, heads=12, length=1024))
    assert advice.need == advice.need_isotropic == rank_required(768, 12, 0.1, values="any")
    assert advice.plateau == saturation_dim(1024, mask="causal")
    assert "the worst case" in advice.notes[0]
    assert any("no window" in note for note in advice.notes)
    first = advice.next_training[0]
    assert first.command is None  # where model and texts lie is not known
    assert first.confidence == "our derivation"
    assert len(advice.next_training) <= 3
    assert advice.this_model == ()  # sizes alone are no trained model


def test_a_need_below_the_plateau_is_no_reason_to_speak_of_a_window(config, need_file):
    advice = advise(situation(config=config, need=need_file(20)))
    assert advice.need == 20 < advice.plateau.value
    assert not any("no window" in note or "worst case" in note for note in advice.notes)


def test_too_little_rank_is_answered_with_fewer_heads_for_the_same_weights(config, need_file):
    advice = advise(situation(config=config, need=need_file(100, 97, 103)))
    first = advice.next_training[0]
    (changed,) = first.shapes
    assert (changed.rank, changed.heads, changed.kv_heads, changed.layers) == (104, 5, 1, 4)
    assert first.confidence == "hypothesis"
    assert "does nearest-neighbour search" in first.does_not_prove
    before, after = advice.resources.parameters, resources_of(advice, first).parameters
    assert after == pytest.approx(before, rel=0.2)


def test_each_layer_is_counted_by_its_own_need(config, need_file):
    one = need_document(512)["measurements"][0]
    blocks = [one | {"name": f"layer {at}", "need": need, "need_low": need, "need_high": need}
              for at, need in enumerate((96, 96, 128, 16))]  # fmt: skip
    source = need_document(512)["source"] | {"kind": "attention inputs", "model": "tiny"}
    need = need_file(0, measurements=blocks, source=source)
    advice = advise(situation(config=config, need=need))
    first = advice.next_training[0]
    assert [(shape.layers, shape.heads, shape.rank) for shape in first.shapes] == [(2, 5, 96), (1, 4, 128), (1, 8, 64)]
    assert "5 x 96 in layers 0-1, 4 x 128 in layer 2, 8 x 64 in layer 3" in first.what
    by_hand = 512 * 2 * (2 * (5 + 1) * 96 + (4 + 1) * 128 + (8 + 2) * 64)
    assert resources_of(advice, first).parameters == by_hand
    fewer = need_file(0, measurements=blocks[:3], source=source)
    partial = advise(situation(config=config, need=fewer))
    assert {shape.rank for shape in partial.next_training[0].shapes} == {128}
    assert any("measured in 3 blocks, and 4 layers" in note for note in partial.notes)


def test_too_much_rank_is_answered_with_less(config, need_file):
    first = advise(situation(config=config, need=need_file(21))).next_training[0]
    assert [(shape.rank, shape.heads) for shape in first.shapes] == [(24, 8)]
    assert first.confidence == "hypothesis"


def cut(judgement="worth trying", share=0.75, **changes):
    numbers = {
        "model": "tiny", "share": share, "kept": f"{share:.0%} of the cache", "rank": round(64 * share),
        "original_rank": 64, "judgement": judgement, "verdict": f"It costs something: {judgement}.",
        "texts": "8 pieces", "weights": (1000, 800), "cache": (100, 75),
    }  # fmt: skip
    return TakenAway(**numbers | changes)


def test_a_measured_cut_is_the_verdict_on_the_trained_model(config):
    advice = advise(situation(config=config, reduction=cut()))
    (verdict,) = advice.this_model
    assert verdict.confidence == "measurement"
    assert "saves 25% of the cache of keys and values and 20% of the attention weights" in verdict.what
    assert "keep 75% of the cache" in advice.headline
    assert "It costs something: worth trying. Measured on 8 pieces." in verdict.reason
    dear = advise(situation(config=config, reduction=cut("not worth it"))).this_model[0]
    assert dear.what == "Leave the heads as they are: a cut to 75% of the cache is not worth it."
    trade = advise(situation(config=config, reduction=cut("a trade", weights=(1000, 1100)))).this_model[0]
    assert trade.what.endswith("only if you can bear what it loses; it saves 25% of the cache of keys and values.")
    assert "a cut followed by some training" in dear.does_not_prove
    healed = advise(situation(config=config, reduction=cut("not worth it", healed=True))).this_model[0]
    assert "the same cut with more training" in healed.does_not_prove
    unmeasured = advise(situation(config=config, reduction=cut("not measured"))).this_model[0]
    assert (unmeasured.confidence, unmeasured.command) == ("not measured", None)
    with pytest.raises(InvalidInputError, match="whose heads have rank 64, got heads of rank 32"):
        situation(config=config, reduction=cut(original_rank=32))


def test_a_reduction_that_was_written_is_read(tmp_path):
    (tmp_path / "reduction.json").write_text(json.dumps(reduction_document()))
    report = read_reduction(tmp_path / "reduction.json")
    found = taken_away(report)
    assert found.rank < found.original_rank
    assert (found.judgement, found.verdict) == (report.judgement, report.verdict)
    assert found.affordable is (report.judgement == "worth trying")


def test_of_several_cuts_the_smallest_that_is_worth_trying_counts():
    half, most, little = cut("a trade", 0.5), cut("worth trying", 0.75), cut("worth trying", 0.9)
    best = best_cut([half, little, most])
    assert (best.share, best.others) == (0.75, "50%: a trade; 90%: worth trying")
    assert best_cut([half, cut("not worth it", 0.25)]).share == 0.5


def test_the_two_kinds_of_advice_are_reconciled_where_they_disagree(config, need_file):
    said = advise(situation(config=config, need=need_file(100, 97, 103), reduction=cut())).reconciled
    assert "no reason to doubt the cut" in said
    said = advise(situation(config=config, need=need_file(30), reduction=cut("not worth it"))).reconciled
    assert "costs too much" in said
    plateau = advise(situation(config=config)).plateau.value
    assert advise(situation(config=config, need=need_file(plateau), rank=plateau)).reconciled is None


def test_an_untried_shape_is_never_called_a_measurement(config, need_file):
    for need in (8, 21, 60, 100, 400):
        for statement in advise(situation(config=config, need=need_file(need), reduction=cut())).next_training:
            assert statement.confidence != "measurement"


def test_every_printed_command_runs_as_printed(config, need_file, capsys, monkeypatch):
    monkeypatch.chdir(config)
    situations = [
        situation(dim=768, heads=12), situation(dim=512, heads=4, rank=64, length=128),
        situation(config=config, need=need_file(100)), situation(config=config, need=need_file(21)),
        situation(config=config, reduction=cut("not worth it")),
        situation(config=config, reduction=cut("not measured")),
    ]  # fmt: skip
    (config / "my text.txt").write_text("Two heads of rank 32 beat many small ones. " * 40)
    saved_byte_model(config / "my model")
    files = ModelFiles(model=Path("my model"), texts=(Path("my text.txt"),))
    judged = ("worth trying", "a trade", "not worth it", "not measured")
    situations += [situation(config=config, reduction=cut(one, 0.5), files=files) for one in judged]
    said = [advise(of) for of in situations]
    commands = {one.command for advice in said for one in advice.this_model + advice.next_training} - {None}
    begun = [" ".join(shlex.split(command)[:2]) for command in commands]
    assert {one: begun.count(one) for one in begun} == {
        "rankwise reduce": 3, "rankwise need": 1, "rankwise choose": 1, "rankwise bound": 1
    }  # fmt: skip
    for command in sorted(commands):
        program, *arguments = shlex.split(command)
        assert program == "rankwise"
        if arguments[0] == "choose":  # an hour of training
            arguments.append("--dry-run")
        assert main(arguments) == 0, (command, capsys.readouterr().err)
    words = " ".join(text for advice in said for one in advice.this_model + advice.next_training
                     for text in (one.what, one.reason, one.does_not_prove))  # fmt: skip
    assert "`" not in words
    assert not re.search(r"rankwise (need|reduce|audit|choose) [A-Z-]", words)


@pytest.mark.parametrize("name", ["qwen3", "deepseek-v3"])
def test_concentrated_weights_are_a_reason_to_measure(saved, tmp_path, name):
    file = tmp_path / "audit.json"
    audit_weights(open_model(saved(name))).write(file)
    of = situation(audit=read_report(file))
    narrow = replace(of, audit=replace(of.audit, energy_90=1, energy_90_random=5))
    assert any("the weights are concentrated" in one.what for one in advise(narrow).this_model)


def test_enough_rank_is_kept(config, need_file):
    first = advise(situation(config=config, need=need_file(60))).next_training[0]
    assert first.what == "Keep rank 64."
    assert first.shapes == ()


def test_heads_that_miss_the_linear_part_and_ranks_beyond_the_dimension():
    said = advise(situation(dim=512, heads=4, rank=64, length=128)).next_training
    assert any("8 heads instead of 4" in one.what for one in said)
    wide = advise(situation(dim=32, heads=2, rank=48, length=128)).next_training[0]
    assert (wide.confidence, wide.shapes[0].rank) == ("theorem", 32)


def test_costs_by_hand():
    shape = ModelShape(
        name="x", dim=10, layers=3, heads=4, kv_heads=2, rank=5, value_rank=7, cached_layers=3
    )  # fmt: skip
    found = resources(shape, length=100, reach=None, dtype="float32")
    weights = 10 * (4 * 5 + 2 * 5 + 2 * 7 + 4 * 7)
    assert found.parameters == 3 * weights
    assert found.flops_per_token == 3 * (2 * weights + 2 * 4 * (5 + 7) * 100)
    assert found.kv_bytes_per_token == 4 * 3 * 2 * (5 + 7)
    assert found.kv_bytes == 100 * found.kv_bytes_per_token
    windowed = resources(shape, length=100, reach=10, dtype="int8")
    assert windowed.kv_bytes == 10 * 3 * 2 * (5 + 7)
    assert resources(shape, length=100, reach=None, dtype="int8", cached=False).kv_bytes is None
    unknown = resources(replace(shape, cached_layers=None), length=100, reach=None, dtype="int8")
    assert unknown.kv_bytes is unknown.kv_bytes_per_token is None


def test_roundings():
    assert [rounded_up(rank) for rank in (1, 8, 9, 64)] == [8, 8, 16, 64]
    assert [flash_tile(rank) for rank in (1, 33, 80, 129, 256, 257)] == [32, 64, 96, 192, 256, None]
    assert [(one.rank, one.tile) for one in roundings(77)] == [(72, 96), (80, 96), (96, 96)]
    assert roundings(64)[0].parameters == 1


def test_the_files_fill_in_what_is_not_said_and_options_win(config):
    read = situation(config=config)
    assert (read.length, read.mask, read.shape.kv_heads) == (4096, "causal", 2)
    assert read.assumed == ()
    other = situation(config=config, rank=32, heads=16, length=64, mask="window", window=8, qk_norm=True)
    assert (other.shape.rank, other.shape.value_rank, other.shape.heads, other.reach) == (32, 32, 16, 8)
    assert advise(other).plateau == saturation_dim(64, mask="window", keys="unit", window=8)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({}, "expected a model"),
        ({"dim": 10, "heads": 3}, "3 heads do not divide the dimension 10"),
        ({"dim": 8, "heads": 4, "kv_heads": 3}, "divisor of the 4 heads"),
        ({"dim": 8, "heads": 0}, "heads: expected at least 1"),
        ({"dim": 8, "heads": 2, "target": 0.7}, "target"),
        ({"dim": 8, "heads": 2, "mask": "window"}, "window"),
        ({"dim": 8, "heads": 2, "length": 0}, "length"),
    ],
)
def test_mistakes_are_named(options, message):
    with pytest.raises(ValueError, match=message):
        situation(**options)


def test_need_files_that_do_not_fit_are_refused(config, need_file):
    for need, message in [
        (lambda: need_file(5, dim=64), "dimension 512, got vectors of 64"),
        (lambda: need_file(5, format="x"), "expected 'rankwise-need/1'"),
        (lambda: need_file(5, measurements=[]), "at least one"),
        (lambda: need_file(600), "need_high <= dim"),
        (lambda: need_file(5, settings=3), "settings"),
    ]:
        with pytest.raises(ValueError, match=message):
            situation(config=config, need=need())
    with pytest.raises(ValueError, match=r"measured for 0\.1, got 0\.05"):
        situation(config=config, need=need_file(5), target=0.05)


def test_the_document_is_strict_json(config, need_file):
    for options in ({"need": need_file(100)}, {}):
        document = advice_document(advise(situation(config=config, **options)))
        read = json.loads(json.dumps(document, allow_nan=False))
        assert read["format"] == "rankwise-advice/2"
        assert {one["confidence"] for one in read["next_training"]} <= {
            "theorem", "our derivation", "heuristic", "hypothesis"
        }  # fmt: skip


def test_layers_of_several_windows_are_counted_each_by_its_own(saved, tmp_path):
    """One of the two sees 16 tokens back, the other everything."""
    file = tmp_path / "audit.json"
    report = audit_weights(open_model(saved("gemma3")))
    report = replace(report, layers=(report.layers[0], replace(report.layers[1], mask="causal", window=None)))
    report.write(file)
    assert [(one.mask, one.window) for one in report.layers] == [("window", 16), ("causal", None)]
    of = situation(audit=read_report(file), length=1000)
    assert (of.mask, of.window, of.windows, of.qk_norm) == ("causal", None, (16, None), True)
    found = advise(of)
    numbers = 2 * (8 + 8)
    assert found.resources.kv_bytes == 2 * numbers * (16 + 1000)
    assert found.resources.flops_per_token == 2 * 2 * of.shape.stored_parameters + 2 * 6 * (8 + 8) * (16 + 1000)
    assert any("1 of 2 layers see a window only (of 16 tokens)" in warning for warning in found.notes)
    assert found.plateau == saturation_dim(1000, mask="causal", keys="unit")
    assert situation(audit=read_report(file), length=1000, mask="window").reach == 16
    assert situation(audit=read_report(file), length=1000, mask="causal").reach == 1000

    half = replace(report, layers=(report.layers[0], replace(report.layers[1], qk_norm=False, rank=9)))
    half.write(file)
    said = " ".join(advise(situation(audit=read_report(file), length=1000)).notes)
    assert "no QK-norm, which 1 of 2 layers have (--qk-norm)" in said
    assert "1 of 2 layers have another shape" in said
    assert advise(situation(audit=read_report(file), length=1000)).resources.kv_bytes is None


@pytest.mark.parametrize("name", ["whisper", "t5"])
def test_encoder_decoder_models_are_counted_by_their_decoder(saved, tmp_path, name):
    """As their config is: one layer of the encoder and two of cross-attention keep nothing of what is generated."""
    folder, file = saved(name), tmp_path / "audit.json"
    audit_weights(open_model(folder)).write(file)
    of = situation(audit=read_report(file), length=64)
    assert (of.mask, of.shape.layers, of.shape.cached_layers) == ("causal", 2, 2)
    used = {"length": 64, "reach": None, "dtype": "bfloat16"}
    assert resources(of.shape, **used) == resources(situation(config=folder, audit=read_report(file)).shape, **used)
    assert any("self-attention is counted, 2 of 5 attention layers" in warning for warning in advise(of).notes)


def test_latent_attention_costs_the_same_by_audit_and_by_config(saved, tmp_path):
    """The cache holds the latent, not the keys and values of every head; an older audit does not know its size."""
    folder, file = saved("deepseek-v3"), tmp_path / "audit.json"
    audit_weights(open_model(folder)).write(file)
    by_audit, by_config = situation(audit=read_report(file)), situation(config=folder)
    assert by_audit.shape.latent == by_config.shape.latent == LatentShape(keyvalue=14, rope=4, query=18)
    used = {"length": 64, "reach": None, "dtype": "bfloat16"}
    assert resources(by_audit.shape, **used) == resources(by_config.shape, **used)
    older = json.loads(file.read_text())
    for layer in older["layers"]:
        del layer["latent"]
    file.write_text(json.dumps(older))
    assert situation(audit=read_report(file), config=folder).shape == by_config.shape
    with pytest.raises(InvalidInputError, match="add --config FILE or audit the model again"):
        situation(audit=read_report(file))
    older["layers"][0]["latent"] = {"keyvalue": "14", "rope": 4, "query": None}
    file.write_text(json.dumps(older))
    with pytest.raises(InvalidInputError, match=r"latent\.keyvalue: expected a whole number"):
        situation(audit=read_report(file))


@pytest.mark.parametrize(("name", "cached"), [("bert", False), ("gpt2", True), ("whisper", True)])
def test_length_and_cache_are_the_models_own(saved, tmp_path, name, cached):
    folder, file = saved(name), tmp_path / "audit.json"
    audit_weights(open_model(folder)).write(file)
    config = json.loads((folder / "config.json").read_text())
    own = context_length(config)
    for of in (situation(audit=read_report(file)), situation(config=folder)):
        assert (of.length, of.cached) == (own, cached)
        assert (advise(of).resources.kv_bytes is None) is not cached
        assert not of.assumed


@pytest.mark.parametrize(
    ("config", "length"),
    [
        ({"max_position_embeddings": 512}, 512),
        ({"model_type": "roberta", "max_position_embeddings": 514, "pad_token_id": 1}, 512),
        ({"text_config": {"max_position_embeddings": 8192}, "vision_config": {}}, 8192),
        ({"max_source_positions": 1500, "max_target_positions": 448}, 448),
        ({"general.architecture": "llama", "llama.context_length": 2048}, 2048),
        ({"max_position_embeddings": None, "n_positions": 1024}, 1024),
        ({"max_position_embeddings": True}, None),
        ({"max_position_embeddings": -1}, None),
        ({}, None),
    ],
)
def test_context_length_is_read_from_any_config(config, length):
    assert context_length(config) == length
