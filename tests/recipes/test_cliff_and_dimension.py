import itertools

import pytest

from rankwise.recipes import cliff, dimension
from recipe_rows import points_from


@pytest.mark.parametrize("preset", list(cliff.FIGURE.presets))
def test_the_cliff_is_searched_in_fine_steps_up_to_full_rank(preset):
    settings = cliff.FIGURE.presets[preset]
    runs = list(cliff.FIGURE.sweep(preset, seeds=1).expand())
    assert len(runs) == len(settings.ranks) * len(settings.heads)
    assert {run.model.layers for run in runs} == {1}
    ranks = settings.ranks
    assert (ranks[0], ranks[-2:]) == (settings.dim // 2, (settings.dim - 1, settings.dim))
    assert all(settings.dim // 2 <= rank <= settings.dim for rank in ranks)
    if preset != "smoke":
        assert settings.heads == (1, 2, 4)
        assert all(high - low <= 4 for low, high in itertools.pairwise(ranks))


def test_the_cliffs_reading_and_picture_from_fixed_numbers():
    errors = {8: 0.8, 15: 0.3, 16: 0.01}
    points = points_from(cliff.FIGURE, "smoke", lambda run: errors[run.model.rank] + 0.1 * run.seed, seeds=2)
    one, _ = cliff.FIGURE.reading(cliff.FIGURE.presets["smoke"], points)
    assert one.startswith("1 head: the error of rank 8 is halved from rank 15 on. The last rank takes it from 0.35 to")
    (axes,) = cliff.FIGURE.picture(cliff.FIGURE.presets["smoke"], points).draw().axes
    assert axes.get_yscale() == "log"
    assert [label.get_text() for label in axes.get_xticklabels()] == ["8", "15", "16"]


def test_a_flat_line_is_never_halved():
    points = points_from(cliff.FIGURE, "smoke", lambda run: 0.5)
    assert "never halved" in cliff.FIGURE.reading(cliff.FIGURE.presets["smoke"], points)[0]


@pytest.mark.parametrize("preset", list(dimension.FIGURE.presets))
@pytest.mark.parametrize("protocol", ["capacity", "paper"])
def test_every_dimension_has_the_same_shares(preset, protocol):
    settings = dimension.FIGURE.presets[preset]
    runs = list(dimension.FIGURE.sweep(preset, protocol=protocol, seeds=1).expand())
    shapes = [(run.model.dim, run.model.dim // run.model.rank) for run in runs]
    assert shapes == [(dim, split) for dim in settings.dims for split in settings.splits]
    for run in runs:
        assert run.model.layers == 2
        assert run.model.heads * run.model.rank == settings.modules * run.model.dim
        assert protocol != "paper" or run.model.average == settings.modules


def test_dimensions_reading_and_picture_from_fixed_numbers():
    points = points_from(dimension.FIGURE, "laptop", lambda run: run.model.dim / run.model.rank / 100)
    said = dimension.FIGURE.reading(dimension.FIGURE.presets["laptop"], points)
    assert said[0] == "r = d: the error is 0.01 to 0.01 over all d."
    assert said[1] == "r = d/2: the error is 0.02 to 0.02 over all d."
    assert said[-1] == "The same rank 4: 0.02 at d = 8, 0.08 at d = 32."
    by_rank, by_share = dimension.FIGURE.picture(dimension.FIGURE.presets["laptop"], points).draw().axes
    assert [label.get_text() for label in by_share.get_xticklabels()] == ["1/8", "1/4", "1/2", "1"]
    assert [label.get_text() for label in by_rank.get_xticklabels()] == ["1", "2", "4", "8", "16", "32"]
