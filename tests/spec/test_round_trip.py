"""Text in, spec out, text in again: equal, and with the same id whatever the order of the keys."""

import json
import random

from hypothesis import given, settings
from hypothesis import strategies as st

from rankwise.spec import RunSpec, SweepSpec, from_plain, parse_json, parse_toml, plain, to_json, to_toml
from spec_examples import runs, small_run, sweeps


@settings(max_examples=40)
@given(runs())
def test_runs_read_back_equal(run):
    for again in (
        parse_toml(RunSpec, to_toml(run)),
        parse_json(RunSpec, to_json(run)),
        from_plain(RunSpec, plain(run)),
    ):
        assert again == run
        assert again.id == run.id


@settings(max_examples=40)
@given(sweeps())
def test_sweeps_read_back_equal(sweep):
    assert parse_toml(SweepSpec, to_toml(sweep)) == sweep
    assert parse_json(SweepSpec, to_json(sweep)) == sweep


@settings(max_examples=40)
@given(runs(), st.randoms(use_true_random=False))
def test_the_id_does_not_depend_on_the_order_of_keys(run, shuffle):
    assert from_plain(RunSpec, shuffled(plain(run), shuffle)).id == run.id


def shuffled(value, random: random.Random):
    if not isinstance(value, dict):
        return value
    items = [(key, shuffled(inner, random)) for key, inner in value.items()]
    random.shuffle(items)
    return dict(items)


def test_what_means_the_same_is_the_same():
    ones = small_run(optim={"lr": 1, "steps": 4, "batch": 2, "betas": [0, 0.5]})
    floats = small_run(optim={"lr": 1.0, "steps": 4, "batch": 2, "betas": (-0.0, 0.5)})
    assert ones == floats
    assert ones.id == floats.id


def test_optional_fields_default_to_none_because_files_leave_them_out():
    """A field that may be None but has another default could not be written as TOML."""
    from dataclasses import fields

    from rankwise.spec import LrMultipliers, ModelSpec, NeighborSpec, OptimSpec
    from rankwise.spec.fields import kinds

    for cls in (RunSpec, SweepSpec, NeighborSpec, ModelSpec, OptimSpec, LrMultipliers):
        for field in fields(cls):
            if type(None) in getattr(kinds(cls)[field.name], "__args__", ()):
                assert field.default is None, f"{cls.__name__}.{field.name}"


def test_json_is_one_strict_line():
    text = to_json(small_run())
    assert "\n" not in text
    json.loads(text, parse_constant=lambda name: 1 / 0)
