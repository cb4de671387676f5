"""The figures without training: their numbers, small, against the laws they show; and that they draw."""

import csv
import math
from collections.abc import Sequence
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest

from rankwise.errors import InvalidInputError
from rankwise.recipes.closed_form import barrier, laws, random_weights, vote
from rankwise.recipes.computed_figure import ComputedFigure
from rankwise.recipes.points import Point, lines_of, select
from rankwise.recipes.registry import COMPUTED, computed_recipe
from rankwise.theory.depth import majority_accuracy


def assert_pictures(files: tuple[Path, ...]) -> None:
    assert files[0].suffix == ".png"
    assert files[0].read_bytes().startswith(b"\x89PNG")
    assert "<svg" in files[1].read_text(encoding="utf-8")


def assert_presented(figure: ComputedFigure[Any], settings: object, marks: Sequence[Point]) -> None:
    """A picture, a table without gaps, and words, one claim per line."""
    assert figure.picture(settings, marks).draw().axes
    table, reading = figure.table(marks), figure.reading(settings, marks)
    assert {len(column) for column in table.values()} == {len(figure.tabled(marks))} != {0}
    assert all(line.endswith(".") for line in reading)


@pytest.mark.parametrize("name", COMPUTED)
def test_every_figure_says_its_command_its_cost_and_its_presets(name: str) -> None:
    words = import_module(COMPUTED[name]).__doc__
    assert f"rankwise reproduce {name} --preset laptop" in words
    assert "on one core" in words
    assert computed_recipe(name).name == name
    assert {"smoke", "laptop"} <= set(computed_recipe(name).presets)


def test_an_unknown_figure_or_preset_is_named(tmp_path: Path) -> None:
    with pytest.raises(InvalidInputError, match=r"^figure: .*did you mean 'barrier'"):
        computed_recipe("barier")
    with pytest.raises(InvalidInputError, match=r"^--preset: expected one of smoke, laptop, got 'night'"):
        computed_recipe("vote").write("night", "command", tmp_path)


def test_vote() -> None:
    settings = vote.Settings(dims=(8, 16), most_heads=1000, simulated_heads=(1, 21), draws=6, samples=400)
    marks = vote.FIGURE.compute(settings)
    simulated = select(marks, kind="network")
    assert [(mark["dim"], mark["heads"]) for mark in simulated] == [(8, 1), (8, 21), (16, 1), (16, 21)]
    for mark in select(marks, kind="quadrature"):
        assert mark["heads"] % 2
        assert mark["accuracy"] == majority_accuracy(mark["dim"], mark["heads"]) == pytest.approx(1 - mark["wrong"])
    for mark in simulated:
        exact = majority_accuracy(mark["dim"], mark["heads"])
        noise = math.sqrt(exact * (1 - exact) / (settings.draws * settings.samples))
        assert abs(mark["accuracy"] - exact) < 4 * max(mark["accuracy_se"], noise)
    assert vote.FIGURE.reading(settings, marks)[-1] == "An accuracy of 0.99 in dimension 8 takes 16,287 heads."
    assert_presented(vote.FIGURE, settings, marks)


def test_barrier() -> None:
    settings = barrier.Settings(lengths=(32, 64), head_dims=(2, 4, 16, 64), simulated_dims=(4, 16), tokens=6000)
    marks = barrier.FIGURE.compute(settings)
    assert set(lines_of(marks, "panel")) == set(barrier.PANELS)
    for panel, own in lines_of(marks, "panel").items():
        for line in lines_of(own, "length").values():
            expected = [mark["expected"] for mark in line if "expected" in mark]
            assert len(expected) == (4 if "unit" in panel else 3)
            assert expected == sorted(expected)
            assert expected[-1] <= line[0]["barrier"]
    for mark in marks:
        if "simulated" in mark and "expected" in mark:
            assert abs(mark["simulated"] - mark["expected"]) < 4 * mark["simulated_se"] + 0.02 * mark["barrier"]
    assert select(marks, panel="causal mask", length=64)[0]["barrier"] == pytest.approx(65 / 128)
    assert select(marks, panel="full mask", length=64)[0]["saturation_dim"] == 32
    assert_presented(barrier.FIGURE, settings, marks)


def test_laws() -> None:
    settings = laws.Settings(lengths=(64, 1024, 16_384), simulated_lengths=(64, 256), tokens=6000)
    marks = laws.FIGURE.compute(settings)
    log, power = lines_of(marks, "law").values()
    assert log[0]["head_dim"] == power[0]["head_dim"] == log[0]["needed"] == 32
    kept = [mark["kept"] for mark in log]
    assert kept == sorted(kept, reverse=True)
    assert kept[-1] == pytest.approx(0.70, abs=0.01)
    assert all(0.9 <= mark["kept"] <= 0.915 for mark in power)
    assert power[1]["simulated"] == pytest.approx(0.907, abs=4 * power[1]["simulated_se"] + 0.005)
    assert log[1]["simulated"] == pytest.approx(0.85, abs=4 * log[1]["simulated_se"] + 0.005)
    assert_presented(laws.FIGURE, settings, marks)


_TINY = random_weights.Settings(
    tokens=48,
    draws=2,
    heads_each=3,
    dims=(64, 256),
    dim=64,
    heads=(1, 16),
    layers=2,
    layer_dim=32,
    head_dims=(4, 32),
    betas=(1.0, 3000.0),
    latent_tokens=(24,),
    latent_heads=2,
)


def test_random_weights() -> None:
    marks = random_weights.FIGURE.compute(_TINY)
    assert {point["panel"] for point in marks} == set(random_weights.PANELS)
    for point in marks:
        assert 0 < point["hardmax"] <= 1
        assert point["above_1e2"] <= point["above_1e3"] <= 1
        if "expected" in point and point["panel"] != "latent":
            assert abs(point["hardmax"] - point["expected"]) < 4 * point["hardmax_se"] + 0.06

    def found(panel: str, series: str, x: float) -> Point:
        return next(p for p in marks if (p["panel"], p["series"], p["x"]) == (panel, series, x))

    assert found("inputs", "shared direction", 32)["hardmax"] < 0.7 * found("inputs", "orthonormal", 32)["hardmax"]
    assert found("heads", "dim 64", 16)["hardmax"] < found("heads", "dim 64", 1)["hardmax"]
    cold = found("temperature", "head_dim 64", 3000.0)
    assert cold["above_1e3"] == pytest.approx(cold["hardmax"], abs=0.05)
    assert found("temperature", "head_dim 64", 1.0)["above_1e3"] > 0.9
    assert_presented(random_weights.FIGURE, _TINY, marks)


def test_numbers_on_disk_are_the_numbers_of_the_figure(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tiny = laws.Settings(lengths=(64, 256), simulated_lengths=(64,), tokens=640)
    monkeypatch.setitem(laws.FIGURE.presets, "smoke", tiny)
    seen: list[tuple[str, int, int]] = []
    done = laws.FIGURE.write("smoke", "the command", tmp_path / "deep" / "er", lambda *step: seen.append(step))
    assert [path.name for path in done.files] == [f"laws-smoke.{kind}" for kind in ("png", "svg", "csv", "md")]
    assert_pictures(done.files)
    rows = list(csv.DictReader(done.files[2].read_text("utf-8").splitlines()))
    marks = laws.FIGURE.compute(tiny)
    assert [(row["law"], float(row["kept"])) for row in rows] == [(mark["law"], mark["kept"]) for mark in marks]
    assert [row["simulated"] for row in rows].count("") == 2, "not simulated is not a number"
    page = done.files[3].read_text("utf-8")
    assert "`the command`" in page
    assert all(f"- {line}\n" in page for line in done.reading)
    assert seen[1] == ("laws (c log n, 256)", 1, 4)
    assert all(len(row) == len(done.columns) for row in done.rows)
