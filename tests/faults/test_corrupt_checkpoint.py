"""Corrupt checkpoint: truncated, zeroed, one bit flipped (which safetensors alone does not see); caught by SHA-256, the
run restarts, logged, never used."""

import hashlib
import re
import signal
import sqlite3

import pytest

from rankwise.spec import plain
from rankwise.train.checkpoint import read_checkpoint
from rankwise.train.contract import Stopped
from rankwise.train.loop import run_entry, train
from real_runs import SHORT
from training_runs import Context, thirty_steps

DAMAGES = {
    "truncated": lambda data: data[: len(data) // 2],
    "empty": lambda data: b"",
    "zeroed": lambda data: bytes(len(data)),
    "one bit of the weights": lambda data: data[:-1] + bytes([data[-1] ^ 1]),
    "one bit of the header": lambda data: data[:9] + bytes([data[9] ^ 1]) + data[10:],
}


@pytest.mark.parametrize("damage", DAMAGES.values(), ids=DAMAGES)
def test_corrupt_checkpoint(tmp_path, caplog, damage):
    run = thirty_steps()
    with pytest.raises(Stopped):
        run_entry(plain(run), Context(tmp_path, 12))
    (path,) = tmp_path.iterdir()
    path.write_bytes(damage(path.read_bytes()))
    context = Context(tmp_path)
    assert run_entry(plain(run), context) == train(run).to_json()
    assert context.reports[0]["step"] == 1
    assert "damaged" in caplog.text


@pytest.mark.parametrize("damage", DAMAGES.values(), ids=DAMAGES)
def test_damage_that_was_named_after_its_own_hash(tmp_path, caplog, damage):
    """Bytes that hash to their name and are no checkpoint all the same: the run restarts or goes on, it never fails."""
    run = thirty_steps()
    with pytest.raises(Stopped):
        run_entry(plain(run), Context(tmp_path, 12))
    (path,) = tmp_path.iterdir()
    data = damage(path.read_bytes())
    path.unlink()
    (tmp_path / f"00000012.{hashlib.sha256(data).hexdigest()}.safetensors").write_bytes(data)
    state = read_checkpoint(tmp_path, run.id)
    if damage is DAMAGES["one bit of the weights"]:
        assert state.step == 12, "whoever can write the hash can write the weights"
    else:
        assert state is None
        assert "not used" in caplog.text


def test_a_sweep_over_a_corrupt_checkpoint_ends_in_the_same_table(rankwise):
    """The driver is killed, its runs' checkpoints are damaged, the same command goes on from nothing."""
    rankwise.use_real_training()
    rankwise.write_sweep((), (), optim=SHORT)
    driver = rankwise.start()
    rankwise.wait_until(lambda: all(row.checkpoint for row in rankwise.rows()) and rankwise.rows())
    driver.send_signal(signal.SIGINT)
    driver.communicate(timeout=60)
    with sqlite3.connect(rankwise.store / "runs.db") as db:  # on a busy machine a run may end before the signal comes
        db.execute("UPDATE runs SET status = 'running', result = NULL, digest = NULL WHERE status = 'done'")
    for path in (rankwise.store / "checkpoints").rglob("*.safetensors"):
        data = bytearray(path.read_bytes())
        data[-5] ^= 16
        path.write_bytes(data)
    code, _, err = rankwise.run()
    assert code == 0, err
    logs = "".join(path.read_text() for path in (rankwise.store / "logs").iterdir())
    assert len(re.findall("damaged, its SHA-256 is not the one in its name; not used", logs)) == 2
    assert [row.result for row in rankwise.rows()] == rankwise.straight_results()
