import pytest

from rankwise.recipes import figure1
from rankwise.recipes.figure1 import PRESETS, gaps, points_of, reading
from rankwise.recipes.trained import TrainedRun
from rankwise.spec import vary


def trained(run, error, error_se=0.001):
    return TrainedRun(run=run, error=error, error_se=error_se, train_min=error, sequences=64, seconds=1.0)


@pytest.mark.parametrize("preset", list(PRESETS))
@pytest.mark.parametrize("protocol", ["capacity", "paper"])
def test_every_curve_has_one_attention_budget_and_reaches_from_low_to_full_rank(preset, protocol):
    runs = list(figure1.sweep(preset, protocol).expand())
    grid = PRESETS[preset]
    assert len(runs) == len({run.id for run in runs}) == len(grid.sequences) * len(grid.exponents) * len(grid.ranks)
    for exponent in grid.exponents:
        budget = [run for run in runs if run.model.heads * run.model.rank == round(grid.dim**exponent)]
        assert {run.model.rank for run in budget} == set(grid.ranks)
        assert max(grid.ranks) == grid.dim
    assert {run.protocol for run in runs} == {protocol}


def test_the_full_size_grid_is_the_papers():
    runs = list(figure1.sweep("paper", "paper").expand())
    assert len(runs) == 63
    assert {run.model.layers for run in runs} == {1, 3, 5}
    assert {run.model.average for run in runs} == {1, 8, 64}
    assert {run.optim.steps * run.optim.batch for run in runs} == {25_600_000}


def test_points_gaps_and_reading_are_computed_from_the_runs():
    runs = list(figure1.sweep("demo").expand())
    errors = {(1, 16): 0.01, (1, 8): 0.5, (1, 4): 0.7, (3, 16): 0.02, (3, 8): 0.3, (3, 4): 0.6}
    points = points_of([trained(run, errors[run.model.layers, run.model.rank]) for run in runs])
    assert [(p.layers, p.exponent, p.rank) for p in points[:4]] == [(1, 1, 4), (1, 1, 8), (1, 1, 16), (1, 1.5, 4)]
    assert {gap.layers: gap.ratio for gap in gaps(points)} == pytest.approx({1: 50, 3: 15})
    lines = reading(points)
    assert "at least 50 times as much" in lines[0]
    assert "at least 15 times as much" in lines[1]
    assert "narrows it: the best half rank error goes from 0.5 to 0.3 with 3 layers" in lines[2]
    worse = points_of([trained(run, 0.5 if run.model.rank < 16 else 0.01) for run in runs])
    assert "does not narrow" in reading(worse)[2]


def test_seeds_are_averaged_with_the_spread_between_them():
    run = next(figure1.sweep("smoke").expand())
    (point,) = points_of([trained(vary(run, {"seed": seed}), error) for seed, error in enumerate((0.1, 0.2, 0.3))])
    assert (point.error, point.seeds) == (pytest.approx(0.2), 3)
    assert point.spread == pytest.approx(0.1 / 3**0.5)
    (alone,) = points_of([trained(run, 0.1, error_se=0.007)])
    assert alone.spread == 0.007
