"""The control of ``structured``: only the rotation differs, and the runs without one are those of ``structured``."""

from rankwise.recipes import structured
from rankwise.recipes.rotated import FIGURE
from recipe_rows import points_from


def test_each_shape_is_trained_with_and_without_a_rotation():
    runs = list(FIGURE.sweep("laptop", seeds=1).expand())
    plain, turned = runs[: len(runs) // 2], runs[len(runs) // 2 :]
    assert [run.model for run in plain] == [run.model for run in turned]
    assert ({run.task.rotation for run in plain}, {run.task.rotation for run in turned}) == ({None}, {0})
    assert {run.id for run in plain} <= {run.id for run in structured.FIGURE.sweep("laptop", seeds=1).expand()}


def test_reading_and_picture_from_fixed_numbers():
    def error_of(run):
        if run.task.rotation is None:
            return 0.125
        return 0.5 if run.model.score_form == "low_rank" else 0.25

    points = points_from(FIGURE, "laptop", error_of)
    lines = FIGURE.reading(FIGURE.presets["laptop"], points)
    assert lines[0].startswith("64 score weights, 1 head of 8 blocks + rank 1: 0.125 without the rotation, 0.25")
    assert lines[1].startswith("With the rotation 7 of 7 structured shapes err less")
    assert lines[2].endswith(": 0.25; full rank: 0.5.")
    axes = FIGURE.picture(FIGURE.presets["laptop"], points).draw().axes
    assert [one.get_title() for one in axes] == ["$T = I$", "a random rotation $T$"]
