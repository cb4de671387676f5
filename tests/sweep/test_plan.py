import pytest

from rankwise.errors import SpecError
from rankwise.spec import Axis, SweepSpec
from rankwise.sweep.plan import flatten, plan_sweep, telling_keys, varying_keys
from spec_examples import seeds_sweep, small_run


def test_equal_runs_are_planned_once():
    axes = (Axis.of({"seed": [0, 1, 0]}), Axis.of({"tags": [["a"], ["b"]]}))
    plan = plan_sweep(SweepSpec(name="s", base=small_run(), axes=axes))
    assert [run.spec.seed for run in plan.runs] == [0, 1]
    assert plan.merged == 4
    assert plan.runs[0].spec.tags == ("a",)


def test_a_label_tells_a_run_from_the_others():
    axes = (Axis.of({"model.rank": [1, 2], "model.heads": [4, 2]}), Axis.of({"seed": [0, 1]}))
    plan = plan_sweep(SweepSpec(name="s", base=small_run(), axes=axes))
    assert [run.label for run in plan.runs][:2] == ["heads=4 rank=1 seed=0", "heads=4 rank=1 seed=1"]
    assert len({run.label for run in plan.runs}) == 4
    (alone,) = plan_sweep(seeds_sweep(1)).runs
    assert alone.label == alone.id


def test_keys_that_follow_from_others_are_left_out_of_a_label_of_many():
    tables = [
        {"task.name": task, "task.length": 10 * len(task), "model.rank": rank, "seed": seed}
        for task in ("a", "bb")
        for rank in (1, 2)
        for seed in (0, 1)
    ]
    assert varying_keys(tables) == ["task.name", "task.length", "model.rank", "seed"]
    assert telling_keys(tables) == ["task.name", "model.rank", "seed"]
    settings = {"optim.lr": [0.1, 0.2], "optim.batch": [4, 8], "optim.steps": [5, 6], "model.rank": [1, 2]}
    settings |= {"model.heads": [2, 4], "optim.weight_decay": [0.1, 0.2], "seed": [0, 1]}
    first, second = plan_sweep(SweepSpec(name="s", base=small_run(), axes=(Axis.of(settings),))).runs
    assert (first.label, second.label) == ("heads=2", "heads=4")


def test_the_longest_run_comes_first_unless_the_order_is_the_listed_one():
    axes = (Axis.of({"optim.steps": [10, 1000, 100]}), Axis.of({"seed": [0, 1]}))
    plan = plan_sweep(SweepSpec(name="s", base=small_run(), axes=axes))
    assert [run.spec.optim.steps for run in plan.queue()] == [1000, 1000, 100, 100, 10, 10]
    assert [run.spec.optim.steps for run in plan.runs] == [10, 10, 1000, 1000, 100, 100]
    listed = plan_sweep(SweepSpec(name="s", base=small_run(), axes=axes, order="listed"))
    assert [run.id for run in listed.queue()] == [run.id for run in plan.runs]


def test_parameters_are_the_models():
    (run,) = plan_sweep(seeds_sweep(1)).runs
    assert run.parameters == run.spec.model.parameters()


def test_the_whole_grid_is_checked_before_anything_runs():
    axes = (Axis.of({"model.kv_heads": [1, 2, 3]}),)
    with pytest.raises(SpecError, match=r"in the run with model\.kv_heads = 3"):
        plan_sweep(SweepSpec(name="s", base=small_run(), axes=axes))


def test_flat_tables_and_what_varies_in_them():
    tables = [dict(flatten({"a": {"b": 1, "c": 2}, "d": [1]})), {"a.b": 1, "a.c": 3, "d": [1], "e": 0}]
    assert tables[0] == {"a.b": 1, "a.c": 2, "d": [1]}
    assert varying_keys(tables) == ["a.c", "e"]
    assert varying_keys([]) == []
