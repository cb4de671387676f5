"""Run ids are promises to stores on people's disks: they are frozen here."""

import json
from dataclasses import dataclass, field, fields, make_dataclass, replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rankwise.spec import (
    Axis,
    Curriculum,
    ImagesSpec,
    InContextSpec,
    NeighborSpec,
    RunSpec,
    SweepSpec,
    canonical_json,
    derived_seed,
    from_plain,
    parse_json,
    vary,
)
from rankwise.train.protocols import Cell, capacity, paper
from spec_examples import small_run

# small_run() with every default written out. Never change a value here: a default that changed would give runs of
# other numbers the old id.
WRITTEN_OUT = """{
"task": {"name": "nearest", "dim": 8, "points": 4, "distribution": "uniform", "queries": 1, "alpha": 0.0, "biases": [],
  "coefficients": []},
"model": {"dim": 8, "layers": 1, "heads": 2, "rank": 4, "average": 1, "scores": "softmax", "temperature": "fixed",
  "qk_norm": false, "causal": false, "bias": true, "feedforward": 0, "activation": "relu", "norm": "rms",
  "norm_place": "post", "residual": "plain", "positions": "none", "position_dim": 0, "max_points": 0,
  "init": "standard"},
"optim": {"optimizer": "adamw", "lr": 0.01, "betas": [0.9, 0.95], "eps": 1e-08, "momentum": 0.95, "weight_decay": 0.0,
  "lr_multipliers": {"query_key": 1.0, "output_value": 1.0, "temperature": 1.0, "feedforward": 1.0, "norm": 1.0,
  "positions": 1.0, "interface": 1.0}, "steps": 20, "batch": 16, "schedule": "cosine", "warmup": 0, "epoch_steps": 100,
  "validation_batches": 16, "validation_batch": 256},
"seed": 0, "protocol": "custom", "dtype": "float32"}"""
CELL = Cell(task=NeighborSpec(name="farthest", dim=64, points=16), heads=8, rank=8, sequences=1_280_000)


@pytest.mark.parametrize(
    ("run", "run_id"),
    [
        (small_run(), "3bb49982557d4945"),
        (parse_json(RunSpec, WRITTEN_OUT), "3bb49982557d4945"),
        (paper(CELL), "8f28a6db604c8aec"),
        (capacity(CELL), "772892d82272c83d"),
    ],
    ids=["defaults left out", "defaults written out", "paper", "capacity"],
)
def test_the_id_of_a_known_run_never_changes(run, run_id):
    assert run.id == run_id


@pytest.mark.parametrize(
    ("cls", "required", "defaults"),
    [
        (ImagesSpec, {"name": "images", "source": "digits", "patch": 4}, {"shift": 0}),
        (InContextSpec, {"name": "in_context", "function": "linear", "dim": 3, "points": 5}, {}),
        (Curriculum, {"dims_start": 1, "points_start": 3}, {"dims_step": 1, "points_step": 2, "every": 2000}),
    ],
)
def test_nor_do_the_defaults_of_other_specs_and_names_always_count(cls, required, defaults):
    assert json.loads(canonical_json(from_plain(cls, required | defaults))) == required


def test_the_canonical_form_is_what_differs_from_the_defaults_with_sorted_keys():
    run = small_run(probe=3, device="cuda")
    assert canonical_json(run) == (
        '{"model":{"dim":8,"heads":2,"rank":4},"optim":{"batch":16,"lr":0.01,"steps":20},"probe":3,'
        '"task":{"dim":8,"name":"nearest","points":4,"queries":1}}'
    )


def test_a_new_field_changes_the_ids_of_the_specs_that_use_it_alone():
    @dataclass(frozen=True)
    class Inner:
        gain: float = 1.0

    new = [("size", int), ("steps", int, 5), ("inner", Inner, field(default_factory=Inner))]
    before, after = make_dataclass("Before", [("size", int)]), make_dataclass("After", new)
    assert canonical_json(after(3)) == canonical_json(before(3))
    used = [after(3), after(4), after(3, steps=6), after(3, inner=Inner(gain=2.0))]
    assert len({canonical_json(spec) for spec in used}) == 4


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("seed", 1),
        ("dtype", "float64"),
        ("protocol", "paper"),
        ("task.points", 5),
        ("model.rank", 3),
        ("model.value_rank", 4),
        ("optim.lr", 0.02),
        ("model.residual", "learned"),
        ("optim.examples", 32),
        ("optim.lr_multipliers.norm", 2.0),
    ],
)
def test_what_decides_the_numbers_decides_the_id(key, value):
    assert vary(small_run(), {key: value}).id != small_run().id


def test_where_and_how_long_do_not():
    run = small_run(device="cuda", time_limit=5, tags=("figure1",))
    assert run.id == small_run().id
    assert run != small_run()


@given(st.text(max_size=9), st.text(max_size=9))
def test_purposes_have_their_own_seeds(one, other):
    seeds = derived_seed("00ff", one), derived_seed("00ff", other)
    assert all(0 <= seed < 2**63 for seed in seeds)
    assert (seeds[0] == seeds[1]) == (one == other)


def test_seeds_never_change():
    assert derived_seed("00ff", "init") == 2622683926379393058


def test_grids_have_distinct_ids():
    sweep = SweepSpec(
        name="grid", base=small_run(), axes=(Axis.of({"seed": range(10)}), Axis.of({"model.rank": range(1, 41)}))
    )
    assert len({run.id for run in sweep.expand()}) == 400


def test_specs_are_frozen():
    run = small_run()
    with pytest.raises(AttributeError):
        run.seed = 3
    assert hash(run) == hash(replace(run))
    assert {field.name for field in fields(run) if not field.metadata.get("identity", True)} == {
        "device",
        "time_limit",
        "tags",
    }
