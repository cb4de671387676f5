import pytest

from rankwise.recipes import figure4
from rankwise.recipes.figure4 import EVALUATED, PRESETS, draw, exact_head, reading, transfers_of
from recipe_rows import rows_of, trained_here


@pytest.mark.parametrize("preset", list(PRESETS))
def test_the_grid_is_two_layers_with_the_largest_budget(preset):
    settings = PRESETS[preset]
    runs = list(figure4.sweep(preset).expand())
    expected = [(points, rank) for points in settings.sequences for rank in settings.ranks]
    assert [(run.task.points, run.model.rank) for run in runs] == expected
    for run in runs:
        assert run.model.layers == 2
        assert run.model.heads * run.model.rank == settings.dim**2
        assert run.optim.steps * run.optim.batch == pytest.approx(settings.sequences[run.task.points], rel=0.01)


def test_the_papers_protocol_spends_the_papers_budget_on_the_papers_grid():
    runs = list(figure4.sweep("paper", protocol="paper").expand())
    assert {run.optim.steps * run.optim.batch for run in runs} == {51_200_000}
    assert {run.optim.lr for run in runs} == {0.005}
    assert {run.model.average for run in runs} == {64}
    assert [(run.task.points, run.model.rank) for run in runs[:5]] == [(4, rank) for rank in (1, 8, 16, 32, 64)]


@pytest.mark.parametrize(
    ("protocol", "expected"),
    [("capacity", {4: 51_200, 16: 51_200, 64: 12_800, 256: 3_200}), ("paper", dict.fromkeys((4, 16, 64, 256), 51_200))],
)
def test_sequences_asked_for_keep_the_proportions_between_numbers_of_points(protocol, expected):
    runs = list(figure4.sweep("paper", protocol=protocol, ranks=(32,), sequences=51_200).expand())
    assert {run.task.points: run.optim.steps * run.optim.batch for run in runs} == expected
    alone = figure4.sweep("paper", protocol=protocol, ranks=(32,), sequences=51_200, pieces=(3,))
    assert [run.id for run in alone.expand()] == [runs[2].id], "a piece is the same run as in the whole"


def measured(preset, own, other):
    rows = []
    for points in EVALUATED:
        extra = {"evaluated_points": points, "evaluated_error_se": 0.001}
        rows += rows_of(
            "figure4",
            figure4.sweep(preset),
            own,
            lambda run: extra | {"evaluated_error": other(run, extra["evaluated_points"])},  # noqa: B023
        )
    return rows


def test_transfers_reading_and_drawing_from_fixed_numbers():
    rows = measured("paper", lambda run: 1 / run.model.rank, lambda run, points: points / 2000 / run.model.rank)
    transfers = transfers_of(rows)
    assert [(t.trained, t.rank) for t in transfers[:6]] == [(4, 1), (4, 8), (4, 16), (4, 32), (4, 64), (16, 1)]
    first = transfers[0]
    assert (first.own.error, first.own.seeds, first.authors, first.heads) == (1.0, 1, 0.023, 4096)
    assert {points: mean.error for points, mean in first.others.items()} == {n: n / 2000 for n in EVALUATED}
    exact = {t.trained: dict.fromkeys(EVALUATED, 0.01) for t in transfers}
    lines = reading(transfers, exact, 64)
    assert lines[0] == "Trained with 4 and 256 points: rank 32 goes from 0.031 to 0.031, rank 64 from 0.016 to 0.016."
    assert lines[1] == (
        "Sequences in training, with as many queries each as points: 4 points 1,280,000; 16 points 1,280,000; "
        "64 points 320,000; 256 points 80,000; the authors' models 51,200,000."
    )
    assert "Trained with 16 points, tested with 1024: rank 32 0.016, rank 64 0.008" in lines[3]
    figure = draw(transfers, exact, dict.fromkeys(EVALUATED, 0.9), 64)
    assert [axes.get_title() for axes in figure.axes[1:]] == [f"trained with {n} points" for n in (4, 16, 64, 256)]
    crosses = [line for line in figure.axes[0].lines if line.get_marker() == "x" and len(line.get_xdata())]
    assert len(crosses) == 4
    labels = {text.get_text() for text in figure.legends[0].get_texts()}
    assert labels == {"exact head, softmax", "best linear", *(f"rank {rank}" for rank in (1, 8, 16, 32, 64))}


def test_the_exact_head_agrees_where_it_should_and_errs_more_with_more_points():
    line = exact_head(8, 16, 0.02)
    assert line[16] == pytest.approx(0.02, rel=1e-3)
    assert line[4] < line[16] < line[256]
    assert exact_head(8, 16, 1.0) is None, "softer than any: what collapsed to 0 has no exact head beside it"


def test_trained_models_are_tested_with_other_numbers_of_points(tmp_path, monkeypatch):
    monkeypatch.setattr(figure4, "EVALUATED", (4, 8))
    trained = trained_here(next(figure4.sweep("smoke").expand()), tmp_path)
    own, other = figure4.rows([trained])
    assert [row.extra["evaluated_points"] for row in (own, other)] == [4, 8]
    # the same examples are not drawn again, but the error is that of the same model at the same N
    spread = 4 * (float(own.extra["evaluated_error_se"]) + trained.error_se)
    assert float(own.extra["evaluated_error"]) == pytest.approx(trained.error, abs=spread)
    assert other.error == trained.error


def test_one_rank_and_some_numbers_of_points_can_be_chosen_and_read():
    sweep = figure4.sweep("paper", pieces=(1, 3), ranks=(32,), sequences=64_000)
    assert [(run.task.points, run.model.rank) for run in sweep.expand()] == [(4, 32), (64, 32)]
    rows = [
        row
        for row in measured("paper", lambda run: run.task.points / 100, lambda run, points: 0.5)
        if row.rank == 32 and row.points in (4, 64)
    ]
    first, _ = reading(transfers_of(rows), {}, 64)
    assert first == "Trained with 4 and 64 points: rank 32 goes from 0.04 to 0.64."
