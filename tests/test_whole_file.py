"""Files that are replaced in one piece."""

import errno
import os
import signal
import stat
import subprocess
import sys

import pytest

from rankwise import whole_file
from rankwise.errors import StorageError
from rankwise.whole_file import new_draft, whole_folder, write_whole


def names(folder):
    return sorted(path.name for path in folder.iterdir())


def test_folders_are_made_and_files_replaced(tmp_path):
    path = tmp_path / "a" / "b.json"
    write_whole(path, b"old")
    assert write_whole(path, b"new").read_bytes() == b"new"
    assert names(path.parent) == ["b.json"]


@pytest.mark.parametrize("failing", ["fsync", "replace"])
def test_a_full_disk_leaves_the_old_file_whole(tmp_path, monkeypatch, failing):
    write_whole(tmp_path / "f", b"old")

    def full(*_):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(*((whole_file.os, "fsync") if failing == "fsync" else (type(tmp_path), "replace")), full)
    with pytest.raises(StorageError, match=r"f: cannot be written: No space left on device; choose another file"):
        write_whole(tmp_path / "f", b"new" * 1000)
    assert (tmp_path / "f").read_bytes() == b"old"
    assert names(tmp_path) == ["f"]


def test_a_planted_link_is_replaced_and_not_followed(tmp_path):
    (tmp_path / "secret").write_bytes(b"mine")
    (tmp_path / "out").symlink_to(tmp_path / "secret")
    write_whole(tmp_path / "out", b"report")
    assert (tmp_path / "secret").read_bytes() == b"mine"
    assert not (tmp_path / "out").is_symlink()


def test_names_of_drafts_cannot_be_guessed(tmp_path):
    assert len({new_draft(tmp_path) for _ in range(100)}) == 100


@pytest.mark.parametrize("kind", ["pipe", "link to a device", "folder"])
def test_what_is_not_a_file_is_refused_and_stays(tmp_path, kind):
    path = tmp_path / "out"
    {"pipe": lambda: os.mkfifo(path), "link to a device": lambda: path.symlink_to("/dev/null"), "folder": path.mkdir}[
        kind
    ]()
    with pytest.raises(StorageError, match="expected a regular file to replace"):
        write_whole(path, b"x")
    assert names(tmp_path) == ["out"]


@pytest.mark.parametrize(("mask", "rights"), [(0o022, 0o644), (0o077, 0o600), (0o002, 0o664)])
def test_the_umask_is_respected_and_a_private_file_stays_private(tmp_path, mask, rights):
    before = os.umask(mask)
    try:
        write_whole(tmp_path / "new", b"x")
        (tmp_path / "private").touch(0o600)
        write_whole(tmp_path / "private", b"x")
    finally:
        os.umask(before)
    assert stat.S_IMODE((tmp_path / "new").stat().st_mode) == rights
    assert stat.S_IMODE((tmp_path / "private").stat().st_mode) == 0o600


def test_drafts_of_killed_writers_are_removed_and_those_of_living_ones_are_not(tmp_path):
    script = (
        "import os, sys, time; from rankwise import whole_file; from pathlib import Path; folder = Path(sys.argv[1])\n"
        "draft = whole_file.new_draft(folder); handle = os.open(draft, os.O_CREAT | os.O_WRONLY)\n"
        "whole_file.hold_draft(handle); print('ready', flush=True); time.sleep(60)"
    )
    writer = subprocess.Popen([sys.executable, "-c", script, str(tmp_path)], stdout=subprocess.PIPE)
    try:
        assert writer.stdout.readline() == b"ready\n"
        write_whole(tmp_path / "f", b"x")
        assert len(names(tmp_path)) == 2
        writer.send_signal(signal.SIGKILL)
        writer.wait()
        new_draft(tmp_path).mkdir()  # an unfinished folder
        write_whole(tmp_path / "f", b"x")
        assert names(tmp_path) == ["f"]
    finally:
        writer.kill()
        writer.communicate()


def test_a_folder_appears_whole_with_the_rights_that_the_umask_leaves(tmp_path):
    dead = tmp_path / ".rankwise-00.draft"
    dead.mkdir()
    before = os.umask(0o027)
    try:
        with whole_folder(tmp_path / "new") as draft:
            (draft / "in").mkdir()
            for name in ("a", "in/b"):
                (draft / name).touch(0o600)
            assert not (tmp_path / "new").exists()
    finally:
        os.umask(before)
    assert stat.S_IMODE((tmp_path / "new").stat().st_mode) == 0o750
    assert {stat.S_IMODE((tmp_path / "new" / name).stat().st_mode) for name in ("a", "in/b")} == {0o640}
    assert [path.name for path in tmp_path.iterdir()] == ["new"]
    with pytest.raises(KeyboardInterrupt), whole_folder(tmp_path / "other"):
        raise KeyboardInterrupt
    assert [path.name for path in tmp_path.iterdir()] == ["new"]
