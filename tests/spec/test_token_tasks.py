"""Runs on any task: read by name, refused by key path, checked against the model; old ids stay."""

import pytest

from rankwise.errors import InvalidInputError, SpecError
from rankwise.spec import (
    Axis,
    ImagesSpec,
    InContextSpec,
    MatchSpec,
    ModelSpec,
    NeighborSpec,
    OptimSpec,
    RunSpec,
    SweepSpec,
    parse_toml,
    to_toml,
)
from spec_examples import small_run

RUN = """
[model]
dim = 8
heads = 2
rank = 4
causal = true
[optim]
lr = 0.01
steps = 5
batch = 4
"""


def run_with(task):
    return parse_toml(RunSpec, f"[task]\n{task}\n{RUN}")


@pytest.mark.parametrize(
    ("table", "kind"),
    [
        ('name = "nearest"\ndim = 8\npoints = 4', NeighborSpec),
        ('name = "in_context"\nfunction = "tree"\ndim = 3\npoints = 5', InContextSpec),
        ('name = "match3"\npoints = 5', MatchSpec),
        ('name = "images"\nsource = "digits"\npatch = 2', ImagesSpec),
    ],
)
def test_the_name_tells_which_task_a_table_is(table, kind):
    run = run_with(table)
    assert type(run.task) is kind
    assert parse_toml(RunSpec, to_toml(run)) == run


@pytest.mark.parametrize(
    ("table", "words"),
    [
        ("dim = 3", r"task\.name: missing, expected one of "),
        ('name = "match4"\npoints = 3', r"task\.name: expected one of .*'match3'.* \(did you mean 'match"),
        ('name = "match3"\npoints = 3\ndim = 4', r"task\.dim: unknown key"),
        ('name = "match3"\npoints = true', r"task\.points: expected a whole number, got true"),
        ('name = "text"\ncontext = 4', r"task\.sha256: missing"),
        ('name = "in_context"\nfunction = "linear"\ndim = 3\npoints = 5\n[task.curriculum]\nevery = 2', "dims_start"),
    ],
)
def test_what_is_not_understood_is_refused_by_its_path(table, words):
    with pytest.raises(SpecError, match=words):
        run_with(table)


def test_a_task_that_is_not_a_table():
    with pytest.raises(SpecError, match="task: expected a table, got 3"):
        small_run(task=3)


def test_models_must_be_able_to_answer():
    in_context = InContextSpec(function="linear", dim=3, points=5)
    optim = OptimSpec(lr=0.01, steps=5, batch=4)
    with pytest.raises(InvalidInputError, match=r"model\.causal: expected true for 'in_context'"):
        RunSpec(task=in_context, model=ModelSpec(dim=8, heads=2, rank=4), optim=optim)
    short = ModelSpec(dim=8, heads=2, rank=4, causal=True, positions="additive", max_points=8)
    with pytest.raises(InvalidInputError, match=r"max_points: expected at least 2 task\.points - 1 = 9, got 8"):
        RunSpec(task=in_context, model=short, optim=optim)
    with pytest.raises(InvalidInputError, match=r"model\.kv_lora_rank: expected none for 'nearest'"):
        small_run(model=ModelSpec(dim=8, heads=2, rank=4, kv_lora_rank=2))
    assert small_run(
        task=NeighborSpec(name="farthest", dim=8, points=4), model=ModelSpec(dim=8, heads=2, rank=4, kv_lora_rank=2)
    )


def test_axes_vary_the_keys_of_the_task_at_hand():
    base = RunSpec(
        task=MatchSpec(name="match2", points=4),
        model=ModelSpec(dim=8, heads=2, rank=4),
        optim=OptimSpec(lr=0.01, steps=5, batch=4),
    )
    sweep = SweepSpec(name="points", base=base, axes=(Axis.of({"task.points": [4, 8]}),))
    assert [run.task.points for run in sweep.expand()] == [4, 8]
    with pytest.raises(SpecError, match=r"axes\[0\]\.task\.dim: unknown key"):
        SweepSpec(name="dims", base=base, axes=(Axis.of({"task.dim": [4, 8]}),))
    with pytest.raises(SpecError, match="expected one of its keys"):
        SweepSpec(name="tasks", base=base, axes=(Axis.of({"task": [4, 8]}),))


def test_parameters_count_the_ends_too():
    run = RunSpec(
        task=MatchSpec(name="match2", points=4, modulus=9),
        model=ModelSpec(dim=8, heads=2, rank=4),
        optim=OptimSpec(lr=0.01, steps=5, batch=4),
    )
    assert run.parameters() == run.model.parameters() + 9 * 8 + 9
