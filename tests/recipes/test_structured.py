"""Structured heads: equal weights where the figure says so, its words and its picture."""

from rankwise.recipes.structured import FIGURE
from recipe_rows import points_from


def error_of(run):
    if run.task.name == "in_context":
        return 0.5 if run.model.score_form == "low_rank" else 0.25
    return 0.002 if run.model.score_form != "low_rank" or run.model.rank == 16 else 0.6


def measured_of(run):
    return {f"after_{count}": 0.5 for count in range(16)} if run.task.name == "in_context" else {}


def test_structure_and_low_rank_have_equal_parameters_in_context():
    for preset, wanted in (("laptop", 1024), ("full", 8192)):
        runs = [run for run in FIGURE.sweep(preset, seeds=1).expand() if run.task.name == "in_context"]
        weights = {run.id: FIGURE.columns(run)["weights"] for run in runs}
        same = {run.parameters() for run in runs if weights[run.id] == wanted}
        forms = {run.model.score_form for run in runs if weights[run.id] == wanted}
        assert len(same) == 1
        assert forms == {"low_rank", "block_low_rank", "monarch"}


def test_values_do_not_depend_on_the_form():
    runs = [run for run in FIGURE.sweep("laptop", seeds=1).expand() if run.task.name == "farthest"]
    assert {run.model.value_rank for run in runs} == {16}
    assert {run.protocol for run in runs} == {"capacity"}


def test_reading_and_picture_from_fixed_numbers():
    points = points_from(FIGURE, "laptop", error_of, measured_of)
    lines = FIGURE.reading(FIGURE.presets["laptop"], points)
    assert "multiple of the identity" in lines[0], "why structure wins here must be said"
    assert lines[1].startswith(
        "64 score weights per head, 1 head of 8 blocks + rank 1: 0.002; 1 head of rank 2: 0.6. Structure wins"
    )
    assert "In context, 8 heads of Monarch of 8 blocks: 0.25; 8 heads of rank 8: 0.5. Structure wins" in (
        " ".join(lines)
    )
    figure = FIGURE.picture(FIGURE.presets["laptop"], points).draw()
    titles = [axes.get_title() for axes in figure.axes]
    assert titles[0] == "farthest of 8, $d = 16$: 1 head"
    assert titles[2].startswith("linear functions of 10 dimensions")
