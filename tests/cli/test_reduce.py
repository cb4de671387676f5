"""``rankwise reduce`` and ``rankwise audit --tokens`` as a user meets them."""

import json

import pytest

from rankwise.cli import main
from saved_models import saved, tiny_language_model, tokens


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return saved(tiny_language_model("llama"), tmp_path_factory.mktemp("model") / "tiny")


@pytest.fixture(scope="module")
def ids(tmp_path_factory):
    path = tmp_path_factory.mktemp("ids") / "ids.json"
    path.write_text(json.dumps(tokens(texts=8).tolist()))
    return path


def test_reduce_says_the_verdict_first_and_writes(folder, ids, tmp_path, capsys):
    out = tmp_path / "small"
    page, figure = tmp_path / "page.html", tmp_path / "frontier"
    options = ["--frontier", "--page", str(page), "--figure", str(figure), "--out", str(out)]
    assert main(["reduce", str(folder), "--keep", "0.5", "--tokens", str(ids), *options]) == 0
    said = capsys.readouterr().out
    assert said.startswith("tiny: Half the KV cache")
    for part in ("cached numbers per token", "tokens per second", "Not tested", "load_reduced", "weights", "kept"):
        assert part in said
    assert "The run: 6 pieces of 12 tokens" in said
    assert "The run: 6 pieces of 12 tokens" in page.read_text()
    assert (out / "hashes.json").is_file()
    assert {file.stat().st_mode & 0o777 for file in out.iterdir()} == {out.stat().st_mode & 0o666}  # by the umask
    assert "Half the KV cache" in page.read_text()
    assert len(figure.with_suffix(".csv").read_text().splitlines()) == 13


def test_reduce_as_json_is_strict(folder, ids, tmp_path, capsys):
    page = tmp_path / "page.html"
    options = ["--json", "--context", "0", "--page", str(page)]
    assert main(["reduce", str(folder), "--rank", "6", "--tokens", str(ids), *options]) == 0
    assert page.exists()
    document = json.loads(capsys.readouterr().out, parse_constant=pytest.fail)
    assert document["format"] == "rankwise-reduction/2"
    assert [layer["ranks"] for layer in document["layers"]] == [[6], [6]]
    assert document["sanity"]["loss"] == pytest.approx(document["original_loss"])
    assert document["sanity"]["unigram_loss"] > 0


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--keep", "0"], "--keep: expected a share above 0"),
        (["--keep", "0.5"], "expected texts to run the model on"),
        (["--rank", "33", "--method", "weights"], "--rank: expected 1 to 32"),
        (["--rank", "0", "--method", "weights"], "--rank"),
        (["--keep", "0.5", "--figure", "x"], "--figure: expected a frontier"),
        (["--keep", "0.5", "--frontier", "--figure", "x.gif"], "--figure: expected a name, with .png, .svg"),
        (["--keep", "0.5", "--method", "weights", "--pieces", "4"], "--pieces: expected texts to measure on"),
        (
            ["--keep", "0.5", "--method", "weights", "--calibration", "4"],
            "--calibration: expected --calibrate FILE, whose pieces it counts",
        ),
        ([], "expected one of --keep"),
    ],
)
def test_reduce_mistakes_exit_2(folder, arguments, said, capsys):
    assert main(["reduce", str(folder), *arguments]) == 2
    captured = capsys.readouterr()
    assert said in captured.err
    assert captured.out == ""


def test_audit_measures_attention_on_tokens(folder, ids, tmp_path, capsys):
    report = tmp_path / "audit.json"
    assert main(["audit", str(folder), "--tokens", str(ids), "-o", str(report)]) == 0
    said = capsys.readouterr().out
    for part in ("On 8 texts of 12 tokens", "barrier", "causal", "fixed"):
        assert part in said
    document = json.loads(report.read_text(), parse_constant=pytest.fail)
    assert document["format"] == "rankwise-audit/1"
    assert document["attention"]["layers"][0]["baseline"]["barrier"] == 6.5
    from rankwise.audit.report import read_report

    assert read_report(report).to_json()["attention"] == document["attention"]


def test_audit_refuses_text_and_tokens_together(folder, ids, capsys):
    assert main(["audit", str(folder), "--tokens", str(ids), "--text", str(ids)]) == 2
    assert "--text or --tokens, got both" in capsys.readouterr().err
