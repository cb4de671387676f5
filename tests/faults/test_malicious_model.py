"""Malicious model: what a stranger's model says is checked before it is believed; nothing of it is run."""

import json
import os
import pickle
import resource
import shutil
import struct
import subprocess
import sys
import tracemalloc
import zipfile

import pytest
import torch
from safetensors.torch import load_file, save_file

from rankwise.cli import main
from rankwise.errors import InvalidInputError
from rankwise.models.files.source import open_model
from tiny_models import tiny_model

BOUND = 40 * 2**20


@pytest.fixture(scope="module")
def honest(tmp_path_factory):
    """A small Llama as it should be."""
    directory = tmp_path_factory.mktemp("honest")
    tiny_model("llama").save_pretrained(directory)
    return directory


@pytest.fixture
def model(honest, tmp_path):
    """A copy to be spoilt."""
    return shutil.copytree(honest, tmp_path / "model")


@pytest.fixture
def canary(tmp_path):
    """A file that any executed payload would remove."""
    path = tmp_path / "canary"
    path.write_text("alive")
    yield path
    assert path.read_text() == "alive"


class Payload:
    """Deletes the canary when unpickled."""

    def __init__(self, path):
        self.path = str(path)

    def __reduce__(self):
        return os.remove, (self.path,)


def refused(model, capsys, *options):
    """Exit code 2, one line, no traceback, bounded memory; the line."""
    tracemalloc.start()
    try:
        code = main(["audit", str(model), *options])
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    captured = capsys.readouterr()
    assert code == 2, captured.out
    assert captured.out == ""
    assert captured.err.count("\n") == 1
    assert "Traceback" not in captured.err
    assert peak < BOUND, peak
    return captured.err


def with_header(path, header, data=b"", size=None):
    """A safetensors file with the header as told, its length too."""
    content = header if isinstance(header, bytes) else json.dumps(header).encode()
    path.write_bytes(struct.pack("<Q", len(content) if size is None else size) + content + data)


@pytest.mark.parametrize("name", ["pytorch_model.bin", "model.safetensors"])
@pytest.mark.parametrize("form", ["pickle", "zip"])
def test_pickles_are_refused_whatever_their_name_with_the_way_to_convert_them(model, canary, capsys, name, form):
    (model / "model.safetensors").unlink()
    pickled = pickle.dumps({"weight": Payload(canary)})
    if form == "pickle":
        (model / name).write_bytes(pickled)
    else:
        with zipfile.ZipFile(model / name, "w") as archive:
            archive.writestr("archive/data.pkl", pickled)
    for path in (model, model / name):
        error = refused(path, capsys)
        assert "pickle" in error
        assert "save_pretrained" in error
        assert "AutoTokenizer" in error  # or transformers would make one up
        assert "safetensors.torch.save_file" in error


def test_code_that_a_config_names_is_not_run_and_that_is_said(model, canary, capsys):
    config = json.loads((model / "config.json").read_text())
    config["auto_map"] = {"AutoModel": "modeling_evil.EvilModel", "AutoConfig": "modeling_evil.EvilConfig"}
    (model / "config.json").write_text(json.dumps(config))
    (model / "modeling_evil.py").write_text(f"import os\nos.remove({str(canary)!r})\n")
    assert main(["audit", str(model)]) == 0
    assert "auto_map" in capsys.readouterr().out
    config["model_type"] = "evil"
    (model / "config.json").write_text(json.dumps(config))
    assert main(["audit", str(model)]) == 0
    said = capsys.readouterr().out
    assert "auto_map" in said
    assert "by names alone" in said
    assert "modeling_evil" not in sys.modules


WEIGHT = "layers.0.self_attn.q_proj.weight"


def entry(begin, end, shape, dtype="F32"):
    return {"dtype": dtype, "shape": shape, "data_offsets": [begin, end]}


HEADERS = {
    "empty file": (b"", None),
    "header of 2^60": ({}, 2**60),
    "header of 2^63": ({}, 2**63 + 5),
    "header beyond the file": ({}, 10_000),
    "not JSON": (b"{" * 100, None),
    "deeply nested": (b'{"a":' * 200_000 + b"1" + b"}" * 200_000, None),
    "a list": (b"[]", None),
    "twice the same name": (b'{"a":{"dtype":"F32","shape":[1],"data_offsets":[0,4]},' * 2 + b'"b":1}', None),
    "shape of 10^12": ({WEIGHT: entry(0, 64, [10**12])}, None),
    "shape that overflows": ({WEIGHT: entry(0, 64, [2**33, 2**33])}, None),
    "negative shape": ({WEIGHT: entry(0, 64, [-4, -4])}, None),
    "overlapping offsets": ({"a": entry(0, 64, [16]), "b": entry(32, 96, [16])}, None),
    "a hole": ({"a": entry(0, 32, [8]), "b": entry(48, 96, [12])}, None),
    "offsets beyond the file": ({WEIGHT: entry(0, 4 * 10**12, [10**12])}, None),
    "offsets backwards": ({WEIGHT: entry(64, 0, [16])}, None),
    "unknown type": ({WEIGHT: entry(0, 64, [16], "F99")}, None),
    "no offsets": ({WEIGHT: {"dtype": "F32", "shape": [16]}}, None),
    "escape sequence": ({"\x1b[2J": entry(0, 64, [16])}, None),
}


@pytest.mark.parametrize("fault", HEADERS)
def test_headers_that_lie(model, capsys, fault):
    header, size = HEADERS[fault]
    with_header(model / "model.safetensors", header, b"\0" * 96, size)
    if fault == "empty file":
        (model / "model.safetensors").write_bytes(b"")
    error = refused(model, capsys)
    assert "model.safetensors" in error
    assert "expected" in error
    assert "\x1b" not in error


def test_a_real_but_absurd_tensor_is_not_read(model, capsys):
    """A sparse file can really have the terabytes its header claims; the configuration and its shape are at odds."""
    header = json.dumps({WEIGHT: entry(0, 4 * 10**12, [10**12])}).encode()
    with (model / "model.safetensors").open("wb") as file:
        file.write(struct.pack("<Q", len(header)) + header)
        try:
            file.truncate(8 + len(header) + 4 * 10**12)
        except OSError:
            pytest.skip("the file system holds no sparse file of 4 TB")
    refused(model, capsys)
    error = refused(model, capsys, "--q", WEIGHT, "--k", WEIGHT, "--heads", "1")
    assert "expected" in error


@pytest.mark.parametrize("shard", ["../../etc/passwd", "/etc/passwd", "..\\secret.safetensors", "sub/x.safetensors", 7,
                                   "evil.bin", "../model.safetensors"])  # fmt: skip
def test_a_shard_index_cannot_point_out_of_its_folder(model, capsys, shard):
    index = {"weight_map": {WEIGHT: shard}}
    (model / "model.safetensors.index.json").write_text(json.dumps(index))
    error = refused(model, capsys)
    assert "weight_map" in error
    assert "same folder" in error


def test_a_shard_index_that_promises_what_no_shard_holds(model, capsys):
    index = {"weight_map": {"missing.weight": "model.safetensors"}}
    (model / "model.safetensors.index.json").write_text(json.dumps(index))
    assert "missing.weight" in refused(model, capsys)
    index = {"weight_map": {WEIGHT: "model-00001-of-00002.safetensors"}}
    (model / "model.safetensors").unlink()
    (model / "model.safetensors.index.json").write_text(json.dumps(index))
    assert "model-00001-of-00002.safetensors" in refused(model, capsys)


LIES = {
    "head_dim": (16, ["[96, 42]", "[48, 42]", "6 heads of 16"]),
    "num_attention_heads": (12, ["[96, 42]", "[48, 42]", "12 heads of 8"]),
    "num_key_value_heads": (3, ["[24, 42]", "[16, 42]", "3 key heads of 8"]),
    "hidden_size": (84, ["a side of 84", "42]"]),
    "num_hidden_layers": (9, ["9 layers", "got 2"]),
}


@pytest.mark.parametrize("key", LIES)
def test_a_config_that_lies_is_an_error_that_shows_both_numbers(model, capsys, key):
    lie, shown = LIES[key]
    config = json.loads((model / "config.json").read_text())
    (model / "config.json").write_text(json.dumps(config | {key: lie}))
    error = refused(model, capsys)
    for text in shown:
        assert text in error


@pytest.mark.parametrize("value", [True, 0, -1, 10**9, 10**30, 1.5, "8", [8], {"a": 1}])
@pytest.mark.parametrize("key", ["head_dim", "num_attention_heads", "num_hidden_layers"])
def test_configs_with_numbers_that_are_none(model, capsys, key, value):
    config = json.loads((model / "config.json").read_text())
    (model / "config.json").write_text(json.dumps(config | {key: value}))
    assert key in refused(model, capsys)


def test_weights_that_are_not_numbers(model, capsys):
    tensors = load_file(model / "model.safetensors")
    tensors[WEIGHT][0, 0] = torch.nan
    save_file(tensors, model / "model.safetensors")
    assert "NaN" in refused(model, capsys)


def gguf(version=3, tensors=0, pairs=0, body=b""):
    return b"GGUF" + struct.pack("<IQQ", version, tensors, pairs) + body


def text(value):
    return struct.pack("<Q", len(value)) + value


ENTRY = text(b"blk.0.attn_q.weight")
GGUFS = {
    "wrong letters": b"PK\3\4" + b"\0" * 60,
    "cut": b"GGUF\3",
    "version": gguf(version=99),
    "2^60 tensors": gguf(tensors=2**60),
    "2^60 keys": gguf(pairs=2**60),
    "name of 2^60": gguf(pairs=1, body=struct.pack("<Q", 2**60) + b"\0" * 40),
    "array of 2^60": gguf(pairs=1, body=text(b"a") + struct.pack("<IIQ", 9, 4, 2**60)),
    "array of arrays": gguf(pairs=1, body=text(b"a") + struct.pack("<IIQ", 9, 9, 1)),
    "strings beyond the file": gguf(pairs=1, body=text(b"a") + struct.pack("<IIQ", 9, 8, 9000) + b"\xff" * 80_000),
    "unknown value": gguf(pairs=1, body=text(b"a") + struct.pack("<I", 77)),
    "twice the same key": gguf(pairs=2, body=2 * (text(b"a") + struct.pack("<II", 4, 1))),
    "shape of 10^12": gguf(tensors=1, body=ENTRY + struct.pack("<IQIQ", 1, 10**12, 0, 0)),
    "10^9 dimensions": gguf(tensors=1, body=ENTRY + struct.pack("<IQIQ", 10**9, 1, 0, 0)),
    "unknown quantisation": gguf(tensors=1, body=ENTRY + struct.pack("<IQIQ", 1, 4, 9999, 0)),
    "offset beyond the file": gguf(tensors=1, body=ENTRY + struct.pack("<IQIQ", 1, 4, 0, 2**50)),
    "nothing in it": gguf(),
}


@pytest.mark.parametrize("fault", GGUFS)
def test_gguf_headers_that_lie(tmp_path, capsys, fault):
    pytest.importorskip("gguf", reason="GGUF files need the extra gguf")
    path = tmp_path / "model.gguf"
    path.write_bytes(GGUFS[fault])
    assert "model.gguf" in refused(path, capsys)


def test_all_lies_together_within_a_limit_on_the_address_space(model, tmp_path):
    """What Python's own accounting does not see (libraries, maps) is bounded too."""
    faults = tmp_path / "faults"
    faults.mkdir()
    for number, (header, size) in enumerate(HEADERS.values()):
        with_header(faults / f"{number}.safetensors", header, b"\0" * 96, size)
    code = (
        "import sys, pathlib\n"
        "from rankwise.models.files.source import open_model\n"
        "from rankwise.errors import InvalidInputError\n"
        "for path in sorted(pathlib.Path(sys.argv[1]).iterdir()):\n"
        "    try:\n"
        "        open_model(path)\n"
        "    except InvalidInputError:\n"
        "        print('refused')\n"
        "assert 'torch' not in sys.modules\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, faults],
        env=os.environ | {"PYTHONPATH": os.pathsep.join(path for path in sys.path if path), "OMP_NUM_THREADS": "1",
                          "OPENBLAS_NUM_THREADS": "1"},
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_AS, (2**30, 2**30)),
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    # "empty file" has here a header without tensors' data; all are refused
    assert done.stdout.count("refused") == len(HEADERS)


def test_the_honest_model_is_accepted(honest):
    with pytest.raises(InvalidInputError, match="no such path"):
        open_model(honest / "nothing")
    assert open_model(honest).has(WEIGHT)
