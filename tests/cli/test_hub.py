"""Every command that takes a model takes one of the hub, with --download alone; tried against an imitation of it."""

import json
import os
import subprocess
import sys

import pytest
from transformers import PreTrainedTokenizerFast

from hub_imitation import FREE, GATED, hub_of
from saved_models import saved, tiny_language_model

SCRIPT = """
import contextlib, io, json, sys
from rankwise.cli import main
told = []
for command in json.loads(sys.stdin.read()):
    out, err = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        try:
            code = main(command)
        except SystemExit as stop:
            code = stop.code
    told.append([code, out.getvalue(), err.getvalue()])
print(json.dumps(told))
"""


def run(commands, place, **environment):
    """Exit code, stdout and stderr of each command, all in one process whose hub is the imitation."""
    own = {key: value for key, value in os.environ.items() if not key.startswith("HF_")}
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT], input=json.dumps(commands), capture_output=True, text=True, cwd=place,
        env=own | {"HF_HOME": str(place / "hub")} | environment, check=False, timeout=300,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A model with a tokenizer, and files that must not be fetched."""
    from tokenizers import Tokenizer, models, pre_tokenizers

    place = saved(tiny_language_model("llama"), tmp_path_factory.mktemp("model"))
    words = Tokenizer(models.WordLevel({f"w{number}": number for number in range(50)}, unk_token="w0"))
    words.pre_tokenizer = pre_tokenizers.Whitespace()
    PreTrainedTokenizerFast(tokenizer_object=words, unk_token="w0").save_pretrained(place)
    (place / "modeling.py").write_text("raise SystemExit('executed')")
    (place / "pytorch_model.bin").write_bytes(b"pickle")
    (place / "onnx").mkdir()
    (place / "onnx" / "model.safetensors").write_bytes(b"another form")
    return place


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    folder = tmp_path_factory.mktemp("work")
    (folder / "text.txt").write_text(" ".join(f"w{number * number % 50}" for number in range(600)))
    return folder


def commands(name):
    reduce = ["reduce", name, "--keep", "0.5", "--method", "weights", "--context", "0", "--no-recall", "--json"]
    return {
        "models": ["models", "--config", name, "--json"],
        "advise": ["advise", "--config", name, "--json"],
        "audit": ["audit", name, "--json"],
        "need": ["need", "--model", name, "--text", "text.txt", "--length", "32", "--steps", "0", "--json"],
        "reduce": reduce,
    }


def test_every_command_that_takes_a_model_takes_one_of_the_hub(folder, place):
    with hub_of(folder) as (address, asked):
        fetched = [[*command, "--download"] for command in commands(f"hf://{FREE}").values()]
        told = run(fetched, place, HF_ENDPOINT=address)
    assert [code for code, _, _ in told] == [0] * len(told), told
    answers = dict(zip(commands(""), (json.loads(out) for _, out, _ in told), strict=True))
    assert answers["audit"]["model"] == answers["need"]["source"]["model"] == answers["reduce"]["model"] == FREE
    assert answers["models"]["models"][-1]["heads"] == 6
    files = {path.rpartition("/")[2] for path in asked if "/resolve/" in path}
    assert {"config.json", "model.safetensors", "tokenizer.json"} <= files
    assert not any("modeling.py" in path or ".bin" in path or "onnx" in path for path in asked)
    # what was fetched stays: the same name needs no hub, and is the same as the folder itself
    again = [*commands(FREE)["audit"], "--download"]
    [[code, out, err]] = run([again], place, HF_ENDPOINT=address)
    assert code == 0, err
    [[_, local, _]] = run([["audit", str(folder), "--json"]], place)
    assert {**json.loads(out), "model": ""} == {**json.loads(local), "model": ""} == {**answers["audit"], "model": ""}


def test_nothing_is_asked_of_the_hub_without_the_option(folder, tmp_path):
    (tmp_path / "text.txt").write_text("w1 w2")
    with hub_of(folder) as (address, asked):
        told = run([*commands(FREE).values(), *commands(f"hf://{FREE}").values()], tmp_path, HF_ENDPOINT=address)
    assert not asked
    for code, _, err in told:
        assert code == 2
        assert "--download" in " ".join(err.split())


def test_what_the_hub_refuses_is_told_with_what_to_do(folder, tmp_path):
    names = [GATED, "someone/missing", f"hf://{FREE}@nowhere", f"hf://{FREE}/model.gguf", "hf://a b"]
    with hub_of(folder) as (address, _):
        told = run([["audit", name, "--download"] for name in names], tmp_path, HF_ENDPOINT=address)
    offline = run([["audit", FREE, "--download"]], tmp_path / "..", HF_ENDPOINT=address)  # which is gone by now
    switched_off = run([["audit", FREE, "--download"]], tmp_path, HF_HUB_OFFLINE="1")
    messages = [" ".join(err.split()) for _, _, err in told + offline + switched_off]
    assert [code for code, _, _ in told + offline + switched_off] == [2] * len(messages), messages
    for message, expected in zip(
        messages,
        ["a gated one; accept its terms", "none of that name", "got 'nowhere'", "expected model.gguf in it",
         "expected hf://owner/name", "no copy from before", "no copy from before"],
        strict=True,
    ):  # fmt: skip
        assert expected in message


def test_a_name_is_fetched_after_models_were_run(folder, place):
    """Running a model keeps the hub's client from the network meanwhile, not for the rest of the process."""
    run_first = ["audit", str(folder), "--text", "text.txt", "--length", "32", "--json"]
    with hub_of(folder) as (address, asked):
        told = run([run_first, ["audit", f"hf://{FREE}@main", "--download", "--json"]], place, HF_ENDPOINT=address)
    assert [code for code, _, _ in told] == [0, 0], told
    assert any("revision/main" in path for path in asked)
