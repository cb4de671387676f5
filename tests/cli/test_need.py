import json
import sys

import numpy as np
import pytest
import torch
from safetensors.torch import save_file

from rankwise.cli import main
from rankwise.errors import InvalidInputError
from rankwise.models.running.model import running_from
from rankwise.need.document import read_need
from tiny_models import tiny_model


@pytest.fixture
def keys(tmp_path):
    path = tmp_path / "keys.npy"
    random = np.random.default_rng(0)
    np.save(path, random.standard_normal((400, 3)) @ random.standard_normal((3, 8)))
    return path


def test_json_figure_and_advice_from_it(capsys, tmp_path, keys):
    figure = tmp_path / "out" / "need.png"
    assert main(["need", str(keys), "--steps", "4", "--json", "--figure", str(figure)]) == 0
    captured = capsys.readouterr()
    read = json.loads(captured.out, parse_constant=pytest.fail)
    assert read["format"] == "rankwise-need/1"
    (one,) = read["measurements"]
    assert one["need_low"] <= one["need"] <= one["need_high"] <= 3
    assert figure.read_bytes().startswith(b"\x89PNG")
    saved = tmp_path / "need.json"
    saved.write_text(captured.out)
    assert read_need(saved).most_demanding.need == one["need"]
    assert main(["advise", "--need", str(saved), "--heads", "2"]) == 0
    assert "need, measured" in capsys.readouterr().out


def test_text_has_the_number_first(capsys, tmp_path):
    path = tmp_path / "both.safetensors"
    vectors = torch.randn(300, 4, generator=torch.Generator().manual_seed(0))
    save_file({"keys": vectors, "queries": vectors + 1}, path)
    assert main(["need", str(path), "--steps", "0"]) == 0
    shown = capsys.readouterr().out
    assert shown.startswith("Need: rank ")
    assert "It does not mean" in shown


def test_equal_keys_have_no_participation_ratio_to_compare_with(capsys, tmp_path):
    np.save(tmp_path / "equal.npy", np.full((200, 4), 0.25))
    assert main(["need", str(tmp_path / "equal.npy"), "--steps", "0", "--page", str(tmp_path / "need.html")]) == 0
    shown = capsys.readouterr().out
    assert "Isotropic vectors would need" in shown
    assert "times the participation ratio" not in shown


def test_texts_are_no_longer_than_the_model_by_default(capsys, monkeypatch, tmp_path):
    from transformers import ByT5Tokenizer

    def show(running, tokens, **_):
        raise InvalidInputError(f"was given {list(tokens.shape)}")

    running = running_from(tiny_model("bert"), objective="embedding", tokenizer=ByT5Tokenizer())
    monkeypatch.setattr("rankwise.models.load_running", lambda _: running)
    monkeypatch.setattr("rankwise.need.measure_model_need", show)
    (tmp_path / "text").write_text("a" * 2 * (64 - 1))  # pieces end with a token of their own
    assert main(["need", "--model", str(tmp_path), "--text", str(tmp_path / "text"), "--json"]) == 2
    assert "was given [2, 64]" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([], "expected either a file of vectors or --model"),
        (["none.npy"], "no such file"),
        (["--model", "x"], "expected --text FILE"),
        (["none.npy", "--text", "x"], "--text: only with --model"),
        (["none.npy", "--layers", "0"], "--layers: only with --model"),
        (["none.npy", "--length", "256"], "--length: only with --model"),
        (["none.npy", "--pieces", "0"], "--pieces: only with --model"),
        (["none.npy", "--target", "2"], "target"),
        (["none.npy", "--figure", "x.gif"], "--figure: expected a file that ends in .png"),
    ],
)
def test_mistakes_exit_2_without_a_traceback(capsys, arguments, message):
    assert main(["need", *arguments]) == 2
    captured = capsys.readouterr()
    assert message in captured.err
    assert captured.out == ""


def test_a_missing_extra_is_named_before_the_work(monkeypatch, capsys, keys):
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    assert main(["need", str(keys), "--figure", "x.png"]) == 2
    assert "rankwise[report]" in capsys.readouterr().err
