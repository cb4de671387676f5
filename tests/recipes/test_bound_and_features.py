"""The figures ``bound`` and ``features``: random heads above the bound, and the published values explained."""

import dataclasses
from statistics import fmean

import pytest

from rankwise.recipes.closed_form import bound, features
from rankwise.recipes.paper_figures import published
from rankwise.recipes.points import lines_of, select
from rankwise.theory.bounds import error_lower_bound
from rankwise.theory.kernels import optimal_weights, random_features
from rankwise.theory.random_heads import errors_as_published, random_head_errors


@pytest.fixture(scope="module")
def bounds():
    return bound.FIGURE.compute(bound.FIGURE.presets["smoke"])


@pytest.fixture(scope="module")
def errors():
    return features.FIGURE.compute(features.FIGURE.presets["smoke"])


def test_no_random_heads_cross_the_bound(bounds):
    random = select(bounds, kind="random")
    assert len(random) == 20
    for mark in random:
        assert error_lower_bound(mark["dim"], 1, mark["heads"]).value < mark["random_least"] <= mark["random_mean"]


def test_heads_below_the_bound_are_a_bug(monkeypatch):
    monkeypatch.setattr(bound, "random_head_errors", lambda dim, heads, seed: [0.01] * len(heads))
    settings = dataclasses.replace(bound.FIGURE.presets["smoke"], ranks={8: (1,)}, steps_per_decade=1)
    with pytest.raises(AssertionError, match="less than the bound allows"):
        bound.FIGURE.compute(settings)


def test_the_level_and_the_standard_scaling(bounds):
    standard = {(mark["dim"], mark["rank"]): mark for mark in select(bounds, kind="standard")}
    assert (standard[8, 1]["level"], standard[64, 1]["level"]) == pytest.approx((0.161, 0.179), abs=5e-4)
    assert standard[64, 1]["bound"] == pytest.approx(standard[64, 1]["level"], abs=2e-4)
    assert standard[64, 1]["log10_heads_required"] == pytest.approx(7.366, abs=1e-3)
    lines = {key: [m["bound"] for m in select(bounds, kind="line", dim=key[0], rank=key[1])] for key in standard}
    for line in lines.values():
        assert line == sorted(line, reverse=True)
        assert 0 <= line[-1] < line[0] < 0.5
    assert all(low <= high for low, high in zip(lines[64, 8], lines[64, 1], strict=True))


def test_errors_are_those_of_the_first_heads_of_a_draw():
    queries, keys = random_features(8, 64, 3)
    assert random_head_errors(8, [5, 64], 3) == [
        optimal_weights(queries[:5], keys[:5])[1],
        optimal_weights(queries, keys)[1],
    ]


def test_errors_fall_with_heads_and_stay_near_the_published(errors):
    for dim, line in lines_of(errors, "dim").items():
        means = [mark["error"] for mark in line]
        assert means == sorted(means, reverse=True)
        authors = published("random_features", dim=dim)
        assert [mark["published"] for mark in line] == [authors[mark["heads"]] for mark in line]
        for mark in line:
            assert mark["least"] <= mark["error"] <= mark["greatest"]
            assert ("published_gap" in mark) == (mark["heads"] >= 64)
            if mark["heads"] >= 256:
                assert -0.02 < mark["published_gap"] < 0  # the figure lies below: see the next test


@pytest.mark.parametrize(("dim", "heads"), [(8, 512), (16, 512), (64, 1024)])
def test_the_formula_at_short_keys_gives_the_published_value(dim, heads):
    value = fmean(errors_as_published(dim, [heads], seed)[0] for seed in range(3))
    assert value == pytest.approx(published("random_features", dim=dim)[heads], abs=0.003)


def test_a_dimension_the_authors_do_not_have():
    settings = features.Settings(dims=(5,), most_heads=4, draws=2, most_heads_as_published=2, draws_as_published=1)
    marks = features.FIGURE.compute(settings)
    assert [(mark["heads"], "published" in mark, "formula" in mark) for mark in marks] == [
        (1, False, True),
        (2, False, True),
        (4, False, False),
    ]
    assert "The authors' figure has no value there." in features.FIGURE.reading(settings, marks)


def test_they_draw_and_say_what_is_seen(bounds, errors):
    settings = bound.FIGURE.presets["smoke"]
    for figure, marks in ((bound.FIGURE, bounds), (features.FIGURE, errors)):
        assert len(figure.picture(figure.settings("smoke"), marks).draw().axes) == 2
    assert len(bound.FIGURE.tabled(bounds)) == sum(map(len, settings.ranks.values()))
    assert "None of 40 sets of random rank-1 heads errs less than the bound." in bound.FIGURE.reading(settings, bounds)
    (mark,) = select(errors, dim=8, heads=512)
    assert features.FIGURE.reading(features.FIGURE.presets["smoke"], errors)[:2] == [
        f"Dimension 8, 512 heads: the error is {mark['error']:.3f}.",
        f"The authors' figure shows {mark['published']:.3f} there.",
    ]
