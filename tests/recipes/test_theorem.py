from dataclasses import replace

import pytest

from rankwise.recipes import theorem
from rankwise.recipes.theorem import PRESETS, below_bound, points_of, random_feature_points, reading
from rankwise.recipes.trained import TrainedRun
from rankwise.spec import vary
from rankwise.theory.bounds import error_lower_bound
from rankwise.train.loop import train


@pytest.mark.parametrize("preset", list(PRESETS))
def test_every_run_is_one_bare_layer_on_two_orthogonal_points(preset):
    for run in theorem.sweep(preset).expand():
        model, task = run.model, run.task
        assert (task.name, task.points, task.distribution) == ("nearest", 2, "orthogonal")
        assert (model.layers, model.norm, model.residual, model.feedforward, model.bias) == (1, "none", False, 0, False)
        assert model.rank <= model.dim
        assert model.heads <= 4 * model.dim


def test_random_features_lie_above_the_bound_and_improve_with_heads():
    points = random_feature_points("laptop")
    assert below_bound(points) == []
    for dim in PRESETS["laptop"].grids:
        line = [point for point in points if point.dim == dim]
        assert [point.error for point in line] == sorted((point.error for point in line), reverse=True)


def test_random_features_may_not_lie_below_their_bound_however_much_draws_differ():
    some = random_feature_points("smoke")[0]
    assert some.error_se > 0
    low = replace(some, error=some.bound - some.error_se)
    assert below_bound([some, low]) == [low]


def trained(run, error, error_se=0.001):
    return TrainedRun(run=run, error=error, error_se=error_se, train_min=error, sequences=64, seconds=1.0)


def test_each_kind_is_held_against_its_own_bound():
    points = points_of(theorem.rows([trained(run, 0.4) for run in theorem.sweep("smoke").expand()]))
    for point in points:
        values = "any" if point.kind == "softmax" else "scaled_identity"
        assert point.bound == error_lower_bound(point.dim, point.rank, point.heads, values=values).value
    assert {point.kind for point in points} == {"softmax", "generalised"}


def test_a_point_below_the_bound_is_found_and_said():
    runs = list(theorem.sweep("smoke").expand())
    low = next(run for run in runs if run.model.generalized and run.model.rank == 1 and run.model.heads == 1)
    bound = error_lower_bound(8, 1, 1).value
    inside, outside = (points_of(theorem.rows([trained(low, bound - k * 0.001)])) for k in (3.9, 4.1))
    assert below_bound(inside) == []
    assert below_bound(outside) == outside
    assert "none of 1 points lies" in reading(inside)
    assert "1 of 1 points lie below" in reading(outside)


def test_one_trained_head_of_rank_one_reaches_the_bound_and_does_not_cross_it():
    """For H = 1 the bound is attained: training comes within a few percent, from above."""
    run = theorem._run(8, 1, 1, "generalised", 300)
    result = train(vary(run, {"optim.epoch_steps": 300}))
    bound = error_lower_bound(8, 1, 1).value
    assert bound - 4 * result.error_se < result.error < 1.04 * bound
