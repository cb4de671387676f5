import json
import shutil
import subprocess
import sys

import pytest

from rankwise.audit.report import read_report
from rankwise.cli import main
from rankwise.errors import InvalidInputError
from tiny_heads import heads_of
from tiny_models import tiny_model


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A grouped model with one head of rank 1 and two heads alike."""
    path = tmp_path_factory.mktemp("cli") / "tiny-llama"
    model = tiny_model("llama", hidden_size=96)
    first, second = heads_of("llama", model)
    first.q[3][1:] = 0
    second.q[1][:] = second.q[0]
    model.save_pretrained(path)
    return path


def answer(capsys, *arguments):
    assert main(["audit", *map(str, arguments)]) == 0
    return capsys.readouterr().out


def test_the_number_that_matters_first_then_layers_then_the_heads_to_look_at(folder, capsys):
    shown = answer(capsys, folder)
    lines = shown.splitlines()
    assert lines[0].startswith("tiny-llama: the median head's QK form has")
    assert "of 12 heads lie below chance" in lines[0]
    assert "Of 30 pairs of heads in a layer, 1 overlap in QK" in lines[1]
    assert any(line.startswith("decoder 0") and "6/2" in line and "causal" in line for line in lines)
    assert "Least QK rank: decoder 0 head 3 1.0 of 8" in shown
    assert "Most QK rank:" in shown
    assert "Closest in QK: decoder 1 heads 0 and 1: query side 1.00" in shown
    assert "Rotary positions: mean effective QK rank by distance of the key - 0: " in shown
    assert "Shared keys:" in shown
    assert "Folded in: gain of the rms norm before keys and values; gain" in shown
    assert "10 F32 (safetensors, llama)" in shown


def test_json_on_stdout_and_in_a_file_are_one_report(folder, capsys, tmp_path):
    printed = json.loads(answer(capsys, folder, "--json", "-o", tmp_path / "audit.json"))
    assert printed == json.loads((tmp_path / "audit.json").read_text())
    assert printed["format"] == "rankwise-audit/1"
    report = read_report(tmp_path / "audit.json")
    assert report.layers[0].head_reports[3].qk.numerical == 1
    assert json.loads(answer(capsys, folder, "--json", "-o", tmp_path / "a new" / "folder.json")) == printed
    assert json.loads((tmp_path / "a new" / "folder.json").read_text()) == printed


def test_any_layout_by_its_names(folder, capsys, tmp_path):
    shutil.copy(folder / "model.safetensors", tmp_path / "w.safetensors")
    stem = "layers.{layer}.self_attn."
    names = ("--q", f"{stem}q_proj.weight", "--k", f"{stem}k_proj.weight", "--v", f"{stem}v_proj.weight")
    names += ("--o", f"{stem}o_proj.weight", "--heads", "6", "--kv-heads", "2")
    report = json.loads(answer(capsys, tmp_path / "w.safetensors", *names, "--json"))
    assert [layer["head_reports"][3]["qk"]["numerical"] for layer in report["layers"]] == [1, 8]
    assert {layer["mask"] for layer in report["layers"]} == {"full"}
    report = json.loads(answer(capsys, tmp_path / "w.safetensors", *names, "--causal", "--json"))
    assert {layer["mask"] for layer in report["layers"]} == {"causal"}
    assert "norms, biases and positions are not looked at" in answer(capsys, tmp_path / "w.safetensors", *names)
    assert main(["audit", str(tmp_path / "w.safetensors"), "--q", "x"]) == 2
    assert "--k, --heads" in capsys.readouterr().err
    assert main(["audit", str(tmp_path / "w.safetensors")]) == 2
    assert "--config" in capsys.readouterr().err
    report = json.loads(answer(capsys, tmp_path / "w.safetensors", "--config", folder / "config.json", "--json"))
    assert report["architecture"] == "llama"


def test_texts_and_model_are_looked_at_before_the_weights(folder, capsys, monkeypatch, tmp_path):
    monkeypatch.setattr("rankwise.audit.audit_weights", lambda *_, **__: pytest.fail("audited first"))
    assert main(["audit", str(folder), "--tokens", str(tmp_path / "none.json"), "--json"]) == 2
    assert "none.json: expected a text file, got no such file" in capsys.readouterr().err


def test_the_report_of_the_weights_is_kept_when_the_model_cannot_be_run(folder, capsys, monkeypatch, tmp_path):
    def fails(*_, **__):
        raise InvalidInputError("no attention to watch")

    monkeypatch.setattr("rankwise.audit.measure_attention", fails)
    (tmp_path / "ids.json").write_text("[[1, 2, 3, 4]]")
    report = tmp_path / "audit.json"
    assert main(["audit", str(folder), "--tokens", str(tmp_path / "ids.json"), "-o", str(report), "--json"]) == 2
    assert "no attention to watch" in capsys.readouterr().err
    assert read_report(report).attention is None


def test_a_downloaded_model_is_run_from_where_it_was_put(folder, capsys, monkeypatch, tmp_path):
    monkeypatch.setattr("huggingface_hub.snapshot_download", lambda *_, **__: str(folder))
    (tmp_path / "ids.json").write_text("[[1, 2, 3, 4]]")
    report = json.loads(answer(capsys, "some/model", "--download", "--tokens", tmp_path / "ids.json", "--json"))
    assert report["attention"]["tokens"] == 4


def test_what_is_left_out_is_listed_and_markup_stays_text(folder, capsys, tmp_path):
    from safetensors.torch import load_file, save_file
    from torch import zeros

    copy = shutil.copytree(folder, tmp_path / "[red]model")
    tensors = load_file(copy / "model.safetensors")
    save_file(tensors | {"[bold]vision.0.attn.weight": zeros(6, 2)}, copy / "model.safetensors")
    shown = answer(capsys, copy)
    assert "[red]model:" in shown
    assert "Not audited: [bold]vision.N.attn.weight: 1 tensor of no layer that was found." in shown


def test_mistakes_are_told_before_torch_is_loaded():
    code = (
        "import sys; from rankwise.cli import main; code = main(['audit', 'nothing'])\n"
        "assert 'torch' not in sys.modules; sys.exit(code)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr.count("\n")) == (2, 1), done.stderr
    assert "expected a model's folder or file" in done.stderr


def test_help_has_an_example(capsys):
    assert main(["audit", "--help"]) == 0
    shown = capsys.readouterr().out
    assert "rankwise audit" in shown
    assert "--kv-heads" in shown


@pytest.mark.parametrize("option", ["--length", "--pieces"])
def test_an_option_about_texts_is_refused_without_texts(option, folder, capsys):
    assert main(["audit", str(folder), option, "8"]) == 2
    assert f"{option}: expected texts to cut into pieces (--text FILE), got none" in capsys.readouterr().err
