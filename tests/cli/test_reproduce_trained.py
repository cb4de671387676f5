import json
import re

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
        (
            ["figure1", "--protocol", "pap"],
            "protocol: expected one of 'capacity', 'wide', 'paper', 'recall', got 'pap' (did you mean",
        ),
        (["figure1", "--workers", "0"], "--workers: expected at least 1, got 0"),
        (["vote", "--seeds", "2"], "--seeds: expected a figure that is trained (figure1,"),
        (["vote", "--keep", "results"], "--keep: expected a figure that is trained (figure1,"),
        (["vote", "--dry-run"], "--dry-run: expected a figure that is trained (figure1,"),
        (["vote", "--preset", "smoke", "--store", "runs"], "--store: expected a figure that is trained (figure1,"),
        (["vote", "--preset", "smoke", "--workers", "2"], "--workers: expected a figure that is trained (figure1,"),
        (["vote", "--preset", "smoke", "--retry"], "--retry: expected a figure that is trained (figure1,"),
        (["vote", "--preset", "smoke", "--open"], "--open: expected a figure that is trained (figure1,"),
        (["vote", "--preset", "smoke", "--engine", "ray"], "--engine: expected a figure that is trained (figure1,"),
        (["vote", "--preset", "smoke", "--device", "cpu"], "--device: expected a figure that is trained (figure1,"),
        (["cliff", "--preset", "none", "--keep", "results", "--out", "figures"], "--out: expected no --keep beside it"),
        (["cliff", "--preset", "none", "--keep", "results", "--open"], "--open: expected no --keep beside it"),
        (
            ["cliff", "--vectors", "v.npy"],
            "--vectors: expected an option of cliff (--seeds, --sequences), which has no",
        ),
        (["anisotropic", "--vectors", "none.npy"], "none.npy: expected a readable file of vectors, got: No such file"),
    ],
)
def test_mistakes_are_named(arguments, message, capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert main(["reproduce", *arguments]) == 2
    assert message in capsys.readouterr().err


def test_every_trained_figure_is_registered_and_complete():
    for name in TRAINED:
        assert name in FIGURES
        recipe = find_trained_recipe(name)
        assert {"smoke", "laptop"} < set(recipe.PRESETS)
        assert {"full", "paper"} & set(recipe.PRESETS)
        assert callable(recipe.sweep)
        assert callable(recipe.rows)
        assert isinstance(recipe.KEYS, tuple)
        assert callable(recipe.present)


def test_results_are_kept_and_drawn_again_without_training(small, tmp_path, capsys):
    place = ["--preset", "smoke", "--store", str(tmp_path / "runs"), "--keep", str(tmp_path / "results"), "--json"]
    assert main(["reproduce", "figure1", *place, "--no-train"]) == 2
    assert "expected a store" in capsys.readouterr().err
    assert main(["reproduce", "figure1", *place, "--workers", "1"]) == 0
    answer = json.loads(capsys.readouterr().out)
    names = [path.rpartition("/")[2] for path in answer["files"]]
    assert names == ["figure1-smoke.png", "figure1-smoke.svg", "figure1.csv", "README.md"]
    kept = {path.name: path.read_bytes() for path in (tmp_path / "results").iterdir()}
    assert main(["reproduce", "figure1", *place, "--no-train"]) == 0
    assert "6 of 6 runs are in" in capsys.readouterr().err
    assert {path.name: path.read_bytes() for path in (tmp_path / "results").iterdir()} == kept
    assert main(["reproduce", "figure1", *place, "--no-train", "--seeds", "2"]) == 0
    assert "6 of 12 runs are in" in capsys.readouterr().err
    assert main(["reproduce", "figure1", *place, "--no-train", "--sequences", "1280"]) == 2
    assert "--no-train --keep: expected runs of figure1 (smoke)" in capsys.readouterr().err
    kept = {path.name: path.read_bytes() for path in (tmp_path / "results").iterdir()}
    (tmp_path / "results" / "figure1-smoke.png").unlink()
    nowhere = [*place[:3], str(tmp_path / "gone"), *place[4:]]
    assert main(["reproduce", "figure1", *nowhere, "--no-train"]) == 0
    assert "0 of 6 runs are in" in capsys.readouterr().err
    assert {path.name: path.read_bytes() for path in (tmp_path / "results").iterdir()} == kept
    assert not (tmp_path / "gone").exists()
    assert main(["reproduce", "figure1", *place[:4], "--no-train", "--sequences", "1280"]) == 2
    assert "--no-train: expected runs of figure1 (smoke)" in capsys.readouterr().err


def test_help_names_both_presets_of_full_size(capsys):
    assert main(["reproduce", "--help"]) == 0
    shown = re.sub(r"[\s│]+", " ", capsys.readouterr().out)
    assert "for trained figures, paper or full" in shown
    assert {"full", "paper"} <= {preset for name in TRAINED for preset in find_trained_recipe(name).PRESETS}
