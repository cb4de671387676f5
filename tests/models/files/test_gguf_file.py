"""GGUF files as the reference library writes them."""

import numpy as np
import pytest

from gguf_files import DIM, HEADS, LAYERS, RANK
from gguf_files import write_gguf as write
from rankwise.audit.audit import audit_weights
from rankwise.errors import InvalidInputError, MissingExtraError
from rankwise.models.files.source import open_model
from rankwise.models.layouts import load_layer, place
from rankwise.models.layouts.rope import read_rope

gguf = pytest.importorskip("gguf", reason="GGUF files need the extra gguf")


@pytest.mark.parametrize("quantisation", ["F32", "F16", "BF16", "Q8_0", "Q4_0", "Q4_1"])
def test_tensors_are_read_as_the_library_dequantises_them(tmp_path, quantisation):
    written = write(tmp_path / "m.gguf", quantisation=quantisation)
    source = open_model(tmp_path / "m.gguf")
    assert source.tensors.keys() == written.keys()
    for name, tensor in written.items():
        np.testing.assert_array_equal(source.read(name), tensor)
    assert source.info("blk.0.attn_q.weight").dtype == quantisation
    assert source.config["general.architecture"] == "llama"
    assert source.config["tokenizer.ggml.tokens"] is None  # vocabularies are walked over


def test_planted_ranks_and_the_quantisation_are_told(tmp_path):
    def edit(tensors):
        tensors["attn_q"][:5] = 0  # three rows of head 0 are left
        tensors["attn_k"][RANK:] = 0  # key head 1 is gone, and with it query heads 3, 4, 5
        tensors["attn_v"][0] = 0

    write(tmp_path / "m.gguf", quantisation="Q8_0", edit=edit)
    report = audit_weights(open_model(tmp_path / "m.gguf"))
    assert report.storage == {"F32": 2 * LAYERS, "Q8_0": 3 * LAYERS}
    for layer in report.layers:
        assert [head.qk.numerical for head in layer.head_reports] == [3, 8, 8, 0, 0, 0]
        assert [head.ov.numerical for head in layer.head_reports] == [7, 7, 7, 8, 8, 8]


def test_llamas_pairs_are_neighbours_in_gguf_and_halves_elsewhere(tmp_path):
    write(tmp_path / "llama.gguf")
    write(tmp_path / "qwen2.gguf", architecture="qwen2")
    for name, interleaved in (("llama", True), ("qwen2", False)):
        (first, *_) = place(open_model(tmp_path / f"{name}.gguf")).layers
        assert first.rope.interleaved is interleaved
        assert first.mask == "causal"


def rope_of(path, architecture="llama", **metadata):
    write(path, architecture=architecture, **metadata)
    return place(open_model(path)).layers[-1].rope


def test_stretched_positions_are_those_a_configuration_would_state(tmp_path):
    stated = {"rope.scaling.type": "yarn", "rope.scaling.factor": 4.0, "rope.scaling.original_context_length": 32}
    found = rope_of(tmp_path / "m.gguf", "qwen2", **stated)
    yarn = {"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 32}
    expected = read_rope({"rope_scaling": yarn}, RANK)
    np.testing.assert_array_equal(found.frequencies, expected.frequencies)
    assert found.amplitude == expected.amplitude == pytest.approx(1 + 0.1 * np.log(4))
    plain = 10_000.0 ** (-np.arange(0, RANK, 2) / RANK)
    assert found.frequencies[-1] == pytest.approx(plain[-1] / 4)

    more = {"rope.scaling.yarn_attn_factor": 0.5, "rope.scaling.yarn_beta_fast": 16.0}
    found = rope_of(tmp_path / "more.gguf", "qwen2", **stated | more)
    expected = read_rope({"rope_scaling": yarn | {"beta_fast": 16.0}}, RANK)
    np.testing.assert_array_equal(found.frequencies, expected.frequencies)
    assert found.amplitude == 0.5 * expected.amplitude

    shorter = {key: stated[key] for key in ("rope.scaling.type", "rope.scaling.factor")}
    found = rope_of(tmp_path / "trained.gguf", "qwen2", **shorter, context_length=32)
    np.testing.assert_array_equal(found.frequencies, read_rope({"rope_scaling": yarn}, RANK).frequencies)


def test_linear_stretch_with_and_without_its_factor(tmp_path):
    plain = rope_of(tmp_path / "plain.gguf").frequencies
    linear = rope_of(tmp_path / "m.gguf", **{"rope.scaling.type": "linear", "rope.scaling.factor": 2.0})
    np.testing.assert_array_equal(linear.frequencies, plain / 2)
    without = rope_of(tmp_path / "without.gguf", **{"rope.scaling.type": "linear"})
    np.testing.assert_array_equal(without.frequencies, plain)
    with pytest.raises(InvalidInputError, match=r"rope_type: expected one of .*, got 'spiral'"):
        rope_of(tmp_path / "x.gguf", **{"rope.scaling.type": "spiral", "rope.scaling.factor": 2.0})


def test_gemma_alternates_and_gains_are_complete(tmp_path):
    write(tmp_path / "m.gguf", architecture="gemma2", **{"attention.sliding_window": 7})
    source = open_model(tmp_path / "m.gguf")
    layers = place(source).layers
    assert [(layer.mask, layer.window) for layer in layers] == [("window", 7), ("causal", None)]
    assert (load_layer(source, layers[0]).query_norm.gain == 1).all()


@pytest.mark.parametrize(("architecture", "layers"), [("gemma2", 46), ("gemma3", 62)])
def test_the_largest_gemmas_divide_scores_by_the_root_of_dim_over_heads(tmp_path, architecture, layers):
    for count, divisor in ((layers, DIM // HEADS), (LAYERS, RANK)):
        write(tmp_path / "m.gguf", architecture=architecture, layers=count)
        assert {layer.scale for layer in place(open_model(tmp_path / "m.gguf")).layers} == {divisor**-0.5}


def test_what_the_metadata_says_is_checked_against_the_tensors(tmp_path):
    write(tmp_path / "m.gguf", architecture="llama")
    write(tmp_path / "bert.gguf", architecture="bert")
    with pytest.raises(InvalidInputError, match=r"general\.architecture: expected one of llama"):
        place(open_model(tmp_path / "bert.gguf"))

    def widen(tensors):
        tensors["attn_q"] = np.zeros((HEADS * 2 * RANK, DIM))

    write(tmp_path / "lie.gguf", edit=widen)
    with pytest.raises(InvalidInputError, match=r"expected shape \[48, 64\].*6 heads of 8.*got \[96, 64\]"):
        place(open_model(tmp_path / "lie.gguf"))


def test_without_the_package_the_extra_is_named(tmp_path, monkeypatch):
    write(tmp_path / "m.gguf")
    monkeypatch.setitem(__import__("sys").modules, "gguf", None)
    with pytest.raises(MissingExtraError, match=r"rankwise\[gguf\]"):
        open_model(tmp_path / "m.gguf")
