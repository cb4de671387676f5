import os
import sqlite3
import threading

import pytest

from rankwise.errors import CorruptStoreError, EngineError, StorageError
from rankwise.spec import Axis, SweepSpec
from rankwise.sweep.signals import StopRequest
from rankwise.sweep.store import read_store
from spec_examples import seeds_sweep, small_run


def behaving(*behaviours, **fields):
    """A sweep whose i-th run has seed i and behaves as told."""
    axis = Axis.of({"seed": range(len(behaviours)), "tags": [[b] if isinstance(b, str) else b for b in behaviours]})
    return SweepSpec(name="behaving", base=small_run(**fields), axes=(axis,))


def rows(tmp_path):
    with read_store(tmp_path / "store") as store:
        return list(store.rows())


def calls(tmp_path, row):
    return len((tmp_path / "store" / "checkpoints" / row.run_id / "calls").read_text().split())


def test_every_run_is_done_once_in_the_sweeps_own_order(run_sweep, tmp_path):
    outcome = run_sweep(seeds_sweep(30))
    assert outcome.counts == {"done": 30}
    assert not outcome.interrupted
    done = rows(tmp_path)
    assert [row.spec["seed"] for row in done] == list(range(30))
    assert {row.attempts for row in done} == {1}
    assert {calls(tmp_path, row) for row in done} == {1}
    assert all(row.versions["python"] and row.machine["cores"] == os.cpu_count() for row in done)


def test_running_again_does_nothing(run_sweep, tmp_path):
    run_sweep(seeds_sweep(4))
    before = rows(tmp_path)
    assert run_sweep(seeds_sweep(4)).counts == {"done": 4}
    assert rows(tmp_path) == before


def test_a_damaged_result_is_not_called_done(run_sweep, tmp_path):
    run_sweep(seeds_sweep(4))
    with sqlite3.connect(tmp_path / "store" / "runs.db") as db:
        db.execute("UPDATE runs SET result = replace(result, '0.5', '0.25') WHERE position = 3")
    with pytest.raises(CorruptStoreError, match="is not what was written"):
        run_sweep(seeds_sweep(5))
    with sqlite3.connect(tmp_path / "store" / "runs.db") as db:
        assert db.execute("SELECT count(*) FROM runs").fetchone() == (4,), "nothing was begun"
        db.execute("DELETE FROM runs WHERE position = 3")
    assert run_sweep(seeds_sweep(5)).counts == {"done": 5}


def test_a_larger_sweep_adds_to_the_store(run_sweep, tmp_path):
    run_sweep(seeds_sweep(3))
    assert run_sweep(seeds_sweep(6)).counts == {"done": 6}
    assert {calls(tmp_path, row) for row in rows(tmp_path)} == {1}


def test_a_failed_run_is_data(run_sweep, tmp_path):
    outcome = run_sweep(behaving("instant", "fail", "diverge", "out_of_memory", "slow"))
    assert outcome.counts == {"done": 2, "failed": 1, "diverged": 1, "oom": 1}
    assert [(row.status, row.reason) for row in outcome.failures] == [
        ("failed", "RuntimeError: no such luck"),
        ("diverged", "diverged at step 17: the loss is inf"),
        ("oom", "MemoryError"),
    ]
    assert "fake_runs.py" in outcome.failures[0].traceback


def test_failures_stay_until_someone_asks_to_retry(run_sweep, tmp_path):
    sweep = behaving("fail", "diverge")
    run_sweep(sweep)
    outcome = run_sweep(sweep)
    assert outcome.counts == {"failed": 1, "diverged": 1}
    assert [row.attempts for row in outcome.failures] == [1, 1]
    outcome = run_sweep(sweep, retry=True)
    assert [row.attempts for row in outcome.failures] == [2, 1], "a diverged run would diverge again"


def test_retrying_takes_the_new_time_limit(run_sweep, tmp_path):
    assert run_sweep(behaving(("slow", "0.05"), time_limit=0.2)).counts == {"timeout": 1}
    assert run_sweep(behaving(("slow", "0.05"), time_limit=60), retry=True).counts == {"done": 1}
    (row,) = rows(tmp_path)
    assert row.result["steps"] == 20
    assert row.seconds > 0.9, "both attempts count"


def test_stopping_leaves_runs_pending_and_the_next_sweep_finishes_them(run_sweep, tmp_path):
    sweep = behaving(*[("slow", "0.01")] * 6, optim={"lr": 0.01, "steps": 50, "batch": 16})
    stop = StopRequest()
    threading.Timer(1.0, lambda: setattr(stop, "times", 1)).start()
    outcome = run_sweep(sweep, stop=stop)
    assert outcome.interrupted
    assert outcome.counts["pending"] >= 1
    assert outcome.counts.get("running", 0) == 0
    assert run_sweep(sweep).counts == {"done": 6}


def test_a_stop_before_the_start_runs_nothing(run_sweep, tmp_path):
    outcome = run_sweep(seeds_sweep(5), stop=StopRequest(times=1))
    assert outcome.interrupted
    assert outcome.counts == {"pending": 5}
    assert {row.attempts for row in rows(tmp_path)} == {0}


def test_a_disk_that_refuses_stops_the_sweep_and_blames_no_run(run_sweep, tmp_path):
    with pytest.raises(StorageError, match=r"weights\.safetensors: No space left on device; what is finished is safe"):
        run_sweep(behaving("no_space", "instant", "instant"))
    assert {row.status for row in rows(tmp_path)} <= {"pending", "done"}
    assert rows(tmp_path)[0].status == "pending"


def test_an_entry_that_does_not_load_fails_no_run(run_sweep, tmp_path, monkeypatch):
    from rankwise.sweep.engines.local import LocalEngine
    from rankwise.sweep.plan import plan_sweep
    from rankwise.sweep.runner import run_plan
    from rankwise.sweep.store import open_store

    with open_store(tmp_path / "store") as store, pytest.raises(EngineError, match="does not load"):
        run_plan(plan_sweep(seeds_sweep(2)), store, LocalEngine(tmp_path / "logs", entry="no.where:at_all"))
    assert [row.status for row in rows(tmp_path)] == ["pending", "pending"]


def test_progress_and_checkpoints_reach_the_store(run_sweep, tmp_path):
    seen = []

    class Watcher:
        def update(self, tally):
            with read_store(tmp_path / "store") as store:
                seen.extend(row.progress for row in store.rows("running") if row.progress)

        def say(self, message): ...

        def close(self, tally): ...

    run_sweep(behaving(("slow", "0.05")), watcher=Watcher())
    assert seen[0]["of"] == 20
    (row,) = rows(tmp_path)
    assert row.checkpoint == f"checkpoints/{row.run_id}/state"
    assert len(row.checkpoint_sha256) == 64


def test_the_watcher_is_told_and_closed_whatever_happens(run_sweep):
    told = []

    class Watcher:
        def update(self, tally):
            told.append(tally.counts["done"])

        def say(self, message):
            told.append(message)

        def close(self, tally):
            told.append("closed")

    run_sweep(behaving("instant", "fail", ["die", "1"]), watcher=Watcher())
    assert any("failed: seed=1" in str(line) and "no such luck" in str(line) for line in told)
    assert any("retrying seed=2" in str(line) and "(1 of 3 times)" in str(line) for line in told)
    assert told[-1] == "closed"
