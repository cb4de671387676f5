"""Real drivers in processes of their own, to be killed, starved and interrupted."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
import torch

from rankwise.spec import Axis, RunSpec, SweepSpec, from_plain, to_toml
from rankwise.sweep.store import read_store
from rankwise.train.loop import train
from spec_examples import small_run

TESTS = Path(__file__).parent.parent


class Rankwise:
    """``rankwise`` with fake runs, started from a directory of its own with its store in ``store``."""

    def __init__(self, directory):
        self.directory = directory
        self.store = directory / "store"
        self._entry = "fake_runs:entry"
        self._started = []

    def use_real_training(self):
        """Train in earnest, with a checkpoint every tenth of a second."""
        self._entry = "real_runs:entry"

    def write_sweep(self, *behaviours, **fields):
        """A sweep whose i-th run has seed i and behaves as told (see ``fake_runs``)."""
        tags = [[name] if isinstance(name, str) else list(name) for name in behaviours]
        axis = Axis.of({"seed": range(len(tags)), "tags": tags})
        sweep = SweepSpec(name="faults", base=small_run(**fields), axes=(axis,))
        (self.directory / "sweep.toml").write_text(to_toml(sweep))

    def write_runs(self, fields):
        """A sweep of runs that differ in whatever fields they are given."""
        sweep = SweepSpec(name="faults", runs=tuple(small_run(**one) for one in fields))
        (self.directory / "sweep.toml").write_text(to_toml(sweep))

    def start(self, *arguments, **options):
        """The command as a running process; ``sweep.toml`` in the store by default."""
        arguments = arguments or ("sweep", "sweep.toml", "--store", "store", "--workers", "2")
        process = subprocess.Popen(
            [sys.executable, TESTS / "fake_cli.py", self._entry, *arguments],
            cwd=self.directory,
            env=os.environ | {"PYTHONPATH": os.pathsep.join(path for path in sys.path if path)},
            start_new_session=True,
            text=True,
            **{"stdout": subprocess.PIPE, "stderr": subprocess.PIPE} | options,
        )
        self._started.append(process)
        return process

    def run(self, *arguments, **options):
        """The command to its end: exit code, stdout, stderr."""
        process = self.start(*arguments, **options)
        out, err = process.communicate(timeout=120)
        return process.returncode, out, err

    def wait_until(self, condition, seconds=120.0):
        """Wait for something to become true."""
        until = time.monotonic() + seconds
        while not condition():
            assert time.monotonic() < until, "waited in vain"
            time.sleep(0.01)

    def rows(self):
        """The store's rows; none if the driver has not come so far."""
        if not (self.store / "runs.db").exists():
            return []
        with read_store(self.store) as store:
            return list(store.rows())

    def calls(self, run_id):
        """The processes that have worked on a run, in order."""
        path = self.store / "checkpoints" / run_id / "calls"
        return [int(line) for line in path.read_text().split()] if path.exists() else []

    def table(self):
        """What two stores of one sweep must agree on."""
        return [(row.run_id, row.status, row.result, row.reason) for row in self.rows()]

    def straight_results(self):
        """What the real training gives for the store's runs, uninterrupted, in this process; threads as in a worker."""
        threads = torch.get_num_threads()
        torch.set_num_threads(1)
        try:
            runs = [from_plain(RunSpec, row.spec) for row in self.rows()]
            return [json.loads(json.dumps(train(run).to_json())) for run in runs]
        finally:
            torch.set_num_threads(threads)

    def clean_up(self):
        for process in self._started:
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()
            for pipe in (process.stdout, process.stderr):
                if pipe is not None:
                    pipe.close()


def workers_of(driver_pid):
    """The living worker processes that a driver has started, orphans included."""
    found = []
    for process in Path("/proc").iterdir():
        if process.name.isdigit():
            try:
                words = (process / "cmdline").read_bytes().split(b"\0")
            except OSError:
                continue
            if b"rankwise.sweep.engines.worker" in words and str(driver_pid).encode() in words:
                found.append(int(process.name))
    return found


@pytest.fixture
def rankwise(tmp_path):
    driver = Rankwise(tmp_path)
    yield driver
    driver.clean_up()


@pytest.fixture
def living_workers():
    return workers_of
