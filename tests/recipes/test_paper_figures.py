"""The authors' values: complete, plausible, and found by their labels."""

import pytest

from rankwise.recipes.paper_figures import _read, published


@pytest.mark.parametrize(
    ("name", "curves"), [("figure1", 9), ("figure2", 2), ("figure3", 6), ("figure4", 4), ("random_features", 4)]
)
def test_every_curve_has_a_value_at_every_x(name, curves):
    figure = _read()[name]
    assert len(figure["curve"]) == curves
    for curve in figure["curve"]:
        assert len(curve["values"]) == len(figure["x"]) == len(set(figure["x"]))
        assert set(curve.get("uncertain", ())) <= set(figure["x"])
        assert all(0 < value < (3000 if "measure" in curve else 1.2) for value in curve["values"])


def test_curves_are_found_by_their_labels_and_size():
    deep = published("figure1", dim=64, points=16, layers=3, exponent=2)
    assert (deep[4], deep[64], deep.get(3)) == (0.055, 0.00075, None)
    assert published("random_features", dim=8)[2048] == 0.1601
    assert published("figure4", dim=64, points=4)[1] == 0.023
    assert published("figure1", layers=2) == {}
    assert published("figure1", layers=1) == {}, "three of them"
    assert published("figure1", dim=16, points=8, layers=3, exponent=2) == {}, "another size"
