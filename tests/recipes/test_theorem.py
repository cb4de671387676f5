import pytest

from rankwise.recipes.points import points_of
from rankwise.recipes.theorem import FIGURE, below_bound, random_feature_errors
from rankwise.theory.bounds import error_lower_bound
from rankwise.train.loop import train
from recipe_rows import points_from, trained


@pytest.mark.parametrize("preset", list(FIGURE.presets))
def test_every_run_is_one_bare_layer_on_two_orthogonal_points(preset):
    for run in FIGURE.sweep(preset, seeds=1).expand():
        model, task = run.model, run.task
        assert (task.name, task.points, task.distribution) == ("nearest", 2, "orthogonal")
        bare = (model.layers, model.norm, model.residual, model.feedforward, model.bias)
        assert bare == (1, "none", "none", 0, False)
        assert model.rank <= model.dim
        assert model.heads <= 4 * model.dim


def test_random_features_improve_with_heads_and_stay_above_the_bound():
    errors = [random_feature_errors(16, heads).mean for heads in (1, 16, 64)]
    assert errors == sorted(errors, reverse=True)
    assert all(e >= error_lower_bound(16, 1, h).value for e, h in zip(errors, (1, 16, 64), strict=True))


def test_each_kind_is_held_against_its_own_bound():
    points = points_from(FIGURE, "smoke", lambda run: 0.4)
    for point in points:
        values = "any" if point["kind"] == "softmax" else "scaled_identity"
        bound = error_lower_bound(point["dim"], point["rank"], point["heads"], values=values).value
        assert point.mean("bound") == bound
    assert {point["kind"] for point in points} == {"softmax", "generalised"}
    assert len(FIGURE.picture(FIGURE.presets["smoke"], points).draw().axes) == 1


def test_a_point_below_the_bound_is_found_and_said():
    runs = list(FIGURE.sweep("smoke").expand())
    low = next(run for run in runs if run.model.generalized and run.model.rank == 1 and run.model.heads == 1)
    bound = error_lower_bound(8, 1, 1).value
    inside, outside = (points_of(FIGURE.rows([trained(low, bound - k * 0.001)]), FIGURE.keys) for k in (3.9, 4.1))
    assert below_bound(inside) == []
    assert below_bound(outside) == outside
    assert "none of 1 points lies" in FIGURE.reading(FIGURE.presets["smoke"], inside)[0]
    assert "1 of 1 points lie below" in FIGURE.reading(FIGURE.presets["smoke"], outside)[0]


def test_one_trained_head_of_rank_one_reaches_the_bound_and_does_not_cross_it():
    """For H = 1 the bound is attained: training comes within a few percent, from above."""
    sweep = FIGURE.sweep("smoke", only=("rank=1", "heads=1", "kind=generalised"))
    (run,) = sweep.expand()
    result = train(run)
    bound = error_lower_bound(8, 1, 1).value
    assert bound - 4 * result.error_se < result.error < 1.04 * bound
