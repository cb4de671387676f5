import json
import shutil

import numpy as np
import pytest
import torch
from safetensors.torch import load_file, save_file

from rankwise.errors import InvalidInputError, MissingExtraError
from rankwise.models.files.safetensors_file import SafetensorsFile
from rankwise.models.files.source import model_name, open_model
from tiny_models import tiny_model

NAME = "layers.0.self_attn.q_proj.weight"


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.float16, torch.bfloat16])
def test_every_number_is_widened_exactly(tmp_path, dtype):
    values = torch.randn(40, 30, generator=torch.Generator().manual_seed(0)).mul(3).to(dtype)
    save_file({"a": torch.zeros(3), "w": values}, tmp_path / "x.safetensors")
    read = open_model(tmp_path / "x.safetensors").read("w")
    assert read.dtype == (np.float64 if dtype == torch.float64 else np.float32)
    assert torch.equal(torch.from_numpy(read), values.to(torch.from_numpy(read).dtype))


def test_all_codes_of_float8(tmp_path):
    codes = torch.arange(256, dtype=torch.uint8).view(torch.float8_e4m3fn)
    save_file({"w": codes}, tmp_path / "x.safetensors")
    np.testing.assert_array_equal(SafetensorsFile(tmp_path / "x.safetensors").read("w"), codes.float().numpy())


def test_float8_codes_without_a_scale_are_not_taken_for_weights(tmp_path):
    save_file({"w": torch.zeros(4, 3, dtype=torch.float8_e4m3fn)}, tmp_path / "x.safetensors")
    source = open_model(tmp_path / "x.safetensors")
    assert not source.readable("w")
    assert source.unreadable_because("w") == "stored as F8_E4M3 without a known scale"
    with pytest.raises(InvalidInputError, match="expected the scale of its float8 codes, w_scale_inv or w_scale, got"):
        source.read("w")


@pytest.mark.parametrize("ending", ["_scale", "_scale_inv"])
@pytest.mark.parametrize("shape", [(), (1,), (1, 1), (200,), (200, 1)])
@pytest.mark.parametrize("quantization", [{}, {"weight_block_size": None}, None])
def test_float8_factors_for_the_tensor_or_for_each_row(tmp_path, ending, shape, quantization):
    codes = torch.randn(200, 300, generator=torch.Generator().manual_seed(0)).to(torch.float8_e4m3fn)
    factors = torch.rand(shape, generator=torch.Generator().manual_seed(1)) + 0.5
    save_file({"w": codes, f"w{ending}": factors}, tmp_path / "x.safetensors")
    (tmp_path / "config.json").write_text(json.dumps({"quantization_config": quantization}))
    source = open_model(tmp_path / "x.safetensors")
    assert source.readable("w")
    expected = codes.float() * (factors[:, None] if shape == (200,) else factors)
    np.testing.assert_array_equal(source.read("w"), expected.numpy())


@pytest.mark.parametrize("stated", [128, [128], [0, 128], ["a", 128]])
def test_a_float8_block_that_cannot_be_meant(tmp_path, stated):
    codes = torch.zeros(200, 300, dtype=torch.float8_e4m3fn)
    save_file({"w": codes, "w_scale_inv": torch.ones(2, 3)}, tmp_path / "x.safetensors")
    (tmp_path / "config.json").write_text(json.dumps({"quantization_config": {"weight_block_size": stated}}))
    with pytest.raises(InvalidInputError, match="weight_block_size: expected"):
        open_model(tmp_path / "x.safetensors").read("w")


def test_block_factors_of_float8_weights(tmp_path):
    values = torch.randn(200, 300, generator=torch.Generator().manual_seed(0)).to(torch.float8_e4m3fn)
    factors = torch.rand(2, 3, generator=torch.Generator().manual_seed(1)) + 0.5
    save_file({"w": values, "w_scale_inv": factors}, tmp_path / "x.safetensors")
    expected = values.float() * factors.repeat_interleave(128, 0)[:200].repeat_interleave(128, 1)[:, :300]
    np.testing.assert_array_equal(open_model(tmp_path / "x.safetensors").read("w"), expected.numpy())
    save_file({"w": values, "w_scale_inv": factors[:1]}, tmp_path / "y.safetensors")
    with pytest.raises(InvalidInputError, match=r"\[128, 128\] block of \[200, 300\], got \[1, 3\]"):
        open_model(tmp_path / "y.safetensors").read("w")


def test_a_sharded_model_reads_like_a_whole_one(saved, tmp_path):
    model = tiny_model("llama")
    model.save_pretrained(tmp_path, max_shard_size="20KB")
    assert len(list(tmp_path.glob("*.safetensors"))) > 2
    whole, sharded = open_model(saved("llama")), open_model(tmp_path)
    assert whole.tensors.keys() == sharded.tensors.keys()
    for name in whole.tensors:
        np.testing.assert_array_equal(whole.read(name), sharded.read(name))
    assert sharded.file_of(NAME).name.startswith("model-0000")


def test_an_index_may_be_larger_than_any_configuration(tmp_path):
    """That of DeepSeek-V3 has 8.9 MB."""
    tiny_model("llama").save_pretrained(tmp_path, max_shard_size="20KB")
    index = tmp_path / "model.safetensors.index.json"
    index.write_text(json.dumps(json.loads(index.read_text()) | {"metadata": {"filler": "x" * 9 * 2**20}}))
    assert open_model(tmp_path).has(NAME)


def test_a_single_file_with_its_config_given_or_beside(saved, tmp_path):
    file = tmp_path / "weights.safetensors"
    shutil.copy(saved("llama") / "model.safetensors", file)
    assert open_model(file).config == {}
    config = saved("llama") / "config.json"
    assert open_model(file, config=config).config["model_type"] == "llama"
    shutil.copy(config, tmp_path / "config.json")
    assert open_model(file).config["model_type"] == "llama"
    assert open_model(tmp_path).has(NAME)  # a folder whose one safetensors file has a name of its own


def test_what_is_no_model(saved, tmp_path):
    with pytest.raises(InvalidInputError, match=r"expected a model's folder or file, got no such path$"):
        open_model(tmp_path / "nothing")
    with pytest.raises(InvalidInputError, match="--download"):
        open_model("someone/some-model")
    with pytest.raises(InvalidInputError, match=r"config\.json: expected a JSON file, got no such file"):
        open_model(saved("llama"), config=tmp_path / "config.json")
    with pytest.raises(InvalidInputError, match=r"expected model\.safetensors or model\.safetensors\.index\.json"):
        open_model(tmp_path)
    for name in ("a", "b"):
        shutil.copy(saved("llama") / "model.safetensors", tmp_path / f"{name}.safetensors")
    with pytest.raises(InvalidInputError, match=r"got several: a\.safetensors, b\.safetensors"):
        open_model(tmp_path)
    (tmp_path / "notes.txt").write_text("hello")
    with pytest.raises(InvalidInputError, match=r"expected a \.safetensors or \.gguf file"):
        open_model(tmp_path / "notes.txt")


def test_a_download_without_the_extra_names_it(monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "huggingface_hub", None)
    with pytest.raises(MissingExtraError, match=r"rankwise\[audit\]"):
        open_model("someone/some-model", download=True)


def test_a_tensor_that_is_not_there_and_one_that_cannot_be_read(saved, tmp_path):
    source = open_model(saved("llama"))
    with pytest.raises(InvalidInputError, match=r"did you mean 'layers\.0\.self_attn\.q_proj\.weight'"):
        source.read("layers.0.self_attn.q_proj.wait")
    save_file({"w": torch.zeros(4, dtype=torch.uint8)}, tmp_path / "x.safetensors")
    packed = open_model(tmp_path / "x.safetensors")
    assert not packed.readable("w")
    with pytest.raises(InvalidInputError, match="got U8"):
        packed.read("w")


def test_a_file_that_shrinks_while_it_is_read(saved, tmp_path):
    folder = shutil.copytree(saved("llama"), tmp_path / "model")
    source = open_model(folder)
    last = max(source.tensors)
    with (folder / "model.safetensors").open("r+b") as file:
        file.truncate(2000)
    with pytest.raises(InvalidInputError, match="bytes, got"):
        source.read(last)


def test_names_for_people(saved, tmp_path):
    snapshot = tmp_path / "models--someone--some-model" / "snapshots" / "0123abcd"
    shutil.copytree(saved("llama"), snapshot)
    assert open_model(snapshot).name == "someone/some-model"
    assert open_model(saved("llama")).name == saved("llama").name
    assert model_name(tmp_path / "all-MiniLM-L6-v2" / "model") == "all-MiniLM-L6-v2/model"


def test_storage_counts_the_types(saved, tmp_path):
    tensors = load_file(saved("llama") / "model.safetensors")
    tensors[NAME] = tensors[NAME].half()
    save_file(tensors, tmp_path / "x.safetensors")
    source = open_model(tmp_path / "x.safetensors")
    assert source.storage() == {"F32": len(tensors) - 1, "F16": 1}
    assert source.storage([NAME]) == {"F16": 1}
    assert json.dumps(source.storage())


def test_an_index_and_a_single_file_of_other_weights_are_two_models(tmp_path):
    save_file({"w": torch.ones(2, 2)}, tmp_path / "model-00001-of-00001.safetensors")
    index = {"weight_map": {"w": "model-00001-of-00001.safetensors"}}
    (tmp_path / "model.safetensors.index.json").write_text(json.dumps(index))
    (tmp_path / "config.json").write_text("{}")
    assert open_model(tmp_path).has("w")
    save_file({"w": torch.zeros(2, 2)}, tmp_path / "model.safetensors")
    with pytest.raises(InvalidInputError, match="expected one source of weights"):
        open_model(tmp_path)
