import json

import pytest

from rankwise.cli import main
from rankwise.recipes import demo as recipe
from rankwise.recipes import figure1, theorem


@pytest.fixture
def small(monkeypatch):
    """The demo's own path through workers, store and figure, with a few steps per run."""
    curves = tuple(figure1.BudgetCurve(layers=n, exponent=c, ranks=(2, 4)) for n in (1, 3) for c in (1.0, 1.5, 2.0))
    grid = figure1.Sizes(dim=4, points=3, curves=curves, sequences=640, seeds=1)
    monkeypatch.setitem(figure1.FIGURE.presets, "demo", grid)
    few = theorem.Sizes(sequences=2560, grids={4: theorem.Grid(ranks=(1, 4), heads=(1, 2))}, seeds=1)
    monkeypatch.setitem(theorem.FIGURE.presets, "demo", few)


def test_demo_trains_draws_and_reads(small, tmp_path, capsys):
    assert main(["demo", "--store", str(tmp_path), "--workers", "1", "--json"]) == 0
    answer = json.loads(capsys.readouterr().out)
    assert len(answer["reading"]) == 3
    assert len(answer["trade_off"]) == 12
    assert {point["kind"] for point in answer["setting"]} == {"softmax", "generalised"}
    assert (tmp_path / "demo.png").read_bytes().startswith(b"\x89PNG")
    assert "<svg" in (tmp_path / "demo.svg").read_text()
    # again: nothing is trained, the same figure comes out
    svg = (tmp_path / "demo.svg").read_bytes()
    assert main(["demo", "--store", str(tmp_path), "--workers", "1"]) == 0
    out = capsys.readouterr().out
    assert "Squared error per point" in out
    assert "demo.png (and demo.svg)" in out
    page = tmp_path / "report.html"
    assert out.rstrip().endswith(str(page))
    assert "Half rank" in page.read_text() or "lower bound" in page.read_text()
    assert (tmp_path / "demo.svg").read_bytes() == svg


def test_dry_run_writes_nothing(tmp_path, capsys):
    assert main(["demo", "--store", str(tmp_path / "new"), "--dry-run", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["to_do"] == recipe.sweep().size()
    assert not (tmp_path / "new").exists()


def test_no_workers_is_a_mistake(capsys):
    assert main(["demo", "--workers", "0"]) == 2
    assert "--workers: expected at least 1, got 0" in capsys.readouterr().err
