"""GGUF files as the reference library writes them."""

import numpy as np
import pytest

from rankwise.audit.files.source import open_model
from rankwise.audit.layouts import attention_layers, load_layer
from rankwise.audit.weights.audit import audit_weights
from rankwise.errors import InvalidInputError, MissingExtraError

gguf = pytest.importorskip("gguf", reason="GGUF files need the extra gguf")
DIM, HEADS, GROUPS, RANK, LAYERS = 64, 6, 2, 8, 2


def write(path, architecture="llama", quantisation="F32", edit=None, **metadata):
    """A small model; ``edit`` may change a layer's tensors; they are returned."""
    writer = gguf.GGUFWriter(path, architecture)
    writer.add_block_count(LAYERS)
    writer.add_embedding_length(DIM)
    writer.add_head_count(HEADS)
    writer.add_head_count_kv(GROUPS)
    writer.add_key_length(RANK)
    writer.add_value_length(RANK)
    writer.add_rope_dimension_count(RANK)
    writer.add_token_list([f"token {i}" for i in range(5000)])
    writer.add_token_scores([0.5] * 5000)
    for key, value in metadata.items():
        writer.add_uint32(f"{architecture}.{key}", value)
    rng = np.random.default_rng(0)
    written = {}
    for layer in range(LAYERS):
        tensors = {
            "attn_norm": np.ones(DIM), "attn_q": rng.normal(size=(HEADS * RANK, DIM)),
            "attn_k": rng.normal(size=(GROUPS * RANK, DIM)), "attn_v": rng.normal(size=(GROUPS * RANK, DIM)),
            "attn_output": rng.normal(size=(DIM, HEADS * RANK)),
        }  # fmt: skip
        if edit is not None:
            edit(tensors)
        for name, tensor in tensors.items():
            kind = gguf.GGMLQuantizationType[quantisation if tensor.ndim == 2 and tensor.shape[1] % 32 == 0 else "F32"]
            data = gguf.quants.quantize(tensor.astype(np.float32), kind)
            writer.add_tensor(f"blk.{layer}.{name}.weight", data, raw_dtype=kind)
            written[f"blk.{layer}.{name}.weight"] = gguf.quants.dequantize(data, kind).reshape(tensor.shape)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return written


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
        (first, *_) = attention_layers(open_model(tmp_path / f"{name}.gguf")).layers
        assert first.rope.interleaved is interleaved
        assert first.mask == "causal"


def test_gemma_alternates_and_gains_are_complete(tmp_path):
    write(tmp_path / "m.gguf", architecture="gemma2", **{"attention.sliding_window": 7})
    source = open_model(tmp_path / "m.gguf")
    layers = attention_layers(source).layers
    assert [(layer.mask, layer.window) for layer in layers] == [("window", 7), ("causal", None)]
    assert (load_layer(source, layers[0]).query_norm.gain == 1).all()


def test_what_the_metadata_says_is_checked_against_the_tensors(tmp_path):
    write(tmp_path / "m.gguf", architecture="llama")
    write(tmp_path / "bert.gguf", architecture="bert")
    with pytest.raises(InvalidInputError, match=r"general\.architecture: expected one of llama"):
        attention_layers(open_model(tmp_path / "bert.gguf"))

    def widen(tensors):
        tensors["attn_q"] = np.zeros((HEADS * 2 * RANK, DIM))

    write(tmp_path / "lie.gguf", edit=widen)
    with pytest.raises(InvalidInputError, match=r"expected shape \[48, 64\].*6 heads of 8.*got \[96, 64\]"):
        attention_layers(open_model(tmp_path / "lie.gguf"))


def test_without_the_package_the_extra_is_named(tmp_path, monkeypatch):
    write(tmp_path / "m.gguf")
    monkeypatch.setitem(__import__("sys").modules, "gguf", None)
    with pytest.raises(MissingExtraError, match=r"rankwise\[gguf\]"):
        open_model(tmp_path / "m.gguf")
