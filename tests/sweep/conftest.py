"""Sweeps run in the test's own process with fake runs."""

import pytest

from rankwise.sweep.engines.local import LocalEngine
from rankwise.sweep.plan import plan_sweep
from rankwise.sweep.runner import run_plan
from rankwise.sweep.store import open_store


@pytest.fixture
def run_sweep(tmp_path):
    """A function that runs a sweep to its end, in ``tmp_path / "store"``, and returns its outcome."""

    def run(sweep, *, workers=2, **options):
        with open_store(tmp_path / "store") as store:
            engine = LocalEngine(store.directory / "logs", entry="fake_runs:entry", workers=workers, grace=1.0)
            return run_plan(plan_sweep(sweep), store, engine, **options)

    return run
