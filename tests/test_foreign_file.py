"""The gate for files that strangers wrote."""

import os

import numpy as np
import pytest

from rankwise.cli import main
from rankwise.errors import InvalidInputError
from rankwise.foreign_file import open_regular, plain_name, read_regular


@pytest.mark.parametrize("kind", ["pipe", "folder", "device"])
def test_only_regular_files_are_opened(tmp_path, kind):
    path = tmp_path / "x"
    if kind == "device":
        path.symlink_to("/dev/zero")
    else:
        (os.mkfifo if kind == "pipe" else os.mkdir)(path)
    with pytest.raises(InvalidInputError, match="expected a thing, got something that is not a regular file"):
        open_regular(path, "a thing")


@pytest.mark.parametrize("name", ["a\0b", "x" * 300])
def test_names_that_cannot_be_are_messages(tmp_path, name):
    with pytest.raises(InvalidInputError, match="expected a thing, got"):
        open_regular(tmp_path / name, "a thing")


def test_sizes_are_compared_before_anything_is_read(tmp_path):
    path = tmp_path / "sparse"
    with path.open("wb") as file:
        file.truncate(2**40)
    with pytest.raises(InvalidInputError, match="of at most 1 MB, got a larger file"):
        read_regular(path, "a thing", limit=2**20)
    path.write_bytes(b"abc")
    assert read_regular(path, "a thing", limit=3) == b"abc"


def test_names_are_made_plain():
    assert plain_name("a b") == "a b"
    assert plain_name("\u202egnp.exe\udcff\x1b[0m") == "\ufffdgnp.exe\ufffd\ufffd[0m"
    long = plain_name("a" * 20_000 + ".npy")
    assert len(long) <= 200
    assert long.endswith(".npy")


COMMANDS = {
    "need": ["need", "{}.npy"],
    "need of safetensors": ["need", "{}.safetensors"],
    "sweep": ["sweep", "{}.toml", "--dry-run"],
    "audit of a file": ["audit", "{}.safetensors"],
    "audit's config": ["audit", "whole.safetensors", "--config", "{}.json"],
    "advise's audit": ["advise", "--audit", "{}.json"],
    "report's need": ["report", "--need", "{}.json", "-o", "page.html"],
    "results": ["results", "--store", "{}"],
}


@pytest.mark.parametrize("command", COMMANDS)
def test_no_command_waits_for_a_pipe(command, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    words = COMMANDS[command]
    for word in words:
        if "{}" in word:
            place = tmp_path / word.format("x")
            if command == "results":
                place.mkdir()
                place = place / "runs.db"
            os.mkfifo(place)
    from safetensors.numpy import save_file

    save_file({"a": np.ones((2, 2), np.float32)}, tmp_path / "whole.safetensors")
    assert main([word.format("x") for word in words]) == (3 if command == "results" else 2)
    assert "not a regular file" in capsys.readouterr().err


def test_a_name_that_is_not_utf_8_is_answered(tmp_path, monkeypatch, capsysbinary):
    name = os.fsdecode(b"caf\xe9.npy")
    np.save(tmp_path / name, np.random.default_rng(0).normal(size=(300, 4)).astype(np.float32))
    page = tmp_path / "p.html"
    assert (
        main(["need", str(tmp_path / name), "--steps", "0", "--page", str(page), "-o", str(tmp_path / "n.json")]) == 0
    )
    assert r"caf\ufffd.npy" in page.read_text(encoding="utf-8")
    assert main(["report", "--need", str(tmp_path / "n.json"), "-o", str(page)]) == 0


@pytest.mark.parametrize("shape", [(1,) * 65, (1,) * 33, (0, 10**12), (10**9, 0)])
def test_headers_of_npy_files_that_claim_the_impossible(tmp_path, shape, capsys):
    header = f"{{'descr': '<f4', 'fortran_order': False, 'shape': {shape}, }}".encode()
    header += b" " * (-(10 + len(header) + 1) % 64) + b"\n"
    data = b"\x93NUMPY\x01\x00" + len(header).to_bytes(2, "little") + header + (b"" if 0 in shape else b"\0" * 4)
    (tmp_path / "x.npy").write_bytes(data)
    assert main(["need", str(tmp_path / "x.npy")]) == 2
    assert "Traceback" not in capsys.readouterr().err


def test_null_in_a_config_means_absent():
    from rankwise.models.layouts.rope import read_rope

    nulls = dict.fromkeys(("partial_rotary_factor", "rope_theta", "rope_scaling", "rope_parameters"))
    np.testing.assert_array_equal(read_rope(nulls, 8).frequencies, read_rope({}, 8).frequencies)
