"""Signals, closed pipe, hang, out of memory: graceful within 10 s, at once the second time; EPIPE harmless; ``timeout``
and ``oom`` recorded; one run never takes down the sweep. (SIGINT once and twice, SIGTERM, ``| head``, a sleeping task,
RLIMIT_AS.)"""

import os
import signal
import time

import pytest

from rankwise.spec import Axis, SweepSpec
from rankwise.sweep.engines.local import LocalEngine
from rankwise.sweep.plan import plan_sweep
from rankwise.sweep.runner import run_plan
from rankwise.sweep.store import open_store
from spec_examples import small_run

LONG = {"lr": 0.1, "steps": 100_000, "batch": 4}


def start_and_wait_for_work(rankwise, count=2):
    driver = rankwise.start()
    rankwise.wait_until(lambda: sum(bool(rankwise.calls(row.run_id)) for row in rankwise.rows()) >= count)
    return driver


@pytest.mark.parametrize("how", ["SIGINT to the group, as a terminal does", "SIGTERM", "SIGHUP"])
def test_one_signal_checkpoints_and_leaves_with_130(rankwise, living_workers, how):
    rankwise.write_sweep(*[("slow", "0.01")] * 3, optim=LONG)
    driver = start_and_wait_for_work(rankwise)
    if how.startswith("SIGINT"):
        os.killpg(driver.pid, signal.SIGINT)
    else:
        driver.send_signal(getattr(signal, how))
    _, err = driver.communicate(timeout=10)
    assert driver.returncode == 130
    assert "stopping: asking 2 running runs to checkpoint" in err
    assert "rankwise: stopped with 3 of 3 runs left; the same command continues" in err
    assert [row.status for row in rankwise.rows()] == ["pending"] * 3
    worked = [row for row in rankwise.rows() if row.attempts]
    assert len(worked) == 2
    for row in worked:
        step, _ = (rankwise.store / "checkpoints" / row.run_id / "state").read_text().split()
        assert int(step) > 0
        assert row.losses == 0
    assert not living_workers(driver.pid)


def test_after_an_interrupt_the_same_command_continues(rankwise):
    rankwise.write_sweep(*[("slow", "0.01")] * 4, optim={"lr": 0.1, "steps": 60, "batch": 4})
    driver = start_and_wait_for_work(rankwise)
    driver.send_signal(signal.SIGINT)
    driver.communicate(timeout=60)  # how soon is asked above; a disk busy with others' writes may take its time here
    assert driver.returncode == 130
    code, _, err = rankwise.run()
    assert code == 0, err
    interrupted = rankwise.table()
    rankwise.store.rename(rankwise.directory / "interrupted")
    assert rankwise.run()[0] == 0
    assert rankwise.table() == interrupted


@pytest.mark.faults
def test_deaf_runs_are_killed_within_ten_seconds(rankwise, living_workers):
    rankwise.write_sweep("hang", "hang")
    driver = start_and_wait_for_work(rankwise)
    driver.send_signal(signal.SIGINT)
    driver.communicate(timeout=10)
    assert driver.returncode == 130
    assert [(row.status, row.losses) for row in rankwise.rows()] == [("pending", 0)] * 2
    assert not living_workers(driver.pid)


def test_the_second_signal_stops_at_once(rankwise, living_workers):
    rankwise.write_sweep("hang", "hang")
    driver = start_and_wait_for_work(rankwise)
    driver.send_signal(signal.SIGINT)
    assert "stopping" in driver.stderr.readline() + driver.stderr.readline()
    asked = time.monotonic()
    driver.send_signal(signal.SIGINT)
    driver.communicate(timeout=10)
    assert time.monotonic() - asked < 6, "the grace period of 8 s should not have been waited for"
    assert driver.returncode == 130
    assert not living_workers(driver.pid)
    assert {row.status for row in rankwise.rows()} == {"pending"}


def test_a_closed_pipe_is_harmless_to_the_sweep(rankwise):
    """Whoever reads the progress leaves at once; the runs are done all the same."""
    rankwise.write_sweep(*["instant"] * 20, "fail")
    driver = rankwise.start()
    driver.stderr.close()
    driver.stdout.close()
    assert driver.wait(timeout=60) == 1, "the exit code still tells of the failure"
    assert [row.status for row in rankwise.rows()] == ["done"] * 20 + ["failed"]


def test_a_reader_who_has_enough_gets_no_complaint(rankwise):
    """``rankwise results | head``: more output than a pipe holds, and nobody there to read it."""
    rankwise.write_sweep(*["instant"] * 200)
    rankwise.run()
    for command in (("results", "--csv"), ("results",), ("results", "--json"), ("status",)):
        process = rankwise.start(*command, "--store", "store")
        process.stdout.close()
        assert process.stderr.read() == ""
        assert process.wait(timeout=60) == 0


def test_a_hanging_run_is_a_timeout_and_the_others_are_done(rankwise):
    rankwise.write_sweep("instant", ("slow", "0.05"), "instant", time_limit=0.4, optim=LONG)
    code, _, err = rankwise.run()
    assert code == 1
    assert [row.status for row in rankwise.rows()] == ["done", "timeout", "done"]
    assert "timeout: seed=1" in err
    assert "still running after its time limit of 0.4 s" in err


def test_a_greedy_run_is_out_of_memory_and_the_others_are_done(tmp_path):
    axis = Axis.of({"seed": [0, 1, 2], "tags": [["instant"], ["greedy"], ["instant"]]})
    plan = plan_sweep(SweepSpec(name="greedy", base=small_run(), axes=(axis,)))
    with open_store(tmp_path) as store:
        engine = LocalEngine(tmp_path / "logs", entry="fake_runs:entry", workers=1, memory_limit=1 << 30)
        outcome = run_plan(plan, store, engine)
        assert outcome.counts == {"done": 2, "oom": 1}
        assert [row.status for row in store.rows()] == ["done", "oom", "done"]
        pids = [(tmp_path / "checkpoints" / row.run_id / "calls").read_text() for row in store.rows()]
    assert pids[0] == pids[1] != pids[2], "the next run gets a fresh process"


def test_nothing_prints_after_the_driver_has_left(rankwise):
    """Workers hold no copy of the terminal or pipe: ``rankwise sweep | tee`` ends when the driver does."""
    rankwise.write_sweep("hang")
    driver = start_and_wait_for_work(rankwise, 1)
    driver.send_signal(signal.SIGKILL)
    driver.communicate(timeout=10)  # raises if someone still holds the pipes open
