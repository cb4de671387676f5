"""Corrupt or locked database; two drivers on one store: exit 3 naming the file; the second driver refuses, no run is
trained twice."""

import random
import signal
import sqlite3
import time
from collections import Counter

import pytest

from rankwise.errors import CorruptStoreError, StorageError
from rankwise.sweep import database
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
