"""The frame that every command runs in: exit codes, late imports, closed pipes."""

import errno
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from rankwise import __version__
from rankwise.cli import main
from rankwise.errors import RankwiseError


def run(*arguments, code=None):
    command = [sys.executable, "-m", "rankwise"] if code is None else [sys.executable, "-c", code]
    return subprocess.run([*command, *arguments], capture_output=True, text=True, check=False)


def replace_command(monkeypatch, action):
    """Let ``rankwise doctor`` do ``action``."""

    def doctor() -> None:
        action()

    monkeypatch.setattr("rankwise.cli.doctor.doctor", doctor)


def fail_with(error):
    def action():
        raise error

    return action


@pytest.mark.parametrize(
    ("arguments", "named"),
    [
        (["reproduse"], "'reproduse' (did you mean 'reproduce'?)"),
        (["audti"], "(did you mean 'audit'?)"),
        (["quite-other"], "there are demo, reproduce"),
        (["models", "--confg", "x"], "--confg"),
        (["models", "extra"], "extra"),
    ],
)
def test_a_command_line_that_does_not_read_exits_2_and_names_what_is_wrong(capsys, arguments, named):
    assert main(arguments) == 2
    captured = capsys.readouterr()
    assert named in captured.err
    assert captured.out == ""


def test_without_a_command_the_commands_are_shown(capsys):
    assert main([]) == 0
    bare = capsys.readouterr().out
    assert main(["--help"]) == 0
    assert bare == capsys.readouterr().out
    assert "The ranks of every head's QK and OV forms" in " ".join(bare.replace("│", " ").split())


def test_a_users_mistake_exits_2_with_one_line_and_no_traceback():
    answer = run("models", "--config", "/does/not/exist.json")
    assert answer.returncode == 2
    assert answer.stdout == ""
    assert answer.stderr == "rankwise: /does/not/exist.json: expected a model's folder or file, got no such path\n"


def test_an_error_brings_its_own_exit_code(monkeypatch, capsys):
    class CorruptError(RankwiseError):
        exit_code = 3

    replace_command(monkeypatch, fail_with(CorruptError("runs.db: expected a database")))
    assert main(["doctor"]) == 3
    assert capsys.readouterr().err == "rankwise: runs.db: expected a database\n"


def test_ctrl_c_exits_130(monkeypatch, capsys):
    replace_command(monkeypatch, fail_with(KeyboardInterrupt()))
    assert main(["doctor"]) == 130
    assert "interrupted" in capsys.readouterr().err


@pytest.mark.parametrize(("leaving", "code"), [(SystemExit(), 0), (SystemExit(7), 7), (SystemExit("why"), 2)])
def test_a_command_may_leave_by_itself(monkeypatch, leaving, code):
    replace_command(monkeypatch, fail_with(leaving))
    assert main(["doctor"]) == code


@pytest.mark.parametrize(("error", "what"), [(MemoryError(), "memory"), (RecursionError(), "nesting")])
def test_what_the_machine_cannot_hold_is_a_message(monkeypatch, capsys, error, what):
    replace_command(monkeypatch, fail_with(error))
    assert main(["doctor"]) == 2
    told = capsys.readouterr().err
    assert told.startswith("rankwise: expected input of a size")
    assert f"got too much {what}" in told
    assert told.count("\n") == 1


def test_a_bug_keeps_its_traceback(monkeypatch):
    replace_command(monkeypatch, fail_with(ZeroDivisionError("a bug")))
    with pytest.raises(ZeroDivisionError, match="a bug"):
        main(["doctor"])


@pytest.mark.parametrize("arguments", [["--help"], ["models", "--help"], ["models"], ["models", "--json"]])
def test_what_needs_no_torch_does_not_import_it(arguments):
    heavy = ["torch", "transformers", "pandas", "matplotlib"]
    if "--help" in arguments:  # the table itself computes bounds, with numpy and scipy
        heavy += ["numpy", "scipy"]
    code = f"""
import sys
from rankwise.cli import main
code = main({arguments!r})
sys.exit(code or [name for name in {heavy!r} if name in sys.modules] or 0)
"""
    answer = run(code=code)
    assert answer.returncode == 0, answer.stderr
    assert "rankwise" in answer.stdout or "GPT-3" in answer.stdout


def test_help_lists_every_command_with_its_purpose(capsys):
    assert main(["--help"]) == 0
    shown = capsys.readouterr().out
    for expected in ("models", "Published transformer shapes", "doctor", "Versions, devices"):
        assert expected in shown


def test_doctor_answers_in_strict_json():
    answer = run("doctor", "--json")
    assert answer.returncode == 0, answer.stderr
    facts = json.loads(answer.stdout, parse_constant=pytest.fail)
    assert facts["rankwise"] == __version__
    assert facts["python"] == ".".join(map(str, sys.version_info[:3]))
    assert facts["torch threads"] >= 1
    assert facts["extra audit"] == "installed"


def test_doctor_names_the_install_line_of_a_missing_extra(monkeypatch, capsys):
    monkeypatch.setattr("rankwise.cli.doctor.find_spec", lambda name: None if name == "gguf" else object())
    assert main(["doctor"]) == 0
    shown = capsys.readouterr().out
    assert "missing gguf: pip install 'rankwise[gguf]'" in shown
    assert __version__ in shown


@pytest.mark.parametrize("arguments", [["models"], ["models", "--json"], ["--version"], ["--help"]])
def test_a_full_disk_exits_2_and_a_closed_stdout_is_harmless(arguments):
    command = [sys.executable, "-m", "rankwise", *arguments]
    with Path("/dev/full").open("w") as full:
        answer = subprocess.run(command, stdout=full, stderr=subprocess.PIPE, text=True, check=False)
    assert answer.returncode == 2
    assert answer.stderr.startswith("rankwise: expected a disk that can be written, got: No space left on device; ")
    assert answer.stderr.count("\n") == 1
    closed = subprocess.run(["sh", "-c", '"$@" >&-', "sh", *command], stderr=subprocess.PIPE, text=True, check=False)
    assert (closed.returncode, closed.stderr) == (0, "")


def test_a_disk_that_refuses_an_open_file_exits_2_and_other_errors_keep_their_traceback(monkeypatch, capsys):
    replace_command(monkeypatch, fail_with(OSError(errno.EDQUOT, os.strerror(errno.EDQUOT))))
    assert main(["doctor"]) == 2
    assert os.strerror(errno.EDQUOT) in capsys.readouterr().err
    replace_command(monkeypatch, fail_with(OSError(errno.EBADF, os.strerror(errno.EBADF))))
    with pytest.raises(OSError, match="Bad file descriptor"):
        main(["doctor"])


@pytest.mark.parametrize("arguments", [["models"], ["models", "--json"], ["doctor"], ["--help"]])
def test_a_closed_pipe_is_harmless(arguments):
    process = subprocess.Popen(
        [sys.executable, "-m", "rankwise", *arguments], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    process.stdout.close()
    assert process.stderr.read() == ""
    assert process.wait() == 0
    process.stderr.close()
