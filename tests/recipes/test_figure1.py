import pytest

from rankwise.recipes.figure1 import FIGURE
from recipe_rows import points_from


@pytest.mark.parametrize("preset", list(FIGURE.presets))
@pytest.mark.parametrize("protocol", ["capacity", "paper"])
def test_every_curve_has_one_attention_budget(preset, protocol):
    settings = FIGURE.presets[preset]
    runs = list(FIGURE.sweep(preset, protocol=protocol, seeds=1).expand())
    expected = [(c.layers, f"d^{1 + c.exponent:g}", rank) for c in settings.curves for rank in c.ranks]
    assert [(run.model.layers, FIGURE.columns(run)["budget"], run.model.rank) for run in runs] == expected
    for run in runs:
        exponent = float(str(FIGURE.columns(run)["budget"]).removeprefix("d^")) - 1
        assert run.model.heads * run.model.rank == settings.dim**exponent
        assert (run.task.points, run.protocol, run.model.positions) == (settings.points, protocol, "none")


def test_full_size_is_the_grid_that_is_promised():
    runs = list(FIGURE.sweep("full").expand())
    assert len(runs) == 7 + 7 + 3 + 7 + 3
    assert {run.optim.steps * run.optim.batch for run in runs} == {1_280_000}
    assert {(run.task.dim, run.task.points) for run in runs} == {(64, 16)}


ERRORS = {(1, 16): 0.01, (1, 8): 0.5, (1, 4): 0.7, (3, 16): 0.02, (3, 8): 0.3, (3, 4): 0.6}


def test_the_reading_compares_full_with_half_rank_and_depths():
    points = points_from(FIGURE, "demo", lambda run: ERRORS[run.model.layers, run.model.rank])
    one, three, depth = FIGURE.reading(FIGURE.presets["demo"], points)
    assert one.startswith("1 layer: full rank reaches 0.01")
    assert "at least 50 times" in one
    assert "at least 15 times" in three
    assert depth == "Depth narrows it: half rank goes from 0.5 to 0.3 with 3 layers (d^2)."
    flat = points_from(FIGURE, "demo", lambda run: 0.5 if run.model.rank < 16 else 0.01)
    assert "does not narrow" in FIGURE.reading(FIGURE.presets["demo"], flat)[2]


def test_depths_are_compared_at_a_budget_that_both_have():
    def error(run):
        few = run.model.heads * run.model.rank == 16
        return 0.01 if run.model.rank == 16 else 0.4 if run.model.layers == 3 else 0.7 if few else 0.3

    points = points_from(FIGURE, "demo", error, only=("rank=8,16",))
    shallow_or_few = [p for p in points if p["layers"] == 1 or p["budget"] == "d^2"]
    assert "from 0.7 to 0.4 with 3 layers (d^2)" in FIGURE.reading(FIGURE.presets["demo"], shallow_or_few)[2]


def test_a_choice_without_full_rank_is_drawn_and_has_nothing_to_compare():
    points = points_from(FIGURE, "demo", lambda run: 0.5, only=("rank=4",))
    assert FIGURE.reading(FIGURE.presets["demo"], points) == []
    assert len(FIGURE.picture(FIGURE.presets["demo"], points).draw().axes) == 2


def test_the_papers_values_are_crosses_at_full_size_only():
    points = points_from(FIGURE, "full", lambda run: 0.9 * run.model.rank**-0.5, only=("budget=d^2", "layers=1,3"))
    *_, line = FIGURE.reading(FIGURE.presets["full"], points)
    assert line == "Of 14 held-out errors 6 lie below the paper's training error."
    axes = FIGURE.picture(FIGURE.presets["full"], points).draw().axes[0]
    crosses = [one for one in axes.lines if one.get_marker() == "x" and len(one.get_xdata())]
    assert [list(one.get_ydata()) for one in crosses] == [[0.868, 0.862, 0.856, 0.84, 0.803, 0.695, 0.0153]]
    small = FIGURE.picture(FIGURE.presets["smoke"], points_from(FIGURE, "smoke", lambda run: 0.5)).draw().axes[0]
    assert not [one for one in small.lines if one.get_marker() == "x"]


def test_by_the_papers_protocol_the_training_error_has_a_column():
    points = points_from(FIGURE, "full", lambda run: 0.5, protocol="paper", only=("rank=8", "layers=3"))
    assert "train_min" in FIGURE.present("full", points).columns
