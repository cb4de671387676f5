"""Run ids are promises to stores on people's disks: they are frozen here."""

from dataclasses import fields, replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rankwise.spec import Axis, SweepSpec, canonical_json, derived_seed, vary
from spec_examples import small_run


def test_the_id_of_a_known_run_never_changes():
    assert small_run().id == "25cef41ec58d3998"


def test_the_canonical_form_has_defaults_sorted_keys_and_no_none():
    text = canonical_json(small_run())
    assert text.startswith('{"dtype":"float32","model":{"activation":"relu","average":1,"bias":true,')
    assert "null" not in text
    assert " " not in text


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
        ("optim.ema", 0.9),
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
