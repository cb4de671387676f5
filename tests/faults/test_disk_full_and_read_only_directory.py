"""Disk full, read-only directory: refused or paused with the path named; previous checkpoint intact; resumes later."""

import ctypes
import os
import resource

import pytest

CAP_DAC_OVERRIDE, CAP_DAC_READ_SEARCH, PR_CAPBSET_DROP = 1, 2, 24


def files_of_at_most(size):
    return lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (size, size))


def without_superpowers():
    """Permissions bind root too once it has given up its right to ignore them."""
    if os.getuid() == 0:
        for capability in (CAP_DAC_OVERRIDE, CAP_DAC_READ_SEARCH):
            ctypes.CDLL(None).prctl(PR_CAPBSET_DROP, capability, 0, 0, 0)


def test_disk_full_for_the_store(rankwise):
    """The database cannot grow: the sweep stops, names it, and a later one finishes with nothing done twice."""
    rankwise.write_sweep(*["instant"] * 300)
    code, _, err = rankwise.run(preexec_fn=files_of_at_most(300_000))
    assert code == 2
    assert "store/runs.db: cannot be written or read now" in err
    assert "Traceback" not in err
    before = {row.run_id for row in rankwise.rows() if row.status == "done"}
    code, _, err = rankwise.run()
    assert code == 0, err
    assert [row.status for row in rankwise.rows()] == ["done"] * 300
    assert {len(rankwise.calls(run_id)) for run_id in before} <= {1}


def test_disk_full_for_a_checkpoint(rankwise):
    """A run cannot write its checkpoint: the sweep stops and names the file; the run is not blamed."""
    rankwise.write_sweep("big_file", "instant")
    code, _, err = rankwise.run(preexec_fn=files_of_at_most(500_000))
    assert code == 2
    run_id = rankwise.rows()[0].run_id
    assert f"store/checkpoints/{run_id}: File too large" in err
    assert "the same command continues" in err
    assert [row.status for row in rankwise.rows()] == ["pending", "done"]
    code, _, err = rankwise.run()
    assert code == 0, err
    assert [row.status for row in rankwise.rows()] == ["done", "done"]


@pytest.mark.parametrize("made_before", [False, True])
def test_read_only_directory(rankwise, made_before):
    rankwise.write_sweep("instant")
    if made_before:
        rankwise.run()
    rankwise.store.mkdir(exist_ok=True)
    before = rankwise.table()
    for path in rankwise.store.iterdir():
        path.chmod(0o444 if path.is_file() else 0o555)
    rankwise.store.chmod(0o555)
    try:
        code, _, err = rankwise.run(preexec_fn=without_superpowers)
        assert code == 2
        assert err.startswith("rankwise: store/driver.lock: cannot be written: Permission denied")
        if made_before:
            assert rankwise.table() == before
            code, out, err = rankwise.run("results", "--store", "store", "--csv", preexec_fn=without_superpowers)
            assert code == 0, err
            assert out.splitlines()[1].split(",")[1] == "done"
        else:
            assert list(rankwise.store.iterdir()) == []
    finally:
        rankwise.store.chmod(0o755)


def test_a_store_that_cannot_be_made_is_named(rankwise):
    rankwise.write_sweep("instant")
    (rankwise.directory / "file").write_text("in the way")
    code, _, err = rankwise.run("sweep", "sweep.toml", "--store", "file/store")
    assert code == 2
    assert err.startswith("rankwise: file/store: cannot be written: Not a directory")
