import json
import subprocess
import sys

import pytest

from rankwise.cli import main


def test_text_says_the_need_first_and_never_a_window(capsys):
    assert main(["advise", "--dim", "768", "--heads", "12", "--context", "1024"]) == 0
    shown = " ".join(capsys.readouterr().out.split())
    for expected in (
        "there is no window",
        "need, isotropic data",
        "plateau 80",
        "1. Measure the need",
        "does not prove",
    ):
        assert expected in shown


def test_json_is_strict_and_needs_no_torch():
    code = (
        "import sys; from rankwise.cli import main;"
        "code = main(['advise', '--dim', '512', '--heads', '8', '--context', '64', '--json']);"
        "sys.exit(code or 'torch' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    read = json.loads(done.stdout, parse_constant=pytest.fail)
    assert read["need_above_plateau"] is (read["need"]["rank"] > read["plateau"]["rank"])


def test_a_mistake_exits_2(capsys):
    assert main(["advise"]) == 2
    assert "expected a model" in capsys.readouterr().err
