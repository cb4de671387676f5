"""The head of Ray killed or frozen: the driver ends within a minute by its own message, Ctrl-C works, finished runs are
kept, and the same command continues."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from processes import family
from ray_fixtures import worker_path

_RAY = ("sweep", "sweep.toml", "--store", "store", "--engine", "ray", "--workers", "2")
_CLUSTER = """
import os, sys
os.environ["RAY_USAGE_STATS_ENABLED"] = "0"
from ray.cluster_utils import Cluster
cluster = Cluster(initialize_head=True, head_node_args={"num_cpus": 2, "object_store_memory": 80_000_000,
                  "include_dashboard": False})
print(cluster.address, flush=True)
sys.stdin.read()
"""


def control_process(pid):
    """The process of Ray's head among the descendants of ``pid``."""
    for member in family(pid):
        try:
            if b"gcs_server" in Path(f"/proc/{member}/cmdline").read_bytes():
                return member
        except OSError:
            continue
    return None


@pytest.fixture
def sweep(rankwise, monkeypatch):
    """Two instant runs, then two that last for minutes; started on Ray, with the instant ones done."""
    monkeypatch.setenv("PYTHONPATH", worker_path())
    rankwise.write_sweep("instant", "instant", *[("slow", "0.05")] * 2, optim={"lr": 0.1, "steps": 100_000, "batch": 4})
    started = []

    def start(*options):
        started.append(rankwise.start(*_RAY, *options))
        rankwise.wait_until(lambda: sum(row.checkpoint is not None for row in rankwise.rows()) == 2)
        assert sum(row.status == "done" for row in rankwise.rows()) == 2
        return started[-1]

    yield start
    for driver in started:
        if driver.poll() is None:
            driver.kill()
            driver.communicate()


def ended(driver, seconds):
    """Exit code and messages of a driver that has to end in that time."""
    began = time.monotonic()
    _, err = driver.communicate(timeout=seconds)
    assert "Traceback" not in err
    return driver.returncode, err, time.monotonic() - began


@pytest.mark.faults
@pytest.mark.parametrize("deed", [signal.SIGKILL, signal.SIGSTOP], ids=["killed", "frozen"])
def test_the_driver_ends_within_a_minute_by_its_own_message(sweep, rankwise, deed, record_property):
    driver = sweep()
    members = family(driver.pid)
    os.kill(control_process(driver.pid), deed)
    code, err, seconds = ended(driver, 60)
    assert code == 2
    assert "expected an answer from the head of the Ray cluster, got none for 30 s" in err
    statuses = [row.status for row in rankwise.rows()]
    assert sorted(statuses) == ["done", "done", "pending", "pending"]
    rankwise.wait_until(lambda: not any(control_process(member) for member in members))
    record_property("note", f"exit 2 after {seconds:.0f} s")


@pytest.mark.faults
def test_ctrl_c_works_though_the_head_is_frozen(sweep, rankwise, record_property):
    driver = sweep()
    os.kill(control_process(driver.pid), signal.SIGSTOP)
    time.sleep(6.0)
    driver.send_signal(signal.SIGINT)
    code, err, seconds = ended(driver, 40)
    assert code == 130
    assert "stopped with 2 of 4 runs left; the same command continues" in err
    record_property("note", f"Ctrl-C: exit 130 after {seconds:.0f} s")


@pytest.mark.faults
def test_the_frozen_head_of_a_cluster_that_others_have_started(sweep, rankwise, record_property):
    cluster = subprocess.Popen(
        [sys.executable, "-c", _CLUSTER], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    try:
        driver = sweep("--address", cluster.stdout.readline().strip())
        head = control_process(cluster.pid)
        os.kill(head, signal.SIGSTOP)
        code, err, seconds = ended(driver, 60)
        assert code == 2
        assert "expected an answer from the head of the Ray cluster" in err
        os.kill(head, signal.SIGCONT)
    finally:
        members = family(cluster.pid)
        cluster.kill()
        cluster.communicate()
        for member in members[1:]:
            try:
                os.kill(member, signal.SIGKILL)
            except ProcessLookupError:
                continue
    assert sorted(row.status for row in rankwise.rows()) == ["done", "done", "pending", "pending"]
    record_property("note", f"a cluster of others: exit 2 after {seconds:.0f} s")
