"""A whole audit: what it says of random models, of the layers, and of itself when written and read."""

import json
from dataclasses import replace

import numpy as np
import pytest
import torch

from rankwise.audit.audit import audit_weights
from rankwise.audit.report import FORMAT, read_report
from rankwise.errors import InvalidInputError
from rankwise.models.files.source import open_model
from rankwise.models.layouts import place
from tiny_models import tiny_model


@pytest.fixture(scope="module")
def report(saved):
    return audit_weights(open_model(saved("qwen2")))


def fresh(name, folder, **changes):
    """A model as it is initialised: gains 1, biases 0."""
    model = tiny_model(name, **changes)
    torch.manual_seed(11)
    with torch.no_grad():
        for key, parameter in model.named_parameters():
            gain = 0.0 if key.endswith("bias") else 1.0
            parameter.copy_(
                torch.full_like(parameter, gain) if parameter.ndim == 1 else 0.02 * torch.randn_like(parameter)
            )
    model.save_pretrained(folder)
    return open_model(folder)


@pytest.mark.parametrize("name", ["bert", "gpt2", "llama", "falcon-grouped", "whisper", "t5"])
def test_random_models_lie_within_the_baseline_and_are_not_called_redundant(name, tmp_path):
    found = audit_weights(fresh(name, tmp_path))
    for layer in found.layers:
        for head in layer.head_reports:
            for ranks, expected in ((head.qk, layer.qk_baseline), (head.ov, layer.ov_baseline)):
                for measure in ("effective", "stable", "energy_90", "energy_99"):
                    interval = getattr(expected, measure)
                    assert interval.low <= getattr(ranks, measure) <= interval.high, (layer.name, head.head, measure)
        assert not any(pair.redundant for pair in layer.overlaps)


def test_what_a_layer_says(report):
    first = report.layers[0]
    assert (first.name, first.heads, first.kv_heads, first.rank, first.dim) == ("decoder 0", 6, 2, 8, 42)
    assert (first.mask, first.rotary, first.qk_norm, first.pairs) == ("causal", True, False, 15)
    assert "gain of the rms norm before the queries" in first.folded_in
    head = first.head_reports[4]
    assert (head.head, head.kv_head) == (4, 1)
    assert [at.distance for at in head.at_distance] == [1, 16, 256, 4096]
    assert head.qk_with_bias is not None
    assert head.qk.numerical == len(head.qk_singular_values) == 8
    assert head.qk_norm == pytest.approx(first.scale * np.linalg.norm(head.qk_singular_values), rel=1e-9)
    assert 1 <= head.qk.stable <= head.qk.effective <= 8
    assert head.qk.energy_90 <= head.qk.energy_99 <= 8
    assert report.heads == 12


@pytest.mark.parametrize(
    ("name", "told"),
    [("qwen3", "QK-norm"), ("t5", "relative bias"), ("falcon-alibi", "alibi bias"), ("gemma2", "soft-capped"),
     ("deepseek-v3", "latent"), ("bert", "norm stands behind")],
)  # fmt: skip
def test_what_weights_cannot_tell_is_said(name, told, saved):
    assert any(told in note for layer in audit_weights(open_model(saved(name))).layers for note in layer.notes)


def test_distances_end_at_the_window(tmp_path):
    tiny_model("mistral", sliding_window=17).save_pretrained(tmp_path)
    (head, *_) = audit_weights(open_model(tmp_path)).layers[0].head_reports
    assert [at.distance for at in head.at_distance] == [1, 16]


@pytest.mark.parametrize("name", ["gpt2", "qwen2", "whisper", "deepseek-v3"])
def test_written_and_read_it_is_the_same_and_strict_json(name, saved, tmp_path):
    written = audit_weights(open_model(saved(name)))
    written.write(tmp_path / "audit.json")

    def refuse(constant):
        raise AssertionError(constant)

    values = json.loads((tmp_path / "audit.json").read_text(), parse_constant=refuse)
    assert values["format"] == FORMAT == "rankwise-audit/1"
    read = read_report(tmp_path / "audit.json")
    assert read.to_json() == written.to_json()
    assert read.layers[0].head_reports[0].qk.energy_90 == written.layers[0].head_reports[0].qk.energy_90
    read.write(tmp_path / "again.json")
    assert (tmp_path / "again.json").read_text() == (tmp_path / "audit.json").read_text()


@pytest.mark.parametrize(
    "content", ["[]", "{}", '{"format": "rankwise-audit/2"}', '{"format": "rankwise-audit/1"}', "x"]
)
def test_a_file_that_is_no_report(content, tmp_path):
    (tmp_path / "x.json").write_text(content)
    with pytest.raises(InvalidInputError, match=r"x\.json: "):
        read_report(tmp_path / "x.json")
    with pytest.raises(InvalidInputError, match="no such file"):
        read_report(tmp_path / "nothing.json")


def test_reports_hold_no_number_that_json_cannot(report):
    broken = replace(report.layers[0], scale=float("nan"))
    with pytest.raises(ValueError, match="finite"):
        replace(report, layers=(broken,)).to_json()


def test_layers_are_read_one_at_a_time(saved, monkeypatch):
    """While a layer is measured nothing of another has been read."""
    source = open_model(saved("llama"))
    placement = place(source)
    reads = []
    plain = type(source).read
    monkeypatch.setattr(type(source), "read", lambda self, name: reads[-1].append(name) or plain(self, name))
    steps = []

    def watched(what, done, total):
        steps.append((done, total))
        reads.append([])

    audit_weights(source, placement, progress=watched)
    assert steps == [(0, 2), (1, 2)]
    for layer, names in zip(placement.layers, reads, strict=True):
        assert sorted(names) == sorted(layer.tensors)  # each tensor once, no other
