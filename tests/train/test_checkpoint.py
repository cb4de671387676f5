import errno
import logging
import os

import pytest
import torch

from rankwise import whole_file
from rankwise.train.checkpoint import State, read_checkpoint, write_checkpoint


def state(step=7, run_id="ab"):
    tensors = {"w": torch.arange(6.0).view(2, 3) / 7, "rng": torch.arange(5, dtype=torch.uint8), "n": torch.tensor(3)}
    return State(run_id=run_id, step=step, tensors=tensors, values={"loss": 0.1 + 0.2, "curve": [1 / 3], "best": None})


def equal(a, b):
    assert a.tensors.keys() == b.tensors.keys()
    return (
        (a.run_id, a.step, a.values) == (b.run_id, b.step, b.values)
        and all(torch.equal(a.tensors[name], b.tensors[name]) for name in a.tensors)
        and all(a.tensors[name].dtype == b.tensors[name].dtype for name in a.tensors)
    )


def test_what_is_written_is_read_to_the_last_bit(tmp_path):
    path, sha256 = write_checkpoint(tmp_path, state())
    assert sha256 in path.name
    assert equal(read_checkpoint(tmp_path, "ab"), state())


def test_only_the_newest_stays(tmp_path):
    write_checkpoint(tmp_path, state(3))
    path, _ = write_checkpoint(tmp_path, state(12))
    assert list(tmp_path.iterdir()) == [path]
    assert read_checkpoint(tmp_path, "ab").step == 12


def test_an_empty_directory_and_another_runs_checkpoint_are_none(tmp_path, caplog):
    assert read_checkpoint(tmp_path, "ab") is None
    write_checkpoint(tmp_path, state(run_id="cd"))
    assert read_checkpoint(tmp_path, "ab") is None
    assert "not a checkpoint of run ab" in caplog.text


def truncate(data):
    return data[: len(data) // 2]


def zero(data):
    return bytes(len(data))


def empty(data):
    return b""


def flip_one_bit(data):
    """In the last tensor, where safetensors alone would not see it."""
    return data[:-3] + bytes([data[-3] ^ 1]) + data[-2:]


@pytest.mark.parametrize("damage", [truncate, zero, empty, flip_one_bit])
def test_damage_is_caught_by_the_hash_logged_and_never_used(tmp_path, caplog, damage):
    path, _ = write_checkpoint(tmp_path, state())
    path.write_bytes(damage(path.read_bytes()))
    with caplog.at_level(logging.WARNING):
        assert read_checkpoint(tmp_path, "ab") is None
    assert path.name in caplog.text
    assert "damaged" in caplog.text


def test_an_intact_older_one_is_used_when_the_newest_is_damaged(tmp_path):
    old, _ = write_checkpoint(tmp_path, state(3))
    kept = old.read_bytes()
    new, _ = write_checkpoint(tmp_path, state(4))
    old.write_bytes(kept)
    new.write_bytes(truncate(new.read_bytes()))
    assert equal(read_checkpoint(tmp_path, "ab"), state(3))


@pytest.mark.parametrize("failing", ["fsync", "replace"])
def test_a_full_disk_leaves_the_previous_checkpoint_whole(tmp_path, monkeypatch, failing):
    write_checkpoint(tmp_path, state(3))

    def full(*_):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(*((whole_file.os, "fsync") if failing == "fsync" else (type(tmp_path), "replace")), full)
    with pytest.raises(OSError, match="No space"):
        write_checkpoint(tmp_path, state(4))
    monkeypatch.undo()
    assert equal(read_checkpoint(tmp_path, "ab"), state(3))
    assert len(list(tmp_path.iterdir())) == 1


def test_a_draft_left_by_a_kill_is_ignored_and_removed(tmp_path):
    whole_file.new_draft(tmp_path).write_bytes(b"half")
    assert read_checkpoint(tmp_path, "ab") is None
    path, _ = write_checkpoint(tmp_path, state())
    assert list(tmp_path.iterdir()) == [path]
