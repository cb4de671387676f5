import pytest
from matplotlib.figure import Figure

from rankwise.report.panels import Series, draw_levels, draw_series, heads_axes, rank_axes


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


def test_axes_tick_where_there_are_points(axes):
    rank_axes(axes, [2, 4, 16], "title")
    assert [label.get_text() for label in axes.get_xticklabels()] == ["2", "4", "16"]
    assert (axes.get_xscale(), axes.get_yscale()) == ("log", "log")


def test_heads_start_at_zero_error(axes):
    heads_axes(axes, [1, 8], "title")
    assert axes.get_ylim()[0] == 0
    assert [label.get_text() for label in axes.get_xticklabels()] == ["1", "8"]
