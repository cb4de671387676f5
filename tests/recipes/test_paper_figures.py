"""The authors' values: complete, plausible, and found by their labels."""

import pytest

from rankwise.errors import InvalidInputError
from rankwise.recipes.paper_figures import published_figure


@pytest.mark.parametrize(
    ("name", "axis", "curves"), [("figure1", "rank", 9), ("figure2", "heads", 2), ("figure3", "rank", 6),
                                 ("figure4", "rank", 4), ("random_features", "heads", 4)]
)  # fmt: skip
def test_every_curve_has_a_value_at_every_x(name, axis, curves):
    figure = published_figure(name)
    assert figure.axis == axis
    assert len(figure.curves) == curves
    for curve in figure.curves:
        assert len(curve.values) == len(curve.x) == len(set(curve.x))
        assert set(curve.uncertain) <= set(curve.x)
        assert all(0 < value < (3000 if "measure" in curve.labels else 1.2) for value in curve.values)


def test_curves_are_found_by_their_labels():
    deep = published_figure("figure1").curve(layers=3, exponent=2)
    assert deep is not None
    assert (deep.at(4), deep.at(64), deep.at(3)) == (0.055, 0.00075, None)
    assert deep.uncertain == ()
    shallow = published_figure("figure1").curve(layers=1, exponent=1)
    assert (shallow.accuracy(4), shallow.accuracy(8)) == (0.03, 0.01)
    assert published_figure("figure3").curve(layers=1, positions="additive").uncertain == (1,)
    assert published_figure("random_features").curve(dim=8).at(2048) == 0.1601
    assert published_figure("figure1").curve(layers=2) is None
    assert published_figure("figure1").curve(layers=1) is None  # three of them


def test_an_unknown_figure_is_named():
    with pytest.raises(InvalidInputError, match=r"expected one of figure1, .*did you mean 'figure1'"):
        published_figure("figur1")
