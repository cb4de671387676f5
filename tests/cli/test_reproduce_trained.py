import json

import pytest

from rankwise.cli import main
from rankwise.recipes import figure1, theorem


@pytest.fixture
def small(monkeypatch):
    """Two presets of a few steps."""
    curves = tuple(figure1.BudgetCurve(layers=1, exponent=c, ranks=(2, 4)) for c in (1.0, 1.5, 2.0))
    monkeypatch.setitem(
        figure1.FIGURE.presets, "smoke", figure1.Sizes(dim=4, points=3, curves=curves, sequences=640, seeds=1)
    )
    few = theorem.Sizes(sequences=2560, grids={4: theorem.Grid(ranks=(1, 4), heads=(1, 2))}, seeds=1)
    monkeypatch.setitem(theorem.FIGURE.presets, "smoke", few)


@pytest.mark.parametrize(("name", "rows"), [("figure1", 6), ("theorem", 8)])
def test_trains_stores_draws_and_the_second_time_only_draws(small, tmp_path, capsys, name, rows):
    out = tmp_path / "out"
    command = ["reproduce", name, "--preset", "smoke", "--store", str(tmp_path / "runs"), "--out", str(out)]
    assert main([*command, "--workers", "1", "--json"]) == 0
    first = json.loads(capsys.readouterr().out)
    assert len(first["rows"]) == rows
    names = {path.rpartition("/")[2] for path in first["files"]}
    assert names == {f"{name}-smoke.{suffix}" for suffix in ("png", "svg", "csv", "md")}
    written = {path: (out / path).read_bytes() for path in names}
    assert main([*command, "--json"]) == 0
    again = capsys.readouterr()
    assert json.loads(again.out) == first
    assert "running" not in again.err
    assert {path: (out / path).read_bytes() for path in names} == written
    assert f"Made by `rankwise reproduce {name} --preset smoke`." in written[f"{name}-smoke.md"].decode()


def test_only_some_runs_are_trained_and_drawn(small, tmp_path, capsys):
    command = ["reproduce", "figure1", "--preset", "smoke", "--store", str(tmp_path / "runs"), "--workers", "1"]
    command += ["--only", "rank=4", "budget=d^2,d^3", "--out", str(tmp_path), "--json"]
    assert main(command) == 0
    answer = json.loads(capsys.readouterr().out)
    assert [(row["budget"], row["rank"]) for row in answer["rows"]] == [("d^2", 4), ("d^3", 4)]
    page = (tmp_path / "figure1-smoke.md").read_text()
    assert "rankwise reproduce figure1 --preset smoke --only rank=4 budget=d^2,d^3" in page


def test_dry_run_trains_and_writes_nothing(tmp_path, capsys):
    command = ["reproduce", "figure1", "--preset", "full", "--store", str(tmp_path / "new"), "--dry-run", "--json"]
    assert main(command) == 0
    plan = json.loads(capsys.readouterr().out)
    assert plan["to_do"] == 27
    assert not (tmp_path / "new").exists()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["figure1", "--preset", "huge"], "--preset: expected one of smoke, demo, laptop, full, got 'huge'"),
        (
            ["theorem", "--protocol", "paper"],
            "--protocol: expected an option of theorem (--seeds, --only, --sequences)",
        ),
        (["figure1", "--protocol", "pap"], "--protocol: expected one of 'capacity', 'paper', got 'pap' (did you mean"),
        (["figure1", "--only", "rnak=8"], "--only: expected one of the columns protocol, dim, points, layers"),
        (["figure1", "--workers", "0"], "--workers: expected at least 1, got 0"),
        (["vote", "--seeds", "2"], "--seeds: expected a figure that is trained (figure1,"),
        (["vote", "--dry-run"], "--dry-run: expected a figure that is trained (figure1,"),
        (["vote", "--preset", "smoke", "--store", "runs"], "--store: expected a figure that is trained (figure1,"),
        (["vote", "--preset", "smoke", "--workers", "2"], "--workers: expected a figure that is trained (figure1,"),
        (["vote", "--preset", "smoke", "--retry"], "--retry: expected a figure that is trained (figure1,"),
        (["vote", "--preset", "smoke", "--engine", "ray"], "--engine: expected a figure that is trained (figure1,"),
        (["vote", "--preset", "smoke", "--device", "cpu"], "--device: expected a figure that is trained (figure1,"),
        (["cliff", "--vectors", "v.npy"], "--vectors: expected an option of cliff (--seeds, --only, --sequences)"),
        (["anisotropic", "--vectors", "none.npy"], "none.npy: expected a readable file of vectors, got no such file"),
    ],
)
def test_mistakes_are_named(arguments, message, capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert main(["reproduce", *arguments]) == 2
    assert message in capsys.readouterr().err
