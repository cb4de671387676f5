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
    path.write_text(json.dumps(tokens(texts=6).tolist()))
    return path


def test_reduce_tells_cost_savings_and_dropped_pairs(folder, ids, tmp_path, capsys):
    out = tmp_path / "small"
    assert main(["reduce", str(folder), "--rank", "4", "--tokens", str(ids), "--out", str(out)]) == 0
    said = capsys.readouterr().out
    for part in (
        "rank 4 instead of 8",
        "nats a token",
        "attention parameters",
        "lost pairs",
        "dearest first",
        "Written",
    ):
        assert part in said
    assert (out / "factored" / "plan.json").is_file()


def test_reduce_as_json_is_strict(folder, ids, capsys):
    arguments = ["reduce", str(folder), "--rank", "auto", "--tolerance", "100", "--no-curve", "--no-sensitivity"]
    assert main([*arguments, "--tokens", str(ids), "--json"]) == 0
    document = json.loads(capsys.readouterr().out, parse_constant=pytest.fail)
    assert document["format"] == "rankwise-reduction/1"
    assert document["rank"] == 2


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--rank", "half"], "--rank: expected a whole number or auto"),
        (["--rank", "auto"], "expected texts to measure on"),
        (["--rank", "3"], "only whole pairs are dropped"),
        (["--rank", "0"], "--rank"),
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
    for part in ("On 6 texts of 12 tokens", "barrier", "causal", "fixed"):
        assert part in said
    document = json.loads(report.read_text(), parse_constant=pytest.fail)
    assert document["format"] == "rankwise-audit/1"
    assert document["attention"]["layers"][0]["baseline"]["barrier"] == 6.5
    from rankwise.audit.report import read_report

    assert read_report(report).to_json()["attention"] == document["attention"]


def test_audit_refuses_text_and_tokens_together(folder, ids, capsys):
    assert main(["audit", str(folder), "--tokens", str(ids), "--text", str(ids)]) == 2
    assert "--text or --tokens, got both" in capsys.readouterr().err
