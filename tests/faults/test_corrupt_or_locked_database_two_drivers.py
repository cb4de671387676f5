"""Corrupt or locked database; two drivers on one store: exit 3 naming the file; the second driver refuses, no run is
trained twice."""

import random
import shutil
import signal
import sqlite3
import time
from collections import Counter

import pytest

from rankwise.errors import CorruptStoreError, StorageError
from rankwise.spec import SweepSpec, read_spec
from rankwise.sweep import database
from rankwise.sweep.plan import plan_sweep
from rankwise.sweep.runner import Outcome
from rankwise.sweep.session import require_kept
from rankwise.sweep.store import open_store, read_store


@pytest.fixture
def finished(rankwise):
    rankwise.write_sweep(*["instant"] * 20, "fail")
    rankwise.run()
    return rankwise


@pytest.mark.parametrize(
    "damage",
    [
        lambda data: b"garbage" * 1000,
        lambda data: b"",
        lambda data: data[: len(data) // 2],
        lambda data: b"\0" * len(data),
        lambda data: data[:4096] + b"\xff" * 4096 + data[8192:],
    ],
    ids=["garbage", "empty", "half", "zeros", "a page"],
)
def test_corrupt_database(finished, damage):
    path = finished.store / "runs.db"
    path.write_bytes(damage(path.read_bytes()))
    damaged = path.read_bytes()
    for command in (("sweep", "sweep.toml"), ("results", "--csv")):
        code, out, err = finished.run(*command, "--store", "store")
        assert code == 3
        assert err.startswith("rankwise: store/runs.db: ")
        assert out == ""
        assert "Traceback" not in err
    assert path.read_bytes() == damaged, "a damaged store is evidence: left as it is"


def test_any_changed_byte_is_noticed_or_harmless(finished):
    """Flip one bit anywhere: a reader sees the same outcomes as before, or an error, never another number."""
    path = finished.store / "runs.db"
    good = path.read_bytes()
    expected = finished.table()
    places = random.Random(1)
    noticed = 0
    for _ in range(300):
        data = bytearray(good)
        data[places.randrange(len(data))] ^= 1 << places.randrange(8)
        path.write_bytes(data)
        try:
            with read_store(finished.store) as store:
                table = [(row.run_id, row.status, row.result, row.reason) for row in store.rows()]
        except (CorruptStoreError, StorageError):
            noticed += 1
            continue
        assert table == expected
    assert noticed > 100


def test_locked_database(finished, monkeypatch):
    """Another tool holds the file: the driver gives up after a while and says which file."""
    monkeypatch.setattr(database, "_PATIENCE", 0.1)
    holder = sqlite3.connect(finished.store / "runs.db", isolation_level=None)
    holder.execute("BEGIN IMMEDIATE")
    with pytest.raises(StorageError, match=r"runs\.db: cannot be written or read now: database is locked"):
        open_store(finished.store).__enter__()
    holder.execute("ROLLBACK")
    holder.close()
    with open_store(finished.store) as store:
        assert store.counts()["done"] == 20


def test_two_drivers(rankwise):
    rankwise.write_sweep(*[("slow", "0.01")] * 4, optim={"lr": 0.1, "steps": 100_000, "batch": 4})
    first = rankwise.start()
    rankwise.wait_until(lambda: sum(row.status == "running" for row in rankwise.rows()) == 2)
    code, _, err = rankwise.run()
    assert code == 2
    assert err.startswith(f"rankwise: store: another driver works on this store: process {first.pid} on ")
    assert "sweep sweep.toml" in err
    code, out, _ = rankwise.run("status", "--store", "store")
    assert code == 0
    assert f"driven by process {first.pid}" in out
    first.send_signal(signal.SIGINT)
    first.communicate(timeout=30)
    assert first.returncode == 130
    assert [len(rankwise.calls(row.run_id)) for row in rankwise.rows()] == [1, 1, 0, 0]


def test_many_drivers_at_the_same_instant(rankwise):
    rankwise.write_sweep(*[("slow", "0.01")] * 6)
    drivers = [rankwise.start() for _ in range(4)]
    for driver in drivers:
        driver.communicate(timeout=60)
    codes = Counter(driver.returncode for driver in drivers)
    assert codes[0] >= 1
    assert codes[0] + codes[2] == 4
    assert {row.status for row in rankwise.rows()} == {"done"}
    assert {len(rankwise.calls(row.run_id)) for row in rankwise.rows()} == {1}


def test_status_during_a_sweep_sees_a_whole_store(rankwise):
    rankwise.write_sweep(*["instant"] * 400)
    driver = rankwise.start()
    seen = []
    until = time.monotonic() + 60
    while driver.poll() is None and time.monotonic() < until:
        if (rankwise.store / "runs.db").exists():
            with read_store(rankwise.store) as store:
                seen.append(sum(store.counts().values()))
    assert set(seen) <= {0, 400}
    assert 400 in seen
    driver.communicate()
    assert driver.returncode == 0


@pytest.mark.parametrize("deed", ["delete the store", "delete the file", "put another in its place"])
def test_a_store_that_vanishes_during_a_sweep_is_never_called_done(rankwise, deed):
    rankwise.write_sweep(*[("slow", "0.02")] * 8)
    driver = rankwise.start()
    rankwise.wait_until(lambda: sum(row.status == "done" for row in rankwise.rows()) >= 2)
    if deed == "delete the store":
        shutil.rmtree(rankwise.store, ignore_errors=True)
    else:
        (rankwise.store / "runs.db").unlink()
    if deed == "put another in its place":
        with sqlite3.connect(rankwise.store / "runs.db") as other:
            other.execute("CREATE TABLE t (x)")
    out, err = driver.communicate(timeout=60)
    assert driver.returncode == 3, err
    assert "runs.db: deleted or replaced while" in err
    assert "done" not in out
    assert "Traceback" not in err


def test_success_is_said_of_what_the_file_holds(finished):
    """The last look goes by the path: rows that are not there are not done."""
    with open_store(finished.store) as store:
        counts = {status: count for status, count in store.counts().items() if count}
    plan = plan_sweep(read_spec(SweepSpec, finished.directory / "sweep.toml"))
    outcome = Outcome(counts=counts, failures=(), interrupted=False)
    require_kept(plan, outcome, finished.store)
    with sqlite3.connect(finished.store / "runs.db") as db:
        db.execute("DELETE FROM runs WHERE position = 3")
    with pytest.raises(CorruptStoreError, match="expected 20 runs done, which the sweep counted, got 19"):
        require_kept(plan, outcome, finished.store)
    (finished.store / "runs.db").unlink()
    with pytest.raises(CorruptStoreError, match="deleted while the sweep ran"):
        require_kept(plan, outcome, finished.store)


def test_a_deleted_lock_file_does_not_let_a_second_driver_in(rankwise):
    rankwise.write_sweep(*["hang"] * 2)
    first = rankwise.start()
    rankwise.wait_until(lambda: sum(row.status == "running" for row in rankwise.rows()) == 2)
    (rankwise.store / "driver.lock").unlink()
    code, _, err = rankwise.run()
    assert code == 2
    assert "another driver works on this store" in err
    first.send_signal(signal.SIGKILL)
    first.communicate()


def test_finished_runs_are_not_in_the_write_ahead_log(rankwise):
    """A damaged log is cut off by SQLite without a word: whatever is flipped there, no finished run vanishes."""
    rankwise.write_sweep(*["instant"] * 6, "hang")
    driver = rankwise.start()
    rankwise.wait_until(lambda: sum(row.status == "done" for row in rankwise.rows()) == 6)
    log = rankwise.store / "runs.db-wal"
    rankwise.wait_until(lambda: log.stat().st_size == 0, seconds=30)
    driver.send_signal(signal.SIGKILL)
    driver.communicate()
    good = log.read_bytes() if log.exists() else b""
    places = random.Random(0)
    for place in [0, *(places.randrange(max(1, len(good))) for _ in range(40))] if good else []:
        damaged = bytearray(good)
        damaged[place] ^= 1 << places.randrange(8)
        (rankwise.store / "runs.db-shm").unlink(missing_ok=True)
        log.write_bytes(damaged)
        assert sum(row.status == "done" for row in rankwise.rows()) == 6
