import pytest
from matplotlib.figure import Figure

from rankwise.report.panels import Panel, Picture, PlotAxis, Series, dots, draw_levels, draw_series, legend_entry


@pytest.fixture
def axes():
    return Figure().subplots()


def test_lines_differ_in_colour_and_marker_and_own_styles_win(axes):
    own = {"marker": "x", "linestyle": "--"}
    draw_series(axes, [Series(label="a", x=[1, 2], y=[3, 4]), Series(label="b", x=[1, 2], y=[1, 1], style=own)])
    first, second = axes.lines
    assert (first.get_marker(), second.get_marker()) == ("o", "x")
    assert second.get_linestyle() == "--"
    assert first.get_color() != second.get_color()
    assert list(first.get_ydata()) == [3, 4]


def test_spreads_become_error_bars(axes):
    draw_series(axes, [Series(label="a", x=[1, 2], y=[3, 4], spread=[0.5, 0.25])])
    (bars,) = axes.containers
    (segments,) = (collection.get_segments() for collection in bars[2])
    assert [(low[1], high[1]) for low, high in segments] == [(2.5, 3.5), (3.75, 4.25)]


def test_levels_are_lines_with_their_names(axes):
    draw_levels(axes, {"zero": 1.0, "mean": 0.5, "almost zero": 0.98})
    assert [line.get_ydata()[0] for line in axes.lines] == [0.5, 0.98]
    assert [text.get_text() for text in axes.texts] == ["mean", "almost zero, zero"]


def test_names_of_two_near_levels_do_not_meet(axes):
    axes.set(yscale="log", ylim=(0.002, 1.2))
    draw_levels(axes, {"mean of points": 0.95, "best linear": 0.89})
    lower, upper = (text.get_window_extent() for text in axes.texts)
    assert lower.y1 < upper.y0


def panel(**changes):
    line = Series(label="a", x=[2, 4, 16], y=[0.5, 0.2, 0.1])
    fields = {"x": PlotAxis(label="rank", scale="log2", ticks=[2, 4, 16]), "y": PlotAxis(scale="log"), "series": [line]}
    return Panel(**{**fields, **changes})


def test_axes_tick_where_they_are_told(axes):
    panel(y=PlotAxis(low=0, high=1, ticks={0.5: "half"})).draw(axes)
    assert [label.get_text() for label in axes.get_xticklabels()] == ["2", "4", "16"]
    assert [label.get_text() for label in axes.get_yticklabels()] == ["half"]
    assert (axes.get_xscale(), axes.get_yscale(), axes.get_ylim()) == ("log", "linear", (0, 1))


def test_guides_are_in_the_legend_and_levels_are_not(axes):
    panel(guides={"random": 0.3}, levels={"zero": 1.0}, verticals=[4], legend="best").draw(axes)
    assert [text.get_text() for text in axes.get_legend().get_texts()] == ["a", "random"]


def test_a_picture_shares_its_vertical_axis_and_one_legend():
    figure = Picture(title="title", panels=[[panel(y=PlotAxis(label="error")), panel(), None]], legend="right").draw()
    first, second, empty = figure.axes
    assert (first.get_ylabel(), second.get_ylabel(), empty.axison) == ("error", "", False)
    assert [text.get_text() for text in figure.legends[0].get_texts()] == ["a"]
    assert figure.get_suptitle() == "title"


def test_bands_and_notes_are_drawn(axes):
    noted = Series(label="a", x=[1, 2], y=[3, 4], notes=["one", "two"], band=([2, 3], [4, 5]))
    draw_series(axes, [noted, legend_entry("only named", **dots("black")), Series(label="b", x=[1], y=[1])])
    assert [text.get_text() for text in axes.texts] == ["one", "two"]
    assert len(axes.collections) == 1
    assert axes.get_legend_handles_labels()[1] == ["a", "only named", "b"]
