"""What holds for every command, also for the next one: an example, common names, plain errors, no colour on request."""

import inspect
import json
import os
import pty
import re
import subprocess
import sys

import numpy as np
import pytest

from rankwise import __version__
from rankwise.cli import main
from rankwise.cli.commands import all_commands
from rankwise.cli.output import require_target
from rankwise.errors import InvalidInputError

COMMANDS = {command.__name__: command for command in all_commands()}
REQUIRED = {"reproduce": ["figure1"], "sweep": ["FILE"], "audit": ["MODEL"], "reduce": ["MODEL", "--rank", "4"]}


@pytest.fixture(autouse=True)
def wide_and_elsewhere(monkeypatch, tmp_path):
    monkeypatch.setenv("COLUMNS", "400")
    monkeypatch.chdir(tmp_path)


def help_of(name, capsys):
    assert main([name, "--help"]) == 0
    return capsys.readouterr().out


def option_of(command, name):
    return inspect.signature(command).parameters.get(name)


@pytest.mark.parametrize("name", COMMANDS)
def test_its_help_shows_an_example_of_itself_that_parses(name, capsys):
    shown = help_of(name, capsys)
    examples = re.findall(rf"^Example[^:]*: (rankwise {name}\b.*)$", shown, re.M)
    assert examples, f"rankwise {name} --help has no line 'Example: rankwise {name} ...'"
    options = set(re.findall(r"(?<![\w-])--?[a-z][a-z-]*", shown))
    for example in examples:
        used = set(re.findall(r"(?<![\w-])--?[a-z][a-z-]*", example.split(" > ")[0]))
        assert used <= options, f"{example}: {used - options} is no option"


@pytest.mark.parametrize("name", COMMANDS)
def test_common_options_have_common_names_and_words(name, capsys):
    command, shown = COMMANDS[name], help_of(name, capsys)
    assert option_of(command, "json").default is False, "every command answers a program"
    assert not re.search(r"--no-(json|open|dry-run|retry|csv|download|transposed)\b", shown), "nobody needs those"
    if option_of(command, "page") or name in ("demo", "report"):
        assert option_of(command, "open"), "what makes a page can open it"
    for output in ("output", "out"):
        if option_of(command, output):
            assert "-o " in shown
            assert "--out" in shown
    for spelling in ("directory", "outdir", "dest", "db", "threads", "jobs", "n_workers", "verbose"):
        assert option_of(command, spelling) is None, f"there is another name for {spelling}"


@pytest.mark.parametrize("name", COMMANDS)
def test_an_unknown_option_exits_2_without_a_traceback(name, capsys):
    assert main([name, *REQUIRED.get(name, []), "--surely-not-an-option"]) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    assert "--surely-not-an-option" in captured.err
    assert "Traceback" not in captured.err


def test_the_list_of_commands_is_one_sentence_each(capsys):
    assert main(["--help"]) == 0
    shown = capsys.readouterr().out
    for name, command in COMMANDS.items():
        first, *more = inspect.cleandoc(command.__doc__).split("\n\n")
        assert re.search(rf"{name} +{re.escape(' '.join(first.split()))}", shown)
        assert not any(" ".join(paragraph.split())[:60] in shown for paragraph in more)


def test_version(capsys):
    assert main(["--version"]) == 0
    assert capsys.readouterr().out == f"rankwise {__version__}\n"


FILES = {
    "directory": lambda path: path.mkdir(),
    "empty": lambda path: path.write_bytes(b""),
    "binary": lambda path: path.write_bytes(bytes(range(256)) * 4),
    "other": lambda path: path.write_text('{"an": "object"}'),
    "broken": lambda path: path.write_text('[1, {"'),
    "missing": lambda path: None,
    "x" * 300: lambda path: None,  # longer than any file system's names
}
READERS = [
    ["sweep", "FILE"],
    ["status", "--store", "FILE"],
    ["results", "--store", "FILE"],
    ["report", "FILE"],
    ["report", "--audit", "FILE"],
    ["report", "--need", "FILE"],
    ["report", "--reduce", "FILE"],
    ["report", "--choose", "FILE"],
    ["need", "FILE"],
    ["audit", "FILE"],
    ["reduce", "FILE", "--rank", "4", "--method", "weights"],
    ["advise", "--config", "FILE"],
    ["advise", "--audit", "FILE"],
    ["advise", "--need", "FILE"],
    ["advise", "--reduce", "FILE"],
    ["advise", "--choose", "FILE"],
    ["choose", "--cache", "512", "--text", "FILE"],
    ["models", "--config", "FILE"],
    ["reproduce", "anisotropic", "--preset", "smoke", "--vectors", "FILE"],
    ["reproduce", "language", "--preset", "smoke", "--data", "FILE"],
    ["reproduce", "images", "--preset", "smoke", "--data", "FILE"],
]


def test_every_command_that_reads_is_among_the_readers():
    assert {reader[0] for reader in READERS} == set(COMMANDS) - {"demo", "bound", "saturate", "doctor"}


@pytest.mark.parametrize("reader", READERS, ids=" ".join)
def test_files_that_cannot_be_meant_are_named_without_a_traceback(reader, tmp_path, capsys):
    for name, make in FILES.items():
        if reader[1] == "language" and name in ("binary", "other", "broken"):
            continue  # any bytes are a text
        make(tmp_path / name)
        arguments = [str(tmp_path / name) if word == "FILE" else word for word in reader]
        assert main(arguments) == 2, (name, capsys.readouterr())
        captured = capsys.readouterr()
        assert captured.out == ""
        assert name[:100] in captured.err
        assert "Traceback" not in captured.err
        assert len(captured.err.splitlines()) <= 6


WRITERS = [
    (["reproduce", "barrier", "--preset", "smoke", "--out", "FILE"], "--out"),
    (["reproduce", "figure1", "--preset", "smoke", "--out", "FILE"], "--out"),
    (["need", "keys.npy", "--figure", "FILE/need.png"], "--figure"),
    (["need", "keys.npy", "-o", "FOLDER"], "-o"),
    (["need", "keys.npy", "--page", "FOLDER"], "--page"),
    (["audit", "model", "--page", "FOLDER"], "--page"),
    (["audit", "model", "-o", "FILE/audit.json"], "-o"),
    (["report", "runs", "-o", "FOLDER.html"], "-o"),
    (["reduce", "model", "--rank", "4", "--frontier", "--text", "FILE", "--figure", "FILE/x"], "--figure"),
]


@pytest.mark.parametrize(("writer", "option"), WRITERS, ids=lambda value: value if isinstance(value, str) else None)
def test_places_that_cannot_be_written_are_named_before_any_work(writer, option, tmp_path, capsys):
    (tmp_path / "FILE").write_text("text")
    for folder in ("FOLDER", "FOLDER.html"):
        (tmp_path / folder).mkdir()
    np.save(tmp_path / "keys.npy", np.eye(8, dtype=np.float32))
    assert main(writer) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err.startswith(f"rankwise: {option}: expected a ")


def test_a_place_may_be_new_and_deep(tmp_path):
    require_target("-o", tmp_path / "a" / "b" / "c.json")
    require_target("--out", tmp_path / "a" / "b", folder=True)


def test_a_place_without_permission_is_named(tmp_path, monkeypatch):
    monkeypatch.setattr(os, "access", lambda place, mode: False)  # root, who may run this, can write anywhere
    with pytest.raises(InvalidInputError, match="can be written"):
        require_target("-o", tmp_path / "c.json")


NUMBERS = [
    ["bound", "--dim", "8", "--rank", "9", "--heads", "1"],
    ["bound", "--dim", "8", "--rank", "1", "--heads", "nan"],
    ["bound", "--dim", "8", "--rank", "one", "--heads", "1"],
    ["bound", "--dim", "8", "--rank", "1", "--heads", "1", "--error", "2"],
    ["saturate", "--length", "0"],
    ["saturate", "--length", "10", "--mask", "odd"],
    ["saturate", "--length", "10", "--mask", "window"],
    ["saturate", "--length", "10", "--deficit", "nan"],
    ["advise"],
    ["advise", "--dim", "768", "--heads", "7"],
    ["advise", "--dim", "768", "--heads", "12", "--kv-heads", "5"],
    ["reproduce", "figure9"],
    ["reproduce", "figure1", "--preset", "odd"],
    ["reproduce", "barrier", "--preset", "full"],
    ["reproduce", "figure1", "--protocol", "odd"],
    ["reproduce", "figure1", "--seeds", "0"],
    ["reproduce", "figure1", "--preset", "smoke", "--workers", "0"],
    ["reproduce", "figure1", "--preset", "smoke", "--only", "rank=99"],
    ["reproduce", "barrier", "--seeds", "2"],
    ["demo", "--workers", "0"],
    ["need"],
    ["need", "keys.npy", "--target", "2"],
    ["reduce", "model", "--rank", "small"],
    ["reduce", "model", "--keep", "2"],
    ["reduce", "model"],
]


@pytest.mark.parametrize("arguments", NUMBERS, ids=" ".join)
def test_numbers_and_choices_that_cannot_be_meant_exit_2(arguments, capsys):
    assert main(arguments) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    assert "expected" in captured.err or "invalid" in captured.err or "Required" in captured.err
    assert "Traceback" not in captured.err


def test_an_error_of_the_system_without_a_file_keeps_its_traceback(monkeypatch):
    def doctor() -> None:
        raise OSError("the machine is on fire")

    monkeypatch.setattr("rankwise.cli.doctor.doctor", doctor)
    with pytest.raises(OSError, match="on fire"):
        main(["doctor"])


def on_a_terminal(*arguments, **environment):
    """What a command writes to a terminal."""
    leader, follower = pty.openpty()
    clean = {name: value for name, value in os.environ.items() if name not in ("NO_COLOR", "FORCE_COLOR")}
    process = subprocess.Popen(
        [sys.executable, "-m", "rankwise", *arguments],
        stdout=follower,
        stderr=follower,
        stdin=subprocess.DEVNULL,
        env=clean | {"TERM": "xterm-256color", "COLUMNS": "120"} | environment,
    )
    os.close(follower)
    written = b""
    while True:
        try:
            piece = os.read(leader, 65536)
        except OSError:  # the terminal is gone with its last writer
            break
        if not piece:
            break
        written += piece
    os.close(leader)
    process.wait()
    return written.decode()


@pytest.mark.parametrize("arguments", [["--help"], ["bound", "--help"], ["models"], ["bound", "--dim", "x"]])
def test_colours_respect_no_color(arguments):
    assert "\x1b[" in on_a_terminal(*arguments), "a terminal gets some"
    plain = on_a_terminal(*arguments, NO_COLOR="1")
    assert not re.search(r"\x1b\[(3|4|9|10)\d", plain), "no foreground or background colour"


def test_need_writes_what_advise_and_report_read(tmp_path, capsys):
    keys = np.random.default_rng(0).standard_normal((400, 8)).astype(np.float32)
    np.save(tmp_path / "keys.npy", keys)
    assert main(["need", "keys.npy", "--steps", "0", "-o", "found/need.json"]) == 0
    assert capsys.readouterr().out.splitlines()[-1] == "found/need.html"
    document = json.loads((tmp_path / "found" / "need.json").read_text(), parse_constant=pytest.fail)
    assert document["format"].startswith("rankwise-need/")
    assert main(["advise", "--dim", "8", "--heads", "1", "--need", "found/need.json"]) == 0
    assert main(["report", "--need", "found/need.json", "--out", "page.html"]) == 0


@pytest.mark.parametrize(("name", "shown"), [("need", "[VECTORS]"), ("audit", "MODEL"), ("sweep", "FILE")])
def test_its_help_names_what_it_takes(name, shown, capsys):
    text = help_of(name, capsys)
    assert f"OPTIONS] {shown}" in text.splitlines()[0]
    assert "None" not in text
    assert "(default: )" not in text


def test_a_default_that_says_something_stays_in_the_help(capsys):
    text = help_of("need", capsys)
    assert "Steps of training a form; 0 keeps to the SVD. (default: 200)" in text
    assert "--similarity {cosine,dot}" in text
    assert "--length INT " in text
