"""kill -9 the driver: restart finishes; each run done once; table equal to the uninterrupted one; no orphan workers."""

import random
import signal
import sqlite3
import time

import pytest

from rankwise.train.checkpoint import read_checkpoint
from real_runs import SHORT

STEPS = 20


def chain(seed):
    """What ``fake_runs.slow`` must arrive at however often it is interrupted."""
    number = seed + 1
    for _ in range(STEPS):
        number = (number * 1103515245 + 12345) % 2**31
    return {"error": number / 2**31, "steps": STEPS}


def kill_after(rankwise, living_workers, seconds):
    """Start the sweep, kill its driver, wait for its workers to be gone; whether it was still at work."""
    driver = rankwise.start()
    time.sleep(seconds)
    at_work = driver.poll() is None
    driver.send_signal(signal.SIGKILL)
    driver.communicate()
    rankwise.wait_until(lambda: not living_workers(driver.pid), seconds=10)
    return at_work


def unbegun(rankwise):
    """By run: attempts that were noted and that a kill kept from beginning. Never negative: the note comes first."""
    gaps = {row.run_id: row.attempts - len(rankwise.calls(row.run_id)) for row in rankwise.rows()}
    assert min(gaps.values(), default=0) >= 0, "a run was begun that nobody had noted"
    return gaps


def finish_and_check(rankwise, count):
    gaps = unbegun(rankwise)
    finished = {row.run_id: rankwise.calls(row.run_id) for row in rankwise.rows() if row.status == "done"}
    results = {row.run_id: row.result for row in rankwise.rows() if row.status == "done"}
    code, _, err = rankwise.run()
    assert code == 0, err
    rows = rankwise.rows()
    assert [row.spec["seed"] for row in rows] == list(range(count))
    assert [row.status for row in rows] == ["done"] * count
    assert [row.result for row in rows] == [chain(seed) for seed in range(count)]
    for run_id, calls in finished.items():
        assert rankwise.calls(run_id) == calls, "a finished run was trained again"
    assert {row.run_id: row.result for row in rows if row.run_id in results} == results
    assert {run_id: gap for run_id, gap in unbegun(rankwise).items() if gap} == {
        run_id: gap for run_id, gap in gaps.items() if gap
    }, "every attempt is a call, but for those that a kill came before"


def test_kill_9_the_driver(rankwise, living_workers):
    """Killed four times in a row at random instants, then left alone."""
    rankwise.write_sweep(*[("slow", "0.004")] * 24)
    instants = random.Random(0)
    killed_at_work, before = [], 0
    for _ in range(4):
        killed_at_work.append(kill_after(rankwise, living_workers, instants.uniform(0.3, 1.2)))
        apart = sum(unbegun(rankwise).values())
        assert apart <= before + 2, "a kill comes before at most one beginning of each of the two workers"
        before = apart
    assert any(killed_at_work)
    finish_and_check(rankwise, 24)


def test_kill_9_the_driver_of_real_training(rankwise, living_workers):
    """Killed while every run is between two checkpoints; the rest is trained from there, to the same bits."""
    rankwise.use_real_training()
    rankwise.write_sweep(*[()] * 4, optim=SHORT)
    driver = rankwise.start()
    rankwise.wait_until(lambda: sum(row.checkpoint is not None for row in rankwise.rows()) >= 2)
    driver.send_signal(signal.SIGKILL)
    driver.communicate()
    rankwise.wait_until(lambda: not living_workers(driver.pid), seconds=10)
    unfinished = [row for row in rankwise.rows() if row.status != "done"]
    assert unfinished
    code, _, err = rankwise.run()
    assert code == 0, err
    assert [row.result for row in rankwise.rows()] == rankwise.straight_results()


def test_kill_9_the_driver_between_the_last_checkpoint_and_the_note_of_it(rankwise):
    """The row knows nothing of the finished training; the next driver learns where the weights are from the run."""
    rankwise.use_real_training()
    rankwise.write_sweep((), optim=SHORT)
    rankwise.run()
    (before,) = rankwise.rows()
    with sqlite3.connect(rankwise.store / "runs.db") as db:
        db.execute("UPDATE runs SET status = 'running', result = NULL, digest = NULL, checkpoint = NULL, seconds = 0")
    code, _, err = rankwise.run()
    assert code == 0, err
    (after,) = rankwise.rows()
    assert (after.result, after.checkpoint, after.checkpoint_sha256) == (
        before.result,
        before.checkpoint,
        before.checkpoint_sha256,
    )
    assert (rankwise.store / after.checkpoint).exists()
    worked = read_checkpoint((rankwise.store / after.checkpoint).parent, after.run_id).values["seconds"]
    assert after.seconds > worked, "what the killed driver had no time to count"


@pytest.mark.faults
def test_kill_9_the_driver_of_real_training_at_20_random_times(rankwise, living_workers, record_property):
    """One sweep of 24 runs whose driver is killed again and again; what was finished is never trained again."""
    rankwise.use_real_training()
    rankwise.write_sweep(*[()] * 24, optim=SHORT)
    instants, finished = random.Random(1), {}
    kills = 0
    while kills < 20:
        if not kill_after(rankwise, living_workers, instants.uniform(0.2, 6.0)):
            break  # all were done before the last kills
        kills += 1
        for row in rankwise.rows():
            if row.status == "done":
                calls = finished.setdefault(row.run_id, (row.result, rankwise.calls(row.run_id)))
                assert (row.result, rankwise.calls(row.run_id)) == calls
    record_property("tries", kills)
    assert kills >= 5
    code, _, err = rankwise.run()
    assert code == 0, err
    rows = rankwise.rows()
    assert [row.status for row in rows] == ["done"] * 24
    now = {row.run_id: (row.result, rankwise.calls(row.run_id)) for row in rows}
    assert {run_id: now[run_id] for run_id in finished} == finished
    assert [row.result for row in rows] == rankwise.straight_results()


@pytest.mark.faults
@pytest.mark.parametrize("trial", range(20))
def test_kill_9_the_driver_at_20_random_times(rankwise, living_workers, trial):
    rankwise.write_sweep(*[("slow", "0.004")] * 24)
    kill_after(rankwise, living_workers, random.Random(trial).uniform(0.05, 2.0))
    finish_and_check(rankwise, 24)


def test_workers_leave_when_the_driver_dies_even_if_they_are_deaf(rankwise, living_workers):
    rankwise.write_sweep("hang", "hang")
    driver = rankwise.start()
    rankwise.wait_until(lambda: len(living_workers(driver.pid)) == 2 and len(running(rankwise)) == 2)
    driver.send_signal(signal.SIGKILL)
    driver.communicate()
    rankwise.wait_until(lambda: not living_workers(driver.pid), seconds=10)


def running(rankwise):
    return [row for row in rankwise.rows() if row.status == "running"]
