import json

import pytest

from rankwise.cli import main
from rankwise.recipes import figure1, theorem
from rankwise.recipes.registry import FIGURES, TRAINED, find_trained_recipe


@pytest.fixture
def small(monkeypatch):
    """Two presets of a few steps."""
    monkeypatch.setitem(
        figure1.PRESETS, "smoke", figure1.Settings(dim=4, points=3, pieces=figure1.curves((2, 4), {1: 640}))
    )
    few = theorem.Settings(steps=40, grids={4: theorem.Grid(ranks=(1, 4), heads=(1, 2))})
    monkeypatch.setitem(theorem.PRESETS, "smoke", few)


@pytest.mark.parametrize(("name", "rows"), [("figure1", 6), ("theorem", 10)])
def test_trains_stores_draws_and_the_second_time_only_draws(small, tmp_path, capsys, name, rows):
    command = [
        "reproduce",
        name,
        "--preset",
        "smoke",
        "--store",
        str(tmp_path / "runs"),
        "--out",
        str(tmp_path / "out"),
    ]
    assert main([*command, "--workers", "1", "--json"]) == 0
    first = json.loads(capsys.readouterr().out)
    assert len(first["rows"]) == rows
    names = {path.rpartition("/")[2] for path in first["files"]}
    assert names == {f"{name}.png", f"{name}.svg", f"{name}.csv", f"{name}.html"}
    written = {path: (tmp_path / "out" / path).read_bytes() for path in names}
    assert main([*command, "--json"]) == 0
    again = capsys.readouterr()
    assert json.loads(again.out) == first
    assert "running" not in again.err
    assert {path: (tmp_path / "out" / path).read_bytes() for path in names} == written
    assert main(command) == 0
    assert first["reading"].split("\n")[0][:60] in capsys.readouterr().out


def test_dry_run_trains_and_writes_nothing(tmp_path, capsys):
    command = ["reproduce", "figure1", "--preset", "paper", "--store", str(tmp_path / "new"), "--dry-run", "--json"]
    assert main(command) == 0
    plan = json.loads(capsys.readouterr().out)
    assert plan["to_do"] == 27
    assert not (tmp_path / "new").exists()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (
            ["figure1", "--preset", "huge"],
            "preset: expected one of 'smoke', 'demo', 'laptop', 'paper', 'paper-whole', got",
        ),
        (["theorem", "--protocol", "paper"], "--protocol: expected an option of theorem (--seeds), which has no such"),
        (["figure1", "--protocol", "pap"], "protocol: expected one of 'capacity', 'paper', got 'pap' (did you mean"),
        (["figure1", "--workers", "0"], "--workers: expected at least 1, got 0"),
        (["vote", "--dry-run"], "--dry-run: expected a figure that is trained (figure1, theorem), got vote"),
    ],
)
def test_mistakes_are_named(arguments, message, capsys):
    assert main(["reproduce", *arguments]) == 2
    assert message in capsys.readouterr().err


def test_every_trained_figure_is_registered_and_complete():
    for name in TRAINED:
        assert name in FIGURES
        recipe = find_trained_recipe(name)
        assert {"smoke", "laptop"} <= set(recipe.PRESETS)
        assert callable(recipe.sweep)
        assert callable(recipe.rows)
        assert callable(recipe.present)
