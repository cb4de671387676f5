"""Folders of sweeps among a machine's temporary files."""

import os
import signal
import subprocess
import sys
import tempfile

import pytest

from rankwise.sweep.engines.session_folder import hold_session_folder, remove_dead_folders, session_folder

_HOLDER = """
import sys, time
from rankwise.sweep.engines.session_folder import hold_session_folder
hold_session_folder(sys.argv[1])
print("held", flush=True)
time.sleep(60)
"""


@pytest.fixture(autouse=True)
def temporary(tmp_path, monkeypatch):
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    return tmp_path


def test_a_folder_stays_as_long_as_someone_holds_it():
    first, second = (hold_session_folder("a") for _ in range(2))
    assert session_folder("a").stat().st_mode & 0o777 == 0o700
    os.close(first)
    remove_dead_folders()
    assert session_folder("a").is_dir()
    os.close(second)
    os.close(hold_session_folder("b"))
    assert not session_folder("a").exists()


def test_folders_of_killed_processes_are_removed_by_the_next(temporary):
    environment = os.environ | {
        "TMPDIR": str(temporary),
        "PYTHONPATH": os.pathsep.join(path for path in sys.path if path),
    }
    holder = subprocess.Popen([sys.executable, "-c", _HOLDER, "c"], env=environment, stdout=subprocess.PIPE, text=True)
    assert holder.stdout.readline() == "held\n"
    remove_dead_folders()
    assert session_folder("c").is_dir()
    holder.send_signal(signal.SIGKILL)
    holder.communicate()
    remove_dead_folders()
    assert not session_folder("c").exists()


def test_what_others_put_there_is_left_alone(temporary):
    (temporary / "elsewhere").mkdir()
    (temporary / "elsewhere" / "held").touch()
    session_folder("link").symlink_to(temporary / "elsewhere")
    session_folder("file").touch()
    session_folder("empty").mkdir()
    remove_dead_folders()
    assert {path.name for path in temporary.iterdir()} == {
        "elsewhere",
        *(f"rankwise-{name}" for name in ("link", "file", "empty")),
    }
