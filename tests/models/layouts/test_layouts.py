"""Blocks, folding, mappings and what is told about the rest."""

import json
import re
import shlex
import shutil

import numpy as np
import pytest
import torch
import transformers
from hypothesis import given
from hypothesis import strategies as st
from safetensors.torch import load_file, save_file

from rankwise.audit.audit import audit_weights
from rankwise.errors import InvalidInputError, ShapeError
from rankwise.models.files.source import open_model
from rankwise.models.layouts import TensorNames, TensorSlice, load_layer, place
from rankwise.models.layouts.masks import layer_kind, mask_of
from rankwise.shapes.config import ConfigPart
from tiny_heads import heads_of
from tiny_models import CONFIGS, tiny_model


@given(st.integers(1, 4), st.integers(1, 5), st.integers(0, 1), st.booleans(), st.integers(0, 2**32 - 1))
def test_put_undoes_take(heads, rank, axis, scattered, seed):
    rng = np.random.default_rng(seed)
    size = heads * rank + 3
    stored = rng.normal(size=(size, 7) if axis == 0 else (7, size))
    order = rng.permutation(size) if scattered else np.arange(2, size)
    block = TensorSlice("w", order[: heads * rank].reshape(heads, rank), axis)
    taken = block.take(stored)
    assert taken.shape == (heads, rank, 7)
    np.testing.assert_array_equal(block.put(stored, taken), stored)
    changed = block.put(stored, taken + 1)
    np.testing.assert_array_equal(block.take(changed), taken + 1)
    assert (changed != stored).sum() == taken.size  # and nothing else
    with pytest.raises(ShapeError, match="expected a block"):
        block.put(stored, taken[..., :3])


@pytest.mark.parametrize("name", CONFIGS)
def test_blocks_lie_where_the_models_own_modules_have_them(name, saved):
    source = open_model(saved(name))
    theirs = heads_of(name, tiny_model(name))
    for ref, layer in zip(place(source).layers, theirs, strict=True):
        weights = load_layer(source, ref)
        for part in "qkvo":
            block = getattr(ref, part)
            ours = block.take(source.read(block.tensor))
            np.testing.assert_array_equal(ours, torch.stack(getattr(layer, part)).numpy())
            loaded = getattr(weights, part)
            np.testing.assert_array_equal(loaded[:, : ours.shape[1], : ours.shape[2]], ours)


@pytest.mark.parametrize(
    "name", ["gpt2", "llama", "qwen3", "qwen3-biased", "gemma3", "whisper", "t5", "falcon-grouped"]
)
def test_folding_moves_gains_and_shifts_behind_the_norm(name, saved):
    """q (g x + s) + b = (q g) x + (q s + b), and the same for keys and values."""
    source = open_model(saved(name))
    rng = np.random.default_rng(0)
    for ref in place(source).layers:
        raw = load_layer(source, ref)
        folded = raw.folded()
        assert folded.folded_in
        for part, norm in (("q", raw.query_norm), ("k", raw.key_norm), ("v", raw.key_norm)):
            x = rng.normal(size=ref.dim)
            shift = 0 if norm.bias is None else norm.bias
            behind = getattr(raw, part) @ (norm.gain * x + shift)
            ahead = getattr(folded, part) @ x
            bias = getattr(raw, f"{part}_bias")
            behind = behind if bias is None else behind + bias
            if (head_norm := {"q": raw.q_head_norm, "k": raw.k_head_norm}.get(part)) is not None:
                behind = behind * head_norm.gain
            moved = getattr(folded, f"{part}_bias")
            np.testing.assert_allclose(ahead if moved is None else ahead + moved, behind, rtol=1e-4, atol=1e-4)


def test_gemma_gains_have_the_one_added(saved):
    source = open_model(saved("gemma2"))
    ref = place(source).layers[0]
    stored = source.read("layers.0.input_layernorm.weight")
    np.testing.assert_array_equal(load_layer(source, ref).query_norm.gain, stored + 1)


@pytest.mark.parametrize("kv_heads", [None, 2])
def test_a_mapping_by_names_equals_the_layout(kv_heads, saved):
    name = "bert" if kv_heads is None else "llama"
    source = open_model(saved(name))
    stem = "encoder.layer.{layer}.attention." if kv_heads is None else "layers.{layer}.self_attn."
    parts = ("self.query", "self.key", "self.value", "output.dense") if kv_heads is None else (
        "q_proj", "k_proj", "v_proj", "o_proj")  # fmt: skip
    q, k, v, o = (f"{stem}{part}.weight" for part in parts)
    names = TensorNames(q=q, k=k, v=v, o=o, heads=5 if kv_heads is None else 6, kv_heads=kv_heads)
    known, mapped = place(source).layers, place(source, names).layers
    assert len(known) == len(mapped) == 2
    for one, other in zip(known, mapped, strict=True):
        for part in "qkvo":
            ours, theirs = (getattr(load_layer(source, ref), part) for ref in (one, other))
            np.testing.assert_array_equal(ours, theirs)


def test_a_mapping_of_one_transposed_matrix_and_without_values(saved):
    source = open_model(saved("gpt2"))
    fused = "h.{layer}.attn.c_attn.weight"
    names = TensorNames(
        q=fused, k=fused, v=fused, o="h.{layer}.attn.c_proj.weight", heads=5, transposed=True, order="turn"
    )
    for one, other in zip(place(source).layers, place(source, names).layers, strict=True):
        for part in "qkvo":
            ours, theirs = (getattr(load_layer(source, ref), part) for ref in (one, other))
            np.testing.assert_array_equal(ours, theirs)
    llama = open_model(saved("llama"))
    alone = TensorNames(q="layers.1.self_attn.q_proj.weight", k="layers.1.self_attn.k_proj.weight", heads=6, kv_heads=2)
    placement = place(llama, alone)
    (layer,) = audit_weights(llama, placement).layers
    assert layer.ov_baseline is None
    assert all(head.ov is None and head.qk.numerical == 8 for head in layer.head_reports)
    assert any("o_proj" in item.what for item in placement.unsupported)  # what was not named is told


def test_a_mapping_whose_queries_are_its_keys(saved):
    source = open_model(saved("bert"))
    stem = "encoder.layer.{layer}.attention."
    q, v, o = (f"{stem}{part}.weight" for part in ("self.query", "self.value", "output.dense"))
    for ref in place(source, TensorNames(q=q, k=q, v=v, o=o, heads=5)).layers:
        weights = load_layer(source, ref)
        np.testing.assert_array_equal(weights.q, weights.k)
        assert weights.v.shape == (5, 8, 40)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"q": "nothing.{layer}"}, "expected tensors named like 'nothing.{layer}', got none"),
        ({"k": "layers.{layer}.nothing"}, "expected a tensor named 'layers.0.nothing'"),
        ({"heads": 10}, "check --heads"),
        ({"heads": 0}, "heads: expected at least 1"),
        ({"kv_heads": 4}, "kv_heads: expected a divisor of the 6 heads, got 4"),
        ({"kv_heads": 1}, "got 48 and 16; check"),
        ({"v": None}, "v and o: expected both or neither"),
        ({"o": "layers.{layer}.mlp.down_proj.weight"}, "expected 42 outputs of 6 heads of 8"),
        ({"q": "layers.{layer}.input_layernorm.weight"}, "expected a matrix"),
    ],
)
def test_mappings_that_cannot_be_meant(saved, change, message):
    good = {part: f"layers.{{layer}}.self_attn.{part}_proj.weight" for part in "qkvo"} | {"heads": 6, "kv_heads": 2}
    with pytest.raises(InvalidInputError) as error:
        place(open_model(saved("llama")), TensorNames(**good | change))
    assert message in str(error.value)


def test_attention_that_no_layer_covers_is_listed(saved, tmp_path):
    folder = shutil.copytree(saved("llama"), tmp_path / "model")
    tensors = load_file(folder / "model.safetensors")
    for layer in range(3):
        tensors[f"vision.blocks.{layer}.attn.qkv.weight"] = torch.zeros(6, 2)
        tensors[f"audio.stack.{layer}.attention.weight"] = torch.zeros(6, 2)
    save_file(tensors, folder / "model.safetensors")
    refused, unknown = place(open_model(folder)).unsupported
    assert refused.what == "vision.blocks.N.attn.qkv.weight"
    assert "expected shape [144, 2], because the configuration says" in refused.reason
    assert unknown.what == "audio.stack.N.attention.weight"
    assert unknown.reason == "3 tensors of no layer that was found"


def test_packed_weights_are_unsupported_with_the_reason_and_never_an_empty_table(saved, tmp_path):
    folder = shutil.copytree(saved("llama"), tmp_path / "model")
    tensors = load_file(folder / "model.safetensors")
    first = "layers.0.self_attn.q_proj.weight"
    save_file(tensors | {first: tensors[first].to(torch.int8)}, folder / "model.safetensors")
    placement = place(open_model(folder))
    assert [layer.name for layer in placement.layers] == ["decoder 1"]
    assert [(item.what, "I8" in item.reason) for item in placement.unsupported] == [("decoder 0", True)]
    second = "layers.1.self_attn.k_proj.weight"
    spoilt = {first: tensors[first].to(torch.int8), second: tensors[second].to(torch.int8)}
    save_file(tensors | spoilt, folder / "model.safetensors")
    with pytest.raises(InvalidInputError, match="expected attention layers that can be read, got none: decoder 0"):
        place(open_model(folder))


def test_a_model_with_a_head_on_top_and_one_of_several_parts(saved, tmp_path):
    """Prefixes in front of the names, and a configuration with a text part, change nothing."""
    for name, prefix in (("llama", "model."), ("gemma3", "model.language_model.")):
        folder = shutil.copytree(saved(name), tmp_path / name)
        tensors = load_file(folder / "model.safetensors")
        save_file({prefix + key: value for key, value in tensors.items()}, folder / "model.safetensors")
        config = json.loads((folder / "config.json").read_text())
        if name == "gemma3":
            config = {"model_type": "gemma3", "text_config": config}
            (folder / "config.json").write_text(json.dumps(config))
        assert len(place(open_model(folder)).layers) == 2


def test_the_layers_that_see_are_not_taken_for_those_of_the_text(saved, tmp_path):
    folder = shutil.copytree(saved("gemma3"), tmp_path / "model")
    tensors = load_file(folder / "model.safetensors")
    seeing = {
        f"model.vision_tower.vision_model.encoder.layers.{layer}.self_attn.{part}_proj.weight": torch.zeros(6, 6)
        for layer in range(2)
        for part in "qkvo"
    }
    text = {f"model.language_model.{name}": tensor for name, tensor in tensors.items()}
    save_file(seeing | text, folder / "model.safetensors")
    config = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps({"model_type": "gemma3", "text_config": config}))
    placement = place(open_model(folder))
    assert [layer.q.tensor for layer in placement.layers] == [
        f"model.language_model.layers.{layer}.self_attn.q_proj.weight" for layer in range(2)
    ]
    assert {item.what for item in placement.unsupported} == {
        f"model.vision_tower.vision_model.encoder.layers.N.self_attn.{part}_proj.weight" for part in "qkvo"
    }
    copies = {name.replace("language_model", "other"): tensor.clone() for name, tensor in text.items()}
    save_file(text | copies, folder / "model.safetensors")
    parts = [layer.name for layer in place(open_model(folder)).layers]
    assert parts == ["decoder 0", "decoder 1", "other 0", "other 1"]


def test_older_gemma3_configurations(saved, tmp_path):
    folder = shutil.copytree(saved("gemma3"), tmp_path / "model")
    config = json.loads((folder / "config.json").read_text())
    del config["layer_types"], config["rope_parameters"]
    config |= {"sliding_window_pattern": 2, "rope_theta": 1e6, "rope_local_base_freq": 1e4, "sliding_window": 16,
               "rope_scaling": {"rope_type": "linear", "factor": 8.0}}  # fmt: skip
    (folder / "config.json").write_text(json.dumps(config))
    local, far = place(open_model(folder)).layers
    assert (local.mask, local.window, far.mask) == ("window", 16, "causal")
    np.testing.assert_allclose(local.rope.frequencies, 1e4 ** (-np.arange(4) / 4))
    np.testing.assert_allclose(far.rope.frequencies, 1e6 ** (-np.arange(4) / 4) / 8)


def test_deepseek_layers_that_predict_further_tokens_are_left_out(saved, tmp_path):
    folder = shutil.copytree(saved("deepseek-v3"), tmp_path / "model")
    tensors = load_file(folder / "model.safetensors")
    extra = {
        key.replace("layers.1.", "layers.2."): value.clone() for key, value in tensors.items() if "layers.1." in key
    }
    save_file(tensors | extra, folder / "model.safetensors")
    config = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps(config | {"num_nextn_predict_layers": 0}))
    with pytest.raises(InvalidInputError, match="expected the 2 layers of the configuration"):
        place(open_model(folder))
    (folder / "config.json").write_text(json.dumps(config | {"num_nextn_predict_layers": 1}))
    placement = place(open_model(folder))
    assert len(placement.layers) == 2
    assert any("q_b_proj" in item.what for item in placement.unsupported)


@pytest.mark.parametrize("spoil", ["no model_type", "unknown", "no config"])
def test_a_family_that_nobody_knows_is_placed_by_its_structure(saved, tmp_path, spoil):
    folder = shutil.copytree(saved("llama"), tmp_path / "model")
    config = json.loads((folder / "config.json").read_text())
    config.pop("model_type")
    if spoil == "unknown":
        config["model_type"] = "lama"
    (folder / "config.json").write_text(json.dumps({} if spoil == "no config" else config))
    if spoil == "no config":
        with pytest.raises(InvalidInputError, match="expected a configuration with the number of heads") as error:
            place(open_model(folder))
        q, o = (f"--{part} 'layers.{{layer}}.self_attn.{part}_proj.weight'" for part in "qo")
        assert f"rankwise audit {folder} {q}" in str(error.value)
        assert f"{o} --heads N" in str(error.value)
        return
    known, found = place(open_model(saved("llama"))), place(open_model(folder))
    assert (known.proof, found.proof) == ("verified", "by names alone")
    for one, other in zip(known.layers, found.layers, strict=True):
        assert (one.q.tensor, one.heads, one.kv_heads, one.rank) == (other.q.tensor, 6, 2, 8)
        assert one.scale == other.scale
        np.testing.assert_array_equal(one.rope.frequencies, other.rope.frequencies)


YARN = {"rope_type": "yarn", "factor": 8, "original_max_position_embeddings": 64}
LONG = {"rope_type": "longrope", "short_factor": [1.0] * 4, "original_max_position_embeddings": 64}


@pytest.mark.parametrize(
    ("rope", "message"),
    [
        ({"rope_theta": 10**400}, "rope_theta: expected a finite number above 0, got 1000"),
        ({"rope_type": ["x"]}, r"rope_type: expected one of .*, got \['x'\]"),
        ({"rope_type": "llama3", "factor": 8, "low_freq_factor": 1, "high_freq_factor": 1,
          "original_max_position_embeddings": 64}, "high_freq_factor: expected a finite number above 1, got 1"),
        (YARN | {"rope_theta": 1.0}, "rope_theta: expected a finite number above 1, got 1.0"),
        (LONG | {"factor": "4"}, "factor: expected a finite number above 0, got '4'"),
        (LONG | {"factor": 4, "original_max_position_embeddings": 1}, "expected a finite number above 1, got 1"),
        (LONG | {"max_position_embeddings": "64"}, "max_position_embeddings: expected a finite number above 0"),
    ],
)  # fmt: skip
def test_rotary_positions_that_cannot_be_meant(saved, tmp_path, rope, message):
    folder = shutil.copytree(saved("llama"), tmp_path / "model")
    config = json.loads((folder / "config.json").read_text()) | {"rope_parameters": {"rope_theta": 1e4} | rope}
    (folder / "config.json").write_text(json.dumps(config))
    with pytest.raises(InvalidInputError, match=message):
        place(open_model(folder))


def test_a_latent_models_stretch_needs_its_factor(saved, tmp_path):
    folder = shutil.copytree(saved("deepseek-v3"), tmp_path / "model")
    config = json.loads((folder / "config.json").read_text())
    stretched = {"type": "yarn", "mscale_all_dim": 1.0}
    (folder / "config.json").write_text(json.dumps(config | {"rope_parameters": stretched}))
    with pytest.raises(InvalidInputError, match="factor: expected a finite number above 0, got None"):
        place(open_model(folder))


def test_a_stack_that_is_not_there_says_what_was_found_and_the_way_out(saved, tmp_path):
    folder = shutil.copytree(saved("llama"), tmp_path / "model")
    tensors = load_file(folder / "model.safetensors")
    refused = []
    for word in ("self_attn.other_proj.weight", "self_attn.q_proj.qweight", "mixer.w"):
        renamed = {name.replace("self_attn.q_proj.weight", word): tensor for name, tensor in tensors.items()}
        if word == "mixer.w":
            renamed = {re.sub(r"self_attn\.(.)_proj", r"mixer.\1alpha", name): renamed[name] for name in renamed}
        save_file(renamed, folder / "model.safetensors")
        with pytest.raises(InvalidInputError) as error:
            place(open_model(folder))
        refused.append(str(error.value))
    assert f"named like layers.0.self_attn.q_proj.weight, got none in {len(tensors)} tensors" in refused[0]
    assert "found layers.{layer}.self_attn.k_proj.weight (16 x 42), " in refused[0]
    assert "--q, --k" in refused[0]
    assert "got those packed by AWQ or GPTQ (*.qweight); audit the model they were made from" in refused[1]
    assert "layers.{layer}.mixer.w (48 x 42)" in refused[2]  # a name that says nothing of attention


def test_a_folder_without_configuration_is_refused_with_the_command_that_reads_it(saved, tmp_path):
    """Filled in, the command gives what the configuration would have said."""
    folder = shutil.copytree(saved("llama"), tmp_path / "model")
    (folder / "config.json").unlink()
    with pytest.raises(InvalidInputError) as error:
        place(open_model(folder))
    said = str(error.value)
    command = said[said.index("rankwise audit ") : said.index("; or name the tensors")]
    words = shlex.split(command)
    assert words[2] == str(folder)
    options = dict(zip(words[3::2], words[4::2], strict=True))
    assert (options.pop("--heads"), options.pop("--kv-heads")) == ("N", "N/3")
    names = TensorNames(heads=6, kv_heads=2, **{name.removeprefix("--"): value for name, value in options.items()})
    source = open_model(folder)
    for ours, known in zip(place(source, names).layers, place(open_model(saved("llama"))).layers, strict=True):
        one, other = load_layer(source, ours).folded(), load_layer(source, known).folded()
        for part in "qkvo":
            np.testing.assert_array_equal(getattr(one, part), getattr(other, part))


def test_a_wrong_name_is_answered_by_the_tensor_that_does_the_same(saved):
    source = open_model(saved("llama"))
    good = {part: f"layers.{{layer}}.self_attn.{part}_proj.weight" for part in "qkvo"}
    for part in "qkvo":
        with pytest.raises(InvalidInputError) as error:
            place(source, TensorNames(**good | {part: f"blocks.{{layer}}.w{part}"}, heads=6, kv_heads=2))
        assert f"(did you mean {good[part]!r}?)" in str(error.value)


@pytest.mark.parametrize(
    ("said", "added"),
    [("relative_key", "relative key"), ("relative_key_query", "relative key and query"), ("absolute", None)],
)
def test_bert_with_vectors_of_the_distance(saved, tmp_path, said, added):
    folder = shutil.copytree(saved("bert"), tmp_path / "model")
    tensors = load_file(folder / "model.safetensors")
    config = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps(config | {"position_embedding_type": said}))
    assert place(open_model(folder), prove=False).layers[0].score_bias == added
    for layer in range(2):
        tensors[f"encoder.layer.{layer}.attention.self.distance_embedding.weight"] = torch.zeros(127, 8)
    save_file(tensors, folder / "model.safetensors")
    placement = place(open_model(folder))
    assert [item.what for item in placement.unsupported] == ["encoder.layer.N.attention.self.distance_embedding.weight"]
    for layer in placement.layers:
        assert layer.score_bias == added or added is None


@pytest.mark.parametrize("kind", [transformers.Qwen2Config, transformers.Qwen2MoeConfig, transformers.Qwen3Config])
@pytest.mark.parametrize("switched", [True, False])
def test_the_layers_of_qwen_that_slide(kind, switched):
    said = {"num_hidden_layers": 8, "use_sliding_window": switched, "max_window_layers": 5, "sliding_window": 16}
    theirs = kind(**said)
    ours = [layer_kind(ConfigPart(said), theirs.model_type, layer) for layer in range(8)]
    assert ours == theirs.layer_types


@pytest.mark.parametrize("switched", [True, False])
def test_all_layers_of_qwen3_moe_slide_or_none(switched):
    said = {"num_hidden_layers": 8, "use_sliding_window": switched, "max_window_layers": 5, "sliding_window": 16}
    theirs = transformers.Qwen3MoeConfig(**said).sliding_window
    for layer in range(8):
        expected = ("causal", None) if theirs is None else ("window", theirs)
        assert mask_of(ConfigPart(said), layer_kind(ConfigPart(said), "qwen3_moe", layer)) == expected


def test_one_tensor_in_either_order_and_the_gain_in_front(saved):
    source = open_model(saved("gpt-neox"))
    fused, o = "layers.{layer}.attention.query_key_value.weight", "layers.{layer}.attention.dense.weight"
    gain = "layers.{layer}.input_layernorm.weight"
    with pytest.raises(InvalidInputError, match=r"expected --order .*: turn .* or head"):
        place(source, TensorNames(q=fused, k=fused, v=fused, o=o, heads=5))
    by_head, in_turn = (
        place(source, TensorNames(q=fused, k=fused, v=fused, o=o, heads=5, order=order, norm=gain)).layers
        for order in ("head", "turn")
    )
    for known, right, wrong in zip(place(source).layers, by_head, in_turn, strict=True):
        ours, theirs, other = (load_layer(source, ref).folded() for ref in (right, known, wrong))
        np.testing.assert_array_equal(ours.q, theirs.q)
        np.testing.assert_array_equal(ours.v, theirs.v)
        assert not np.array_equal(other.q, theirs.q)
    with pytest.raises(InvalidInputError, match="expected a gain of 40 numbers"):
        place(source, TensorNames(q=fused, k=fused, v=fused, o=o, heads=5, order="head", norm=fused))


@pytest.mark.parametrize(
    ("names", "message"),
    [
        (["base_model.model.layers.0.self_attn.q_proj.lora_A.weight"], "got LoRA matrices"),
        (["layers.0.self_attn.q_proj.weight", "layers.0.self_attn.k_proj.weight",
          "layers.0.self_attn.q_proj.weight.quant_state.bitsandbytes__nf4"], "4-bit codes of bitsandbytes"),
    ],
)  # fmt: skip
def test_adapters_and_codes_are_called_what_they_are(names, message, tmp_path):
    """Also in folders without a configuration."""
    save_file({name: torch.zeros(4, 1, dtype=torch.uint8) for name in names}, tmp_path / "adapter_model.safetensors")
    with pytest.raises(InvalidInputError, match=message):
        place(open_model(tmp_path))
