import json
import subprocess
import sys

import pytest

from rankwise.cli import main
from rankwise.theory.bounds import error_lower_bound, heads_required

KEYS = [
    "lower_bound",
    "lower_bound_any_values",
    "truncation_error",
    "trivial_error",
    "parameters",
    "heads_required",
    "heads_required_log10",
    "heads_required_any_values",
    "heads_required_any_values_log10",
    "full_rank_heads",
]


def answer(capsys, *arguments):
    assert main(["bound", *arguments, "--json"]) == 0
    return json.loads(capsys.readouterr().out)


def test_json_holds_the_bound(capsys):
    got = answer(capsys, "--dim", "64", "--rank", "8", "--heads", "512")
    assert list(got) == KEYS
    assert got["lower_bound"] == error_lower_bound(64, 8, 512).value
    assert got["lower_bound_any_values"] == error_lower_bound(64, 8, 512, values="any").value
    assert got["parameters"] == 4 * 8 * 512 * 64
    assert (got["trivial_error"], got["full_rank_heads"]) == (0.5, 1)
    assert got["heads_required"] is got["heads_required_log10"] is None


def test_json_with_an_error(capsys):
    got = answer(capsys, "--dim", "64", "--rank", "8", "--heads", "512", "--error", "0.05")
    assert got["heads_required"] == heads_required(64, 8, 0.05)
    assert 10 ** got["heads_required_log10"] == pytest.approx(got["heads_required"])
    assert got["heads_required_any_values"] == heads_required(64, 8, 0.05, values="any") < got["heads_required"]
    assert 10 ** got["heads_required_any_values_log10"] == pytest.approx(got["heads_required_any_values"])


def test_json_never_holds_infinity(capsys):
    got = answer(capsys, "--dim", "10000", "--rank", "1", "--heads", "1e307", "--error", "0.001")
    assert got["heads_required"] is got["parameters"] is None
    assert got["heads_required_log10"] == pytest.approx(8442.42, abs=0.01)


def test_text_says_what_it_means_and_what_not(capsys):
    assert main(["bound", "--dim", "64", "--rank", "1", "--heads", "1e18", "--error", "0.05"]) == 0
    out = " ".join(capsys.readouterr().out.split())
    assert "Error 0.05: 5.407e+17 heads of rank 1 still cannot reach it; 1.622e+18 if their value" in out
    assert "It means: no layer of 1e+18 heads of rank 1" in out
    assert "It does not mean: that this error is reached" in out


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--rank", "9", "--heads", "1"], "rank: expected at most dim=8, got 9"),
        (["--rank", "2", "--heads", "-1"], "heads: expected a finite number of at least 0"),
        (["--rank", "2", "--heads", "nan"], "heads: expected a finite number"),
        (["--rank", "2", "--heads", "1", "--error", "0.6"], "error: expected a number in (0, 1/2], got 0.6"),
        (["--rank", "2", "--heads", "1", "--error", "0"], "error: expected a number in (0, 1/2], got 0"),
    ],
)
def test_mistakes_exit_with_2_and_name_the_argument(capsys, arguments, message):
    assert main(["bound", "--dim", "8", *arguments]) == 2
    assert message in capsys.readouterr().err


def test_answer_needs_no_torch():
    code = (
        "import sys; from rankwise.cli import main;"
        "main(['bound', '--dim', '10000', '--rank', '77', '--heads', '1e9', '--error', '.01', '--json']);"
        "import rankwise.theory.kernels; sys.exit('torch' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["lower_bound"] > 0
