import pytest

from rankwise.recipes import figure4
from rankwise.recipes.figure4 import FIGURE, TESTED
from rankwise.recipes.points import points_of
from rankwise.sweep.exact_solution import exact_head
from recipe_rows import trained, trained_here


@pytest.mark.parametrize("preset", list(FIGURE.presets))
def test_the_grid_is_two_layers_with_the_largest_budget_and_as_many_queries_each(preset):
    settings = FIGURE.presets[preset]
    runs = list(FIGURE.sweep(preset, seeds=1).expand())
    expected = [(points, rank) for points in settings.points for rank in settings.ranks]
    assert [(run.task.points, run.model.rank) for run in runs] == expected
    for run in runs:
        assert run.model.layers == 2
        assert run.model.heads * run.model.rank == settings.dim**2
        assert run.optim.steps * run.optim.batch * run.task.points == pytest.approx(settings.queries, rel=0.01)


def test_the_papers_protocol_has_the_papers_rate_and_modules():
    runs = list(FIGURE.sweep("full", protocol="paper", sequences=51_200_000).expand())
    assert {run.optim.steps * run.optim.batch for run in runs} == {51_200_000}
    assert {run.optim.lr for run in runs} == {0.005}
    assert {run.model.average for run in runs} == {64}


def points(preset, own, tested, monkeypatch):
    monkeypatch.setattr(
        FIGURE,
        "measured",
        lambda one: [
            {"tested_points": n, "tested_error": tested(one.run, n), "tested_error_se": 0.001} for n in TESTED
        ],
        raising=False,
    )
    runs = [trained(run, own(run)) for run in FIGURE.sweep(preset).expand()]
    return points_of(FIGURE.rows(runs), FIGURE.keys)


def test_reading_and_drawing_from_fixed_numbers(monkeypatch):
    found = points("full", lambda run: 1 / run.model.rank, lambda run, n: n / 2000 / run.model.rank, monkeypatch)
    monkeypatch.setattr(figure4, "exact_head", lambda dim, count, error, tested: dict.fromkeys(tested, 0.01))
    lines = FIGURE.reading(FIGURE.presets["full"], found)
    assert lines[0].endswith(": 0.031 with 4 points and 0.031 with 256.")
    assert lines[1] == "Half rank, trained with 256 points: 0.016 when tested with 1024."
    assert lines[3] == "Full rank, trained with 256 points: 0.008 when tested with 1024."
    assert lines[4] == "An exact head with the same temperature as full rank has 0.01 there."
    figure = FIGURE.picture(FIGURE.presets["full"], found).draw()
    assert [axes.get_title() for axes in figure.axes[1:]] == [f"trained with {n} points" for n in (4, 16, 64, 256)]
    crosses = [line for line in figure.axes[0].lines if line.get_marker() == "x" and len(line.get_xdata())]
    assert len(crosses) == 4
    labels = {text.get_text() for text in figure.legends[0].get_texts()}
    assert labels == {"exact head, softmax", "best linear", *(f"rank {rank}" for rank in (1, 8, 16, 32, 64))}


def test_the_exact_head_agrees_where_it_should_and_errs_more_with_more_points():
    line = exact_head(8, 16, 0.02, TESTED)
    assert line[16] == pytest.approx(0.02, rel=1e-3)
    assert line[4] < line[16] < line[256]
    assert exact_head(8, 16, 1.0, TESTED) is None, "softer than any: what collapsed to 0 has no exact head beside it"


def test_trained_models_are_tested_with_other_numbers_of_points(tmp_path, monkeypatch):
    monkeypatch.setattr(figure4, "TESTED", (4, 8))
    one = trained_here(next(FIGURE.sweep("smoke").expand()), tmp_path)
    own, other = FIGURE.rows([one])
    assert [row["tested_points"] for row in (own, other)] == [4, 8]
    # the same examples are not drawn again, but the error is that of the same model at the same N
    spread = 4 * (float(own["tested_error_se"]) + own["error_se"])
    assert float(own["tested_error"]) == pytest.approx(own["error"], abs=spread)
    assert other["error"] == own["error"]
