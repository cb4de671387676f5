import json
import os
import sqlite3
import subprocess
import sys
from pathlib import Path

import pytest

from rankwise.errors import CorruptStoreError, InvalidInputError, LockedStoreError
from rankwise.spec import plain, to_json
from rankwise.sweep.lock import driver_of
from rankwise.sweep.store import STATUSES, open_store, read_store
from spec_examples import small_run

RUNS = [(run.id, to_json(run)) for run in (small_run(seed=seed) for seed in range(3))]
IDS = [run_id for run_id, _ in RUNS]


@pytest.fixture
def filled(tmp_path):
    """A store with one run done, one diverged, one pending."""
    with open_store(tmp_path) as store, store.transaction():
        store.add(RUNS)
        for run_id in IDS[:2]:
            store.begin(run_id, {"python": "3"}, {"host": "here"})
        store.note_checkpoint(IDS[0], str(tmp_path / "checkpoints" / IDS[0] / "a.safetensors"), "ab" * 32)
        store.finish(IDS[0], {"error": 0.25, "curve": [1, 2]}, 1.5)
        store.fail(IDS[1], "diverged", "the loss is inf", "", 0.5)
    return tmp_path


def test_rows_say_what_was_written(filled):
    with read_store(filled) as store:
        done, diverged, pending = store.rows()
        assert store.counts() == dict.fromkeys(STATUSES, 0) | {"done": 1, "diverged": 1, "pending": 1}
        assert store.statuses() == dict(zip(IDS, ("done", "diverged", "pending"), strict=True))
        assert [row.run_id for row in store.rows("diverged")] == [IDS[1]]
    assert done.result == {"error": 0.25, "curve": [1, 2]}
    assert done.spec == plain(small_run())
    assert (done.attempts, done.seconds, done.versions, done.machine) == (1, 1.5, {"python": "3"}, {"host": "here"})
    assert (done.checkpoint, done.checkpoint_sha256) == (f"checkpoints/{IDS[0]}/a.safetensors", "ab" * 32)
    assert (diverged.reason, diverged.result) == ("the loss is inf", None)
    assert (pending.status, pending.attempts, pending.started) == ("pending", 0, None)


def test_planning_again_keeps_outcomes_and_takes_new_limits(filled):
    with open_store(filled) as store, store.transaction():
        store.add((run_id, to_json(small_run(seed=seed, time_limit=9))) for seed, run_id in enumerate(IDS))
    with read_store(filled) as store:
        assert [row.spec.get("time_limit") for row in store.rows()] == [None, None, 9]
        assert [row.status for row in store.rows()] == ["done", "diverged", "pending"]


def test_what_was_running_when_the_driver_died_is_pending(filled):
    with sqlite3.connect(filled / "runs.db") as db:
        db.execute("UPDATE runs SET status = 'running' WHERE status = 'pending'")
    db.close()
    assert read_store(filled).counts()["running"] == 1
    with open_store(filled) as store:
        assert (store.counts()["running"], store.counts()["pending"]) == (0, 1)


def test_nothing_is_left_running_by_a_driver_that_leaves(filled):
    def crash():
        with open_store(filled) as store:
            with store.transaction():
                store.begin(IDS[2], {}, {})
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        crash()
    assert read_store(filled).counts()["running"] == 0


def test_losses_are_counted_and_reopening_forgets_them(filled):
    with open_store(filled) as store, store.transaction():
        assert [store.give_back(IDS[2], 1.0, lost=True) for _ in range(2)] == [1, 2]
        assert store.give_back(IDS[2], 1.0) == 2
        store.fail(IDS[2], "failed", "given up", "log", 0.0)
        store.reopen([IDS[2]])
    with read_store(filled) as store:
        (row,) = store.rows("pending")
    assert (row.losses, row.reason, row.seconds) == (0, None, 3.0)


def test_work_that_only_a_checkpoint_knows_of_counts_and_counts_once(filled):
    with open_store(filled) as store, store.transaction():
        store.give_back(IDS[2], 3.0)
        store.note_earlier_work(IDS[2], 2.5)  # part of the three seconds
        store.give_back(IDS[2], 1.0)
        store.note_earlier_work(IDS[2], 1000.0)  # a driver was killed meanwhile
        store.finish(IDS[2], {"error": 0.0}, 1.0)
    with read_store(filled) as store:
        assert {row.run_id: row.seconds for row in store.rows()}[IDS[2]] == 1001.0


def test_a_transaction_is_all_or_nothing(filled):
    def interrupted(store):
        with store.transaction():
            store.finish(IDS[2], {"error": 0.0}, 1.0)
            raise KeyboardInterrupt

    with open_store(filled) as store:
        with pytest.raises(KeyboardInterrupt):
            interrupted(store)
        assert store.statuses()[IDS[2]] == "pending"


def test_results_are_strict_json(filled):
    with open_store(filled) as store, pytest.raises(ValueError, match="JSON compliant"), store.transaction():
        store.finish(IDS[2], {"error": float("nan")}, 1.0)


def test_readers_do_not_disturb_and_see_whole_transactions(filled):
    with open_store(filled) as store, read_store(filled) as reader:
        with store.transaction():
            store.finish(IDS[2], {"error": 1.0}, 1.0)
            assert reader.counts()["done"] == 1
        assert reader.counts()["done"] == 2
        with pytest.raises(sqlite3.OperationalError, match="readonly"):
            reader._db.execute("UPDATE runs SET status = 'done'")


def test_a_store_that_is_not_there_is_the_users_mistake(tmp_path):
    with pytest.raises(InvalidInputError, match=r"expected a store, got no runs\.db in it"):
        read_store(tmp_path)


def test_a_store_of_another_version_is_left_alone(filled):
    with sqlite3.connect(filled / "runs.db") as db:
        db.execute("PRAGMA user_version = 99")
    db.close()
    with pytest.raises(InvalidInputError, match="expected a store of version 1, got version 99"), open_store(filled):
        pass


@pytest.mark.parametrize(
    "change",
    [
        "UPDATE runs SET result = replace(result, '0.25', '0.20') WHERE status = 'done'",
        "UPDATE runs SET status = 'done' WHERE status = 'diverged'",
        "UPDATE runs SET spec = replace(spec, '\"seed\": 0', '\"seed\": 7')",
        "UPDATE runs SET reason = 'all is well' WHERE status = 'diverged'",
        "UPDATE runs SET status = 'dune' WHERE status = 'done'",
        "UPDATE runs SET spec = 'no json' WHERE status = 'pending'",
    ],
)
def test_a_row_that_was_tampered_with_is_noticed(filled, change):
    with sqlite3.connect(filled / "runs.db") as db:
        assert db.execute(change).rowcount >= 1
    db.close()
    with read_store(filled) as store, pytest.raises(CorruptStoreError, match=r"runs\.db: "):
        list(store.rows())


def test_an_emptied_database_is_not_taken_for_a_new_one(filled):
    (filled / "runs.db").write_bytes(b"")
    with pytest.raises(CorruptStoreError, match=r"runs\.db: expected a store of rankwise"), open_store(filled):
        pass


def test_the_lock_names_its_holder_and_dies_with_it(tmp_path):
    code = "import sys, time; from pathlib import Path; from rankwise.sweep.store import open_store\n"
    code += "with open_store(Path(sys.argv[1])):\n    print('open', flush=True)\n    time.sleep(600)"
    holder = subprocess.Popen([sys.executable, "-c", code, str(tmp_path)], stdout=subprocess.PIPE)
    try:
        assert holder.stdout.readline() == b"open\n"
        assert driver_of(tmp_path)["pid"] == holder.pid
        with (
            pytest.raises(LockedStoreError, match=f"another driver works on this store: process {holder.pid} on"),
            open_store(tmp_path),
        ):
            pass
        assert read_store(tmp_path).counts()["pending"] == 0
    finally:
        holder.kill()
        holder.wait()
        holder.stdout.close()
    assert driver_of(tmp_path) is None
    with open_store(tmp_path):
        assert driver_of(tmp_path)["pid"] == os.getpid()


def test_an_unreadable_lock_file_is_no_obstacle(tmp_path):
    (tmp_path / "driver.lock").write_bytes(b"\xff\x00 not json")
    assert driver_of(tmp_path) is None
    with open_store(tmp_path):
        assert json.loads((tmp_path / "driver.lock").read_text())["pid"] == os.getpid()


def test_another_tool_can_read_the_database(filled):
    with sqlite3.connect(f"file:{Path(filled) / 'runs.db'}?mode=ro", uri=True) as db:
        assert db.execute("SELECT json_extract(result, '$.error') FROM runs WHERE status = 'done'").fetchone() == (
            0.25,
        )
    db.close()
