"""The commands' way to an engine."""

import io
import json
import os
import sqlite3
import subprocess
import sys

import pytest
from rich.console import Console

from rankwise.errors import CorruptStoreError
from rankwise.spec import to_toml
from rankwise.sweep import session
from rankwise.sweep.engines.where import Where
from rankwise.sweep.plan import plan_sweep
from rankwise.sweep.progress import LiveTable
from rankwise.sweep.session import run_here
from rankwise.sweep.store import read_store
from ray_fixtures import worker_path
from spec_examples import seeds_sweep

HIDE, SHOW = "\x1b[?25l", "\x1b[?25h"


def test_the_device_of_the_command_reaches_the_runs_and_not_their_ids(tmp_path):
    plan = plan_sweep(seeds_sweep(2))
    run_here(plan, tmp_path, where=Where(device="auto"), workers=1, entry="fake_runs:entry")
    with read_store(tmp_path) as store:
        rows = list(store.rows("done"))
    assert [row.run_id for row in rows] == [run.id for run in plan.runs]
    assert {row.spec["device"] for row in rows} == {"auto"}


def test_the_cursor_comes_back_after_an_early_error(tmp_path, monkeypatch):
    plan = plan_sweep(seeds_sweep(1))
    terminal = io.StringIO()
    monkeypatch.setattr(session, "watcher", lambda: LiveTable(Console(file=terminal, force_terminal=True)))
    run_here(plan, tmp_path, workers=1, entry="fake_runs:entry")
    assert terminal.getvalue().count(HIDE) == terminal.getvalue().count(SHOW) == 1
    with sqlite3.connect(tmp_path / "runs.db") as db:
        db.execute("UPDATE runs SET status = 'dome'")
    with pytest.raises(CorruptStoreError, match="got status 'dome'"):
        run_here(plan, tmp_path, workers=1, entry="fake_runs:entry")
    assert terminal.getvalue().count(HIDE) == terminal.getvalue().count(SHOW)


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
