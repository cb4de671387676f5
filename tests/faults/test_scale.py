"""Scale: 10,000 runs, each done once and in order, with a driver whose memory does not grow. (``benchmarks`` has the
times.)"""

import json
import time
from pathlib import Path

import pytest

from rankwise.sweep.store import read_store


def resident(pid):
    """Bytes that a process holds in memory; None once it has ended."""
    try:
        lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    except OSError:
        return None
    return next((1024 * int(line.split()[1]) for line in lines if line.startswith("VmRSS")), None)


def watched(rankwise, driver):
    """How much the driver holds in memory against how many runs are done, until it ends."""
    samples = []
    while driver.poll() is None:
        time.sleep(0.5)
        if (rankwise.store / "runs.db").exists():
            with read_store(rankwise.store) as store:
                done = store.counts()["done"]
            if (held := resident(driver.pid)) is not None:
                samples.append((done, held))
    return samples


@pytest.mark.faults
def test_scale(rankwise, record_property):
    rankwise.write_sweep(*["instant"] * 10_000)
    driver = rankwise.start()
    samples = watched(rankwise, driver)
    _, err = driver.communicate()
    assert driver.returncode == 0, err
    early = max(held for done, held in samples if 500 <= done <= 2000)
    late = max(held for done, held in samples if done >= 8000)
    assert late <= 1.02 * early
    record_property("note", f"memory of the driver {late / early - 1:+.1%} from 2,000 to 10,000 runs")
    _, out, _ = rankwise.run("status", "--store", "store", "--json")
    assert json.loads(out)["counts"]["done"] == 10_000
    assert len({row.run_id for row in rankwise.rows()}) == 10_000


def test_many_runs_between_two_workers(rankwise):
    rankwise.write_sweep(*["instant"] * 500)
    code, _, err = rankwise.run()
    assert code == 0, err
    assert {(row.status, row.attempts) for row in rankwise.rows()} == {("done", 1)}
    assert [row.spec["seed"] for row in rankwise.rows()] == list(range(500))
