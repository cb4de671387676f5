"""kill -9 a Ray worker; a Ray node: the runs are retried from their checkpoints, attempts counted and capped; the table
is bit-equal to the local engine's."""

import os
import signal
import threading
import time

import pytest

from processes import family, parent_of
from rankwise.spec import Axis, SweepSpec
from rankwise.sweep.engines.local import LocalEngine
from rankwise.sweep.engines.ray import RayEngine
from rankwise.sweep.engines.session_folder import session_folder
from rankwise.sweep.plan import plan_sweep
from rankwise.sweep.runner import run_plan
from rankwise.sweep.store import open_store, read_store
from real_runs import SHORT
from spec_examples import small_run

RUNS = 60


@pytest.fixture
def cluster(ray_cluster):
    return ray_cluster(nodes=3)


def sixty_runs(**fields):
    ranks = Axis.of({"model.rank": [1, 2, 4, 8], "model.heads": [8, 4, 2, 1]})
    seeds = Axis.of({"seed": range(RUNS // 4)})
    return SweepSpec(name="smoke", base=small_run(optim=SHORT, **fields), axes=(ranks, seeds))


def swept(plan, directory, engine):
    with open_store(directory) as store:
        outcome = run_plan(plan, store, engine)
        return outcome, list(store.rows())


class Vandal(threading.Thread):
    """Kills two Ray workers and takes a node away while the sweep is at work."""

    def __init__(self, cluster, node, directory):
        super().__init__(daemon=True)
        self.cluster, self.node, self.directory = cluster, node, directory
        self.killed, self.removed_after = [], None

    def run(self):
        while len(self.killed) < 2:
            time.sleep(0.2)
            if len(self.done()) >= 6 * (len(self.killed) + 1):
                self.kill_a_worker()
        while len(self.done()) < 20:
            time.sleep(0.2)
        self.cluster.remove_node(self.node, allow_graceful=False)
        self.removed_after = len(self.done())

    def done(self):
        with read_store(self.directory) as store:
            return list(store.rows("done"))

    def kill_a_worker(self):
        with read_store(self.directory) as store:
            running = [row.run_id for row in store.rows("running") if row.run_id not in self.killed]
        for run_id in running:
            path = self.directory / "checkpoints" / run_id / "calls"
            try:
                host = parent_of(int(path.read_text().split()[-1]))
            except (OSError, TypeError):
                continue  # it has just ended
            os.kill(host, signal.SIGKILL)
            self.killed.append(run_id)
            return


@pytest.mark.faults
@pytest.mark.parametrize("share", [True, False], ids=["shared directory", "checkpoints sent"])
def test_kill_9_a_ray_worker_a_ray_node(cluster, tmp_path, record_property, share):
    plan = plan_sweep(sixty_runs())
    assert len(plan.runs) == RUNS
    _, expected = swept(plan, tmp_path / "local", LocalEngine(tmp_path / "logs", entry="real_runs:entry", workers=2))

    with open_store(tmp_path / "ray"):
        pass  # for the vandal to read
    vandal = Vandal(cluster.cluster, cluster.nodes[-1], tmp_path / "ray")
    engine = RayEngine(tmp_path / "ray" / "logs", entry="real_runs:entry", address=cluster.address, share=share)
    if share:
        vandal.start()
    else:  # a worker's own files are in the folder of its session
        calls = session_folder(engine._session) / "checkpoints"
        threading.Thread(target=remove_a_node_at_work, args=(vandal, calls), daemon=True).start()
    outcome, rows = swept(plan, tmp_path / "ray", engine)

    assert outcome.counts == {"done": RUNS}
    assert vandal.removed_after is not None
    assert vandal.removed_after < RUNS, "the node was taken away before the end"
    table, wanted = ([(row.run_id, row.status, row.spec, row.result) for row in found] for found in (rows, expected))
    assert table == wanted
    lost = {row.run_id: (row.attempts, row.losses) for row in rows if row.losses}
    for run_id in vandal.killed:
        assert lost[run_id][1] >= 1
    assert lost, "the node held a run"
    for row in rows:
        assert row.attempts == 1 + row.losses <= 3
    record_property("tries", len(vandal.killed) + 1)
    record_property("note", f"{RUNS} real runs; {len(lost)} were lost and retried")


def remove_a_node_at_work(vandal, checkpoints):
    """Take the node away while the driver knows of a run on it."""
    (raylet,) = vandal.node.all_processes["raylet"]
    while len(vandal.done()) < 10 or not on_node(vandal, checkpoints, raylet.process.pid):
        time.sleep(0.05)
    vandal.cluster.remove_node(vandal.node, allow_graceful=False)
    vandal.removed_after = len(vandal.done())


def on_node(vandal, checkpoints, raylet):
    """Whether a run that the store calls running is at work in a process of that node."""
    with read_store(vandal.directory) as store:
        running = {row.run_id for row in store.rows("running")}
    members = set(family(raylet))
    for calls in checkpoints.glob("*/calls"):
        try:
            at_work = int(calls.read_text().split()[-1])
        except (OSError, IndexError):
            continue  # it has just ended
        if calls.parent.name in running and at_work in members:
            return True
    return False
