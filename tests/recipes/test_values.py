from rankwise.recipes import figure1
from rankwise.recipes.values import FIGURE
from recipe_rows import points_from


def test_every_rank_is_trained_twice_and_only_the_value_rank_differs():
    runs = list(FIGURE.sweep("laptop", seeds=1).expand())
    for narrow, whole in zip(runs[::2], runs[1::2], strict=True):
        assert (narrow.model.value_rank, whole.model.value_rank) == (None, 16)
        assert (narrow.model.heads, narrow.model.rank, narrow.optim) == (
            whole.model.heads,
            whole.model.rank,
            whole.optim,
        )
    shared = {run.id for run in figure1.FIGURE.sweep("laptop", seeds=1).expand()}
    assert len(shared & {run.id for run in runs}) == 8, "values of rank r are the cells of figure 1"


def test_reading_and_picture_from_fixed_numbers():
    points = points_from(FIGURE, "laptop", lambda run: 0.8 if run.model.value_rank is None else 0.6)
    level, *lines = FIGURE.reading(FIGURE.presets["laptop"], points)
    assert level.startswith("Linear scores with whole values reach 0.51")
    assert lines[1] == "2 heads of rank 8: 0.8 with values of that rank, 0.6 with whole values."
    figure = FIGURE.picture(FIGURE.presets["laptop"], points).draw()
    assert [axes.get_title() for axes in figure.axes] == ["$H = 16/r$", "$H = 64/r$"]
    labels = {text.get_text() for text in figure.legends[0].get_texts()}
    assert labels == {"values of rank $r$", "values of rank $d$", "linear scores, whole values"}
