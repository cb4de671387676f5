import json

import pytest

from rankwise.cli import main


def test_demo_measures_the_trade_off(capsys):
    assert main(["demo", "--dim", "8", "--samples", "4000", "--json"]) == 0
    answer = json.loads(capsys.readouterr().out)
    errors = {row["predictor"]: row["error"] for row in answer["predictors"]}
    assert errors["zero"] == pytest.approx(1)
    assert errors["one full-rank head, hardmax"] < 1e-12
    assert errors["majority vote of rank-1 heads"] < errors["rank-1 heads, averaged"] < errors["best linear"]


def test_demo_prints_a_table(capsys):
    assert main(["demo", "--dim", "4", "--samples", "1000"]) == 0
    assert "majority vote of rank-1 heads" in capsys.readouterr().out


def test_demo_refuses_one_dimension(capsys):
    assert main(["demo", "--dim", "1"]) == 2
    assert "dim: expected at least 2, got 1" in capsys.readouterr().err
