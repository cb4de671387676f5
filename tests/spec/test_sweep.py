import pytest
from hypothesis import given, settings

from rankwise.errors import SpecError
from rankwise.spec import Axis, SweepSpec, vary
from rankwise.spec.sweep import MAX_RUNS
from spec_examples import seeds_sweep, small_run, sweeps


def sweep(*axes):
    return SweepSpec(name="s", base=small_run(), axes=tuple(Axis.of(axis) for axis in axes))


def test_tables_are_crossed_and_their_keys_move_together():
    grid = sweep({"model.rank": [1, 2], "model.heads": [8, 4]}, {"seed": [0, 1, 2]})
    found = [(run.model.rank, run.model.heads, run.seed) for run in grid.expand()]
    assert found == [(r, h, s) for r, h in ((1, 8), (2, 4)) for s in (0, 1, 2)]
    assert grid.size() == len(found)


def test_cross_field_checks_see_the_varied_run_whole():
    """dim = 4 alone would contradict the base's task; together the two are fine."""
    (run,) = sweep({"model.dim": [4], "task.dim": [4]}).expand()
    assert run.model.dim == 4


def test_a_run_that_cannot_be_says_which_one():
    grid = sweep({"model.kv_heads": [1, 3]}, {"seed": [0, 7]})
    with pytest.raises(SpecError) as caught:
        list(grid.expand())
    assert str(caught.value).startswith("model.kv_heads: expected a divisor of heads=2, got 3")
    assert str(caught.value).endswith("(in the run with model.kv_heads = 3, seed = 0)")


@pytest.mark.parametrize(
    ("axes", "message"),
    [
        ([{"model.rnak": [1]}], r"axes[0].model.rnak: unknown key (did you mean 'rank'?)"),
        ([{"seed": [0]}, {"modl.rank": [1]}], r"axes[1].modl: unknown key (did you mean 'model'?)"),
        ([{"seed.deep": [1]}], r"axes[0].seed.deep: unknown key"),
        ([{"model": [1]}], r"axes[0].model: expected one of its keys (dim, layers,"),
        ([{"model.rank": [1, True]}], r"axes[0].model.rank[1]: expected a whole number, got true"),
        ([{"optim.lr": [0.1, float("nan")]}], r"axes[0].optim.lr[1]: expected a finite number, got nan"),
        ([{"model.rank": [1, 2], "model.heads": [1]}], r"axes[0].model.rank: expected 1 values like model.heads"),
        ([{"seed": []}], r"axes[0].seed: expected at least one value, got an empty list"),
        ([{}], r"axes[0]: expected a key of a run with a list of values, got none"),
        ([{"seed": [0]}, {"seed": [1]}], r"axes[1].seed: duplicate key, already varied by axes[0]"),
        (
            [{"seed": range(2000)}, {"optim.steps": range(1, 2001)}],
            r"axes: expected at most 1,000,000 runs, got 4,000,000",
        ),
    ],
)
def test_axes_that_cannot_be_meant(axes, message):
    with pytest.raises(SpecError) as caught:
        sweep(*axes)
    assert str(caught.value).startswith(message)


def test_a_sweep_is_either_a_grid_or_a_list():
    runs = (small_run(), small_run(seed=1))
    assert tuple(SweepSpec(name="list", runs=runs).expand()) == runs
    with pytest.raises(ValueError, match="got both"):
        SweepSpec(name="s", base=small_run(), runs=runs)
    with pytest.raises(ValueError, match="got neither"):
        SweepSpec(name="s")
    with pytest.raises(ValueError, match="axes: expected a base run to vary"):
        SweepSpec(name="s", runs=runs, axes=(Axis.of({"seed": [1]}),))


def test_the_largest_grid_is_counted_without_being_built():
    assert sweep({"seed": range(1000)}, {"optim.steps": range(1, 1001)}).size() == MAX_RUNS


def test_varying_nothing_changes_nothing():
    assert vary(small_run(), {}) == small_run()


@settings(max_examples=30)
@given(sweeps())
def test_expanding_gives_as_many_runs_as_counted(some):
    assert sum(1 for _ in some.expand()) == some.size()


def test_seeds_are_ordinary_axes():
    assert [run.seed for run in seeds_sweep(3).expand()] == [0, 1, 2]
