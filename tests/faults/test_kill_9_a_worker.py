"""kill -9 a worker: that run is retried, attempts counted and capped; others untouched."""

import os
import signal

from real_runs import SHORT


def test_kill_9_a_worker(rankwise):
    """From outside, while it works: the run continues from its checkpoint in a new process."""
    rankwise.write_sweep(*[("slow", "0.02")] * 4, optim={"lr": 0.1, "steps": 50, "batch": 4})
    driver = rankwise.start()

    def victims():
        return [row for row in rankwise.rows() if row.status == "running" and row.checkpoint]

    rankwise.wait_until(victims)
    run_id = victims()[0].run_id
    os.kill(rankwise.calls(run_id)[0], signal.SIGKILL)
    _, err = driver.communicate(timeout=60)
    assert driver.returncode == 0, err
    assert "retrying" in err
    assert "ended by SIGKILL" in err
    rows = {row.run_id: row for row in rankwise.rows()}
    hit = rows.pop(run_id)
    assert (hit.status, hit.attempts, hit.losses) == ("done", 2, 1)
    assert len(set(rankwise.calls(run_id))) == 2
    assert hit.checkpoint == f"checkpoints/{run_id}/state"
    assert all((row.status, row.attempts, row.losses) == ("done", 1, 0) for row in rows.values())


def test_kill_9_a_worker_of_real_training(rankwise):
    """The run goes on from its last checkpoint in a new process, to the bits of an undisturbed run."""
    rankwise.use_real_training()
    rankwise.write_sweep((), (), (), optim=SHORT)
    driver = rankwise.start()
    rankwise.wait_until(lambda: any(row.checkpoint for row in rankwise.rows()))
    victim = next(row.run_id for row in rankwise.rows() if row.checkpoint)
    os.kill(rankwise.calls(victim)[0], signal.SIGKILL)
    _, err = driver.communicate(timeout=120)
    assert driver.returncode == 0, err
    rows = {row.run_id: row for row in rankwise.rows()}
    assert (rows[victim].attempts, rows[victim].losses) == (2, 1)
    assert {row.attempts for row in rows.values() if row.run_id != victim} == {1}
    assert [row.result for row in rankwise.rows()] == rankwise.straight_results()


def test_a_run_that_kills_its_workers_is_given_up(rankwise):
    rankwise.write_sweep("instant", "die", ("die", "2"), "instant")
    code, _, err = rankwise.run()
    assert code == 1
    rows = rankwise.rows()
    assert [(row.status, row.attempts, row.losses) for row in rows] == [
        ("done", 1, 0),
        ("failed", 3, 3),
        ("done", 3, 2),
        ("done", 1, 0),
    ]
    counted = "given up after 3 dead workers, counted over all commands (--retry counts anew)"
    assert rows[1].reason.startswith(f"{counted}: the worker was ended by SIGKILL")
    assert "about to die" in rows[1].traceback
    assert f"failed: seed=1 tags=['die'] (run {rows[1].run_id}, 3 attempts): {counted}" in err
