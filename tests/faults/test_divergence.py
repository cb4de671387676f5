"""Divergence: status ``diverged`` with the step, shown apart in tables. (That training stops before the optimiser step
is tested with the training.)"""

import json
import re

from real_runs import SHORT


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


def test_a_learning_rate_of_a_million(rankwise):
    """The real training: one run leaves at once, its neighbour is done, and no table averages the two."""
    rankwise.use_real_training()
    sane = SHORT | {"steps": 50, "epoch_steps": 50}
    rankwise.write_runs([{"seed": 0, "optim": sane}, {"seed": 1, "optim": sane | {"lr": 1e6}}])
    code, _, err = rankwise.run()
    assert code == 1
    good, bad = rankwise.rows()
    assert (good.status, bad.status) == ("done", "diverged")
    assert re.match(r"diverged at step \d+: the (loss|norm)", bad.reason)
    assert bad.result is None
    assert bad.reason in err
    _, out, _ = rankwise.run("results", "--store", "store", "--json")
    assert [row["result"] is None for row in json.loads(out)] == [False, True]
