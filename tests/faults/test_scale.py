"""Scale: 5,000 runs, each done once and in order. (``benchmarks`` has the times.)"""

import json

import pytest


@pytest.mark.faults
def test_scale(rankwise):
    rankwise.write_sweep(*["instant"] * 5000)
    code, _, err = rankwise.run()
    assert code == 0, err
    _, out, _ = rankwise.run("status", "--store", "store", "--json")
    assert json.loads(out)["counts"]["done"] == 5000
    assert len({row.run_id for row in rankwise.rows()}) == 5000


def test_many_runs_between_two_workers(rankwise):
    rankwise.write_sweep(*["instant"] * 500)
    code, _, err = rankwise.run()
    assert code == 0, err
    assert {(row.status, row.attempts) for row in rankwise.rows()} == {("done", 1)}
    assert [row.spec["seed"] for row in rankwise.rows()] == list(range(500))
