"""The figures without training: their numbers, small, against the laws they show; and that they draw."""

import dataclasses
import json
import math
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest
import torch

from rankwise.errors import InvalidInputError
from rankwise.recipes.closed_form import barrier, laws, random_scores, random_weights, vote
from rankwise.recipes.computed_figure import ComputedFigure
from rankwise.recipes.presented import write_files
from rankwise.recipes.registry import COMPUTED, computed_figure
from rankwise.theory.depth import majority_accuracy
from rankwise.theory.occupancy import hardmax_rank_mean


def quiet(line: str) -> None:
    """No progress is shown."""


def assert_pictures(files: tuple[Path, ...]) -> None:
    assert files[0].suffix == ".png"
    assert files[0].read_bytes().startswith(b"\x89PNG")
    assert "<svg" in files[1].read_text(encoding="utf-8")


def assert_presented(figure: ComputedFigure[Any, Any], data: object, folder: Path) -> None:
    """Pictures, a table without gaps, and words, one claim per line."""
    done = write_files(figure.present(data), folder / figure.name, "command", {})
    assert_pictures(done.files)
    assert done.rows
    assert all(len(row) == len(done.columns) for row in done.rows)
    assert all(line.endswith(".") for line in done.reading)


@pytest.mark.parametrize("name", COMPUTED)
def test_every_figure_says_its_command_its_cost_and_its_presets(name: str) -> None:
    words = import_module(COMPUTED[name]).__doc__
    assert f"rankwise reproduce {name} --preset laptop" in words
    assert "on one core" in words
    assert computed_figure(name).name == name
    assert {"smoke", "laptop"} <= set(computed_figure(name).presets)


def test_an_unknown_figure_or_preset_is_named(tmp_path: Path) -> None:
    with pytest.raises(InvalidInputError, match=r"^figure: .*did you mean 'barrier'"):
        computed_figure("barier")
    with pytest.raises(InvalidInputError, match=r"^--preset: expected one of smoke, laptop, got 'night'"):
        computed_figure("vote").write("night", "command", tmp_path, quiet)


def test_vote(tmp_path: Path) -> None:
    settings = vote.Settings(dims=(8, 16), most_heads=1000, simulated_heads=(1, 21), draws=6, samples=400)
    data = vote.FIGURE.compute(settings, quiet)
    for line in data.lines:
        assert line.heads[0] == 1
        assert all(heads % 2 for heads in line.heads)
        for heads, measured, error in zip(line.simulated_heads, line.simulated, line.standard_error, strict=True):
            exact = majority_accuracy(line.dim, heads)
            noise = math.sqrt(exact * (1 - exact) / (settings.draws * settings.samples))
            assert abs(measured - exact) < 4 * max(error, noise)
    assert data.lines[0].required == [153, 641, 16_287]
    assert_presented(vote.FIGURE, data, tmp_path)


def test_barrier(tmp_path: Path) -> None:
    settings = barrier.Settings(lengths=(32, 64), head_dims=(2, 4, 16, 64), simulated_dims=(4, 16), tokens=6000)
    data = barrier.FIGURE.compute(settings, quiet)
    assert [line.panel for line in data.lines] == [panel for panel, *_ in barrier.PANELS for _ in (32, 64)]
    for line in data.lines:
        assert line.head_dims[0] == (2 if "unit" in line.panel else 4)
        assert line.expected == sorted(line.expected)
        assert line.expected[-1] <= line.plateau
        for size, measured, error in zip(line.simulated_dims, line.simulated, line.standard_error, strict=True):
            assert abs(measured - line.expected[line.head_dims.index(size)]) < 4 * error + 0.02 * line.plateau
    by_panel = {(line.panel, line.length): line for line in data.lines}
    assert by_panel["causal mask", 64].plateau == pytest.approx(65 / 128)
    assert by_panel["full mask", 64].saturation_dim == 32
    assert_presented(barrier.FIGURE, data, tmp_path)


def test_laws(tmp_path: Path) -> None:
    settings = laws.Settings(lengths=(64, 1024, 16_384), simulated_lengths=(64, 256), tokens=6000)
    data = laws.FIGURE.compute(settings, quiet)
    log, power = data.laws
    assert log.head_dims[0] == power.head_dims[0] == data.saturation_dims[0] == 32
    assert log.kept == sorted(log.kept, reverse=True)
    assert log.kept[-1] == pytest.approx(0.70, abs=0.01)
    assert all(0.9 <= kept <= 0.915 for kept in power.kept)
    assert power.simulated[1] == pytest.approx(0.907, abs=4 * power.standard_error[1] + 0.005)
    assert log.simulated[1] == pytest.approx(0.85, abs=4 * log.standard_error[1] + 0.005)
    assert_presented(laws.FIGURE, data, tmp_path)


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


def test_random_weights(tmp_path: Path) -> None:
    data = random_weights.FIGURE.compute(_TINY, quiet)
    assert {point.panel for point in data.points} == set(random_weights.PANELS)
    for point in data.points:
        assert 0 < point.hardmax <= 1
        assert point.above_1e2 <= point.above_1e3 <= 1
        if point.expected is not None and point.panel != "latent":
            assert abs(point.hardmax - point.expected) < 4 * point.hardmax_se + 0.06

    def found(panel: str, series: str, x: float) -> random_weights.RandomPoint:
        return next(p for p in data.points if (p.panel, p.series, p.x) == (panel, series, x))

    assert found("inputs", "shared direction", 32).hardmax < 0.7 * found("inputs", "orthonormal", 32).hardmax
    assert found("heads", "dim 64", 16).hardmax < found("heads", "dim 64", 1).hardmax
    cold = found("temperature", "head_dim 64", 3000.0)
    assert cold.above_1e3 == pytest.approx(cold.hardmax, abs=0.05)
    assert found("temperature", "head_dim 64", 1.0).above_1e3 > 0.9
    assert_presented(random_weights.FIGURE, data, tmp_path)


@pytest.mark.parametrize("law", random_scores.INPUTS)
def test_random_inputs_have_the_geometry_they_are_named_for(law: str) -> None:
    inputs = random_scores.random_inputs(law, 64, 512, torch.Generator().manual_seed(0))
    gram = (inputs @ inputs.T) / 512
    off = gram - gram.diagonal().diag()
    cosine = {"orthonormal": 0.0, "gaussian": 0.0, "shared direction": 0.5}[law]
    assert gram.diagonal().mean().item() == pytest.approx(1, abs=0.05)
    assert (off.sum() / (64 * 63)).item() == pytest.approx(cosine, abs=0.03)
    assert (off.abs().max().item() < 1e-4) == (law == "orthonormal")


def test_more_tokens_than_dimensions_cannot_be_orthonormal() -> None:
    with pytest.raises(InvalidInputError, match=r"^tokens: at most dim = 8"):
        random_scores.random_inputs("orthonormal", 9, 8, torch.Generator())
    with pytest.raises(InvalidInputError, match=r"^law: "):
        random_scores.random_inputs("text", 4, 8, torch.Generator())


def test_one_head_has_no_standard_error() -> None:
    with pytest.raises(InvalidInputError, match=r"^weights: expected at least 2 heads"):
        random_scores.ranks_of_scores(torch.zeros(1, 4, 4))


def test_plain_scores_have_unit_logits_and_the_first_layer_is_like_plain_heads() -> None:
    generator = torch.Generator().manual_seed(1)
    inputs = random_scores.random_inputs("gaussian", 200, 256, generator)
    scores = random_scores.plain_scores(inputs, 32, 4, generator)
    assert scores.std().item() == pytest.approx(1, abs=0.05)
    first = random_scores.layer_weights(200, 256, 8, 1, "pre", generator)[0]
    logits = first.log() - first.log().mean(-1, keepdim=True)
    assert logits.std().item() == pytest.approx(1, abs=0.05)
    plain, layer = random_scores.ranks_of_scores(scores), random_scores.ranks_of_weights(first)
    assert layer.hardmax == pytest.approx(plain.hardmax, abs=0.05)


def test_latent_heads_have_unit_logits_and_are_causal() -> None:
    weights = random_scores.latent_weights(40, 2, torch.Generator().manual_seed(0))
    assert weights.shape == (2, 40, 40)
    assert not weights.triu(1).any()
    logits = weights[:, -1].log()
    assert logits.std().item() == pytest.approx(1, abs=0.3)
    assert random_scores.ranks_of_weights(weights).hardmax == pytest.approx(
        hardmax_rank_mean(40, "causal") / 40, abs=0.15
    )


def test_numbers_on_disk_are_the_numbers_of_the_figure(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tiny = laws.Settings(lengths=(64, 256), simulated_lengths=(64,), tokens=640)
    monkeypatch.setitem(laws.PRESETS, "smoke", tiny)
    lines: list[str] = []
    done = laws.FIGURE.write("smoke", "the command", tmp_path / "deep" / "er", lines.append)
    assert [path.name for path in done.files] == [f"laws-smoke.{kind}" for kind in ("png", "svg", "json", "md")]
    assert_pictures(done.files)
    assert json.loads(done.files[2].read_text("utf-8")) == dataclasses.asdict(laws.FIGURE.compute(tiny, quiet))
    page = done.files[3].read_text("utf-8")
    assert "`the command`" in page
    assert all(f"- {line}\n" in page for line in done.reading)
    assert lines
    assert all(len(row) == len(done.columns) for row in done.rows)
