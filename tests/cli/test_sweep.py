"""The three commands as a user meets them; workers run ``fake_runs``."""

import csv
import functools
import io
import json
import sqlite3
from pathlib import Path

import numpy as np
import pytest
import torch

from rankwise.cli import main
from rankwise.spec import Axis, NeighborSpec, SweepSpec, VectorFile, to_toml
from rankwise.sweep import session
from spec_examples import seeds_sweep, small_run


@pytest.fixture
def rankwise(monkeypatch, capfd, tmp_path):
    """A function that runs a command in ``tmp_path`` and returns exit code, stdout and stderr."""
    monkeypatch.setattr(session, "run_here", functools.partial(session.run_here, entry="fake_runs:entry"))
    monkeypatch.chdir(tmp_path)

    def run(*arguments):
        code = main(list(arguments))
        return code, *capfd.readouterr()

    return run


@pytest.fixture
def three(tmp_path):
    """A file with a sweep of three runs, the second of which fails."""
    axis = Axis.of({"seed": [0, 1, 2], "tags": [["instant"], ["fail", "[red]=1+1"], ["instant"]]})
    path = tmp_path / "three.toml"
    path.write_text(to_toml(SweepSpec(name="three", base=small_run(), axes=(axis,))))
    return str(path)


def test_a_sweep_ends_with_zero_and_where_to_look(rankwise, tmp_path):
    (tmp_path / "s.toml").write_text(to_toml(seeds_sweep(2)))
    code, out, err = rankwise("sweep", "s.toml")
    assert (code, out) == (0, "2 runs done; the table: rankwise results --store runs\n")
    assert "2 of 2 done" in err
    assert (tmp_path / "runs" / "runs.db").exists()


def test_failures_are_listed_and_change_the_exit_code(rankwise, three):
    code, out, err = rankwise("sweep", three, "--store", "a store")
    assert code == 1
    assert out == ""
    assert "rankwise: 1 of 3 runs failed" in err
    assert "failed: seed=1 tags=['fail', '[red]=1+1'] (run " in err
    assert err.strip().endswith("RuntimeError: [red]=1+1")
    assert "Traceback" not in err
    code, _, again = rankwise("sweep", three, "--store", "a store")
    assert code == 1, "a failure stays a failure"
    assert "1 attempt)" in again
    _, _, retried = rankwise("sweep", three, "--store", "a store", "--retry")
    assert "2 attempts)" in retried


def test_json_on_stdout_is_strict_and_alone(rankwise, three):
    code, out, _ = rankwise("sweep", three, "--json")
    answer = strict(out)
    assert code == 1
    assert answer["counts"] == {"done": 2, "failed": 1}
    assert answer["failures"][0]["reason"] == "RuntimeError: [red]=1+1"


def test_dry_run_shows_costs_and_writes_nothing(rankwise, three, tmp_path):
    before = sorted(tmp_path.iterdir())
    code, out, _ = rankwise("sweep", three, "--dry-run", "--workers", "3")
    assert code == 0
    assert "3 runs, 3 to do: about" in out
    assert "with 3 workers" in out
    assert "time = operations / rate" in out
    assert "tags=['fail', '[red]=1+1']" in out
    answer = strict(rankwise("sweep", three, "--dry-run", "--json")[1])
    assert [run["parameters"] for run in answer["runs"]] == [small_run().model.parameters()] * 3
    assert answer["seconds"] > 0
    assert sorted(tmp_path.iterdir()) == before


def test_dry_run_knows_what_is_done(rankwise, three):
    rankwise("sweep", three)
    answer = strict(rankwise("sweep", three, "--dry-run", "--json")[1])
    assert [run["status"] for run in answer["runs"]] == ["done", "failed", "done"]
    assert answer["to_do"] == 0
    assert answer["rate"]["source"].endswith("corrected by 2 finished runs of this store")


def test_dry_run_counts_what_would_be_tried_again(rankwise, three):
    rankwise("sweep", three)
    assert "3 runs, 1 to do: about" in rankwise("sweep", three, "--dry-run", "--retry")[1]
    assert strict(rankwise("sweep", three, "--dry-run", "--retry", "--json")[1])["to_do"] == 1


def test_only_what_can_be_retried_is_told_to_be(rankwise, three, tmp_path):
    assert "; try them again: --retry)" in rankwise("sweep", three)[2]
    (tmp_path / "d.toml").write_text(to_toml(SweepSpec(name="d", base=small_run(tags=("diverge",)))))
    code, _, err = rankwise("sweep", "d.toml", "--store", "other")
    assert code == 1
    assert "1 of 1 runs failed (tracebacks: rankwise results --store other --json)" in err


def test_missing_vectors_are_refused_before_anything_is_trained(rankwise, tmp_path):
    np.save("v.npy", np.eye(8))
    task = NeighborSpec(
        name="farthest", dim=8, points=4, distribution="rows", vectors_from=VectorFile.of(Path("v.npy"))
    )
    (tmp_path / "v.toml").write_text(to_toml(SweepSpec(name="v", base=small_run(task=task))))
    vectors = Path("v.npy").rename("moved.npy")
    code, out, err = rankwise("sweep", "v.toml")
    assert (code, out) == (2, "")
    assert err.startswith("rankwise: v.npy: expected a readable file of vectors, got no such file")
    assert not (tmp_path / "runs").exists()
    vectors.rename("v.npy")
    assert rankwise("sweep", "v.toml")[0] == 0
    Path("v.npy").unlink()
    assert rankwise("sweep", "v.toml")[0] == 0, "a finished run needs its data no more"


def test_a_gpu_that_is_not_there_is_refused_before_anything_is_trained(rankwise, three, tmp_path, monkeypatch):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    code, out, err = rankwise("sweep", three, "--device", "cuda")
    assert (code, out) == (2, "")
    assert err.startswith("rankwise: device: expected a CUDA device")
    assert not (tmp_path / "runs").exists()


def test_status_counts_and_explains(rankwise, three):
    rankwise("sweep", three)
    code, out, _ = rankwise("status")
    assert code == 0
    assert "runs: 3 runs" in out
    assert "driven by nobody" in out
    assert "RuntimeError: [red]=1+1" in out
    answer = strict(rankwise("status", "--json")[1])
    assert answer["counts"]["done"] == 2
    assert answer["driver"] is None
    assert [failure["attempts"] for failure in answer["failures"]] == [1]


def test_status_tells_how_far_a_run_is(rankwise, three):
    rankwise("sweep", three)
    with sqlite3.connect("runs/runs.db") as db:
        progress = '{"step": 120, "of": 1000, "error": 0.31337420001}'
        db.execute("UPDATE runs SET status = 'running', progress = ? WHERE status = 'failed'", (progress,))
    assert "step 120 of 1000, error 0.3134\n" in rankwise("status")[1]
    assert strict(rankwise("status", "--json")[1])["running"][0]["error"] == 0.31337420001


def test_results_in_three_forms(rankwise, three):
    rankwise("sweep", three)
    code, out, _ = rankwise("results")
    assert code == 0
    assert "failed" in out
    assert "model.dim" not in out
    table = list(csv.DictReader(io.StringIO(rankwise("results", "--csv")[1])))
    assert [row["status"] for row in table] == ["done", "failed", "done"]
    assert table[0]["task.dim"] == "8"
    rows = strict(rankwise("results", "--json")[1])
    assert rows[1]["traceback"].startswith("Traceback")
    assert rows[0]["spec"]["model"]["rank"] == 4
    assert rows[0]["versions"]["python"]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("sweep", "nothing.toml"), "rankwise: nothing.toml: expected a spec, got no such file"),
        (("sweep", "three.toml", "--workers", "0"), "rankwise: --workers: expected at least 1, got 0"),
        (("status",), "rankwise: runs: expected a store, got no runs.db in it; name another with --store, or"),
        (("results", "--store", "x"), "rankwise: x: expected a store"),
    ],
)
def test_mistakes_get_one_line_and_exit_code_two(rankwise, three, arguments, message, tmp_path):
    code, out, err = rankwise(*arguments)
    assert (code, out) == (2, "")
    assert err.startswith(message)
    assert err.count("\n") == 1
    assert not (tmp_path / "runs").exists()


def test_results_are_either_csv_or_json(rankwise, three):
    assert rankwise("results", "--csv", "--json")[0] == 2


def strict(text):
    def refuse(name):
        raise AssertionError(f"{name} is not JSON")

    return json.loads(text, parse_constant=refuse)
