"""The commands' way to an engine."""

import json
import os
import subprocess
import sys

import pytest

from rankwise.spec import to_toml
from rankwise.sweep.engines.where import Where
from rankwise.sweep.plan import plan_sweep
from rankwise.sweep.session import run_here
from rankwise.sweep.store import read_store
from ray_fixtures import worker_path
from spec_examples import seeds_sweep


def test_the_device_of_the_command_reaches_the_runs_and_not_their_ids(tmp_path):
    plan = plan_sweep(seeds_sweep(2))
    run_here(plan, tmp_path, where=Where(device="auto"), workers=1, entry="fake_runs:entry")
    with read_store(tmp_path) as store:
        rows = list(store.rows("done"))
    assert [row.run_id for row in rows] == [run.id for run in plan.runs]
    assert {row.spec["device"] for row in rows} == {"auto"}


def test_an_engine_is_the_same_to_the_driver(local_ray, tmp_path):
    """One sweep on each engine: equal rows up to the bookkeeping."""
    plan = plan_sweep(seeds_sweep(20))
    tables = []
    for engine in ("local", "ray"):
        outcome = run_here(plan, tmp_path / engine, where=Where(engine=engine), workers=2, entry="fake_runs:entry")
        assert outcome.counts == {"done": 20}
        with read_store(tmp_path / engine) as store:
            tables.append([(row.run_id, row.spec, row.status, row.result, row.attempts) for row in store.rows()])
    assert tables[0] == tables[1]


@pytest.mark.faults
def test_the_command_with_a_ray_of_its_own_prints_json_alone(tmp_path):
    (tmp_path / "s.toml").write_text(to_toml(seeds_sweep(2)))
    command = [sys.executable, "-m", "rankwise", "sweep", "s.toml", "--engine", "ray", "--json"]
    environment = os.environ | {"PYTHONPATH": worker_path()}
    done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["counts"] == {"done": 2}
    assert list((tmp_path / "runs" / "logs").iterdir()) == [], "no marker stays"
