"""Divergence: status ``diverged`` with the step, shown apart in tables. (That training stops before the optimiser step
is tested with the training.)"""

import json


def test_divergence(rankwise):
    rankwise.write_sweep("instant", "diverge", "fail")
    code, _, err = rankwise.run()
    assert code == 1
    assert "diverged: seed=1" in err
    assert [row.status for row in rankwise.rows()] == ["done", "diverged", "failed"]
    assert rankwise.rows()[1].reason == "diverged at step 17: the loss is inf"
    _, out, _ = rankwise.run("status", "--store", "store", "--json")
    assert {name: count for name, count in json.loads(out)["counts"].items() if count} == {
        "done": 1,
        "diverged": 1,
        "failed": 1,
    }
