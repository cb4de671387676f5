import json
import subprocess
import sys
from pathlib import Path

import pytest

from rankwise.cli import main


def test_text_says_the_need_first_and_never_a_window(capsys):
    assert main(["advise", "--dim", "768", "--heads", "12", "--length", "1024"]) == 0
    shown = " ".join(capsys.readouterr().out.split())
    for expected in (
        "there is no window",
        "need, isotropic data",
        "plateau 80",
        "1. Measure the need",
        "(rankwise need) before changing the rank",
        "It does not prove",
    ):
        assert expected in shown


def test_json_is_strict_and_needs_no_torch():
    code = (
        "import sys; from rankwise.cli import main;"
        "code = main(['advise', '--dim', '512', '--heads', '8', '--length', '64', '--json']);"
        "sys.exit(code or 'torch' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    read = json.loads(done.stdout, parse_constant=pytest.fail)
    assert read["need_above_plateau"] is (read["need"]["rank"] > read["plateau"]["rank"])


def test_a_mistake_exits_2(capsys):
    assert main(["advise"]) == 2
    assert "expected a model" in capsys.readouterr().err


def test_an_audit_gives_shape_mask_and_what_the_weights_hold(capsys, tmp_path):
    from tiny_models import tiny_model

    tiny_model("bert").save_pretrained(tmp_path / "model")
    report = tmp_path / "audit.json"
    assert main(["audit", str(tmp_path / "model"), "-o", str(report)]) == 0
    capsys.readouterr()
    assert main(["advise", "--audit", str(report), "--length", "64", "--json"]) == 0
    read = json.loads(capsys.readouterr().out, parse_constant=pytest.fail)
    assert (read["model"]["dim"], read["model"]["heads"], read["model"]["rank"]) == (40, 5, 8)
    assert read["use"]["mask"] == "full"
    assert read["audit"]["heads"] == 2 * 5
    # random weights hold what random weights hold: no reduction is suggested
    assert not any("concentrated" in one["what"] for one in read["this_model"])
    (tmp_path / "config.json").write_text(
        json.dumps({"hidden_size": 40, "num_attention_heads": 4, "num_hidden_layers": 2})
    )
    assert main(["advise", "--audit", str(report), "--config", str(tmp_path)]) == 2
    assert "heads: the config says 4, the audited weights 5" in capsys.readouterr().err


@pytest.mark.parametrize("option", ["--rank", "--value-rank"])
def test_a_size_beyond_the_audited_heads_is_refused(option, capsys):
    audit = Path(__file__).parents[2] / "results" / "audit-minilm.json"
    assert main(["advise", "--audit", str(audit), option, "100"]) == 2
    assert "expected at most 32" in capsys.readouterr().err


def test_a_reduction_is_measured_on_the_spot(capsys, tmp_path):
    from saved_models import saved_byte_model

    model, text = saved_byte_model(tmp_path / "model"), tmp_path / "text.txt"
    text.write_text("How much rank does an attention head need, and how many heads? " * 40)
    assert main(["advise", "--model", str(model), "--text", str(text), "--json"]) == 0
    read = json.loads(capsys.readouterr().out, parse_constant=pytest.fail)
    first = read["this_model"][0]
    assert first["confidence"] == "measurement"
    assert read["reduction"]["verdict"] in first["reason"]
    assert (read["model"]["dim"], read["model"]["heads"]) == (8, 2)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--text", "t.txt", "--dim", "8", "--heads", "2"], "expected the model to run on it too (--model DIR)"),
        (["--model", "m", "--config", "c"], "--config: not with --model"),
        (["--model", "m", "--text", "t", "--reduce", "r"], "or --reduce FILE, got both"),
        (["--dim", "8", "--heads", "2", "--mask", "causal", "--window", "4"], "--window: expected --mask window"),
    ],
)
def test_options_that_contradict_each_other_are_refused(options, message, capsys):
    assert main(["advise", *options]) == 2
    assert message in capsys.readouterr().err
