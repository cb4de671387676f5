"""Injection: hostile names and messages stay text in tables, CSV, JSON, on the terminal and on pages, which name no
home of a user. (The HTML report has tests of its own.)"""

import csv
import io
import json
import os

import numpy as np
import pytest

from rankwise.cli import main

HOSTILE = ["</script><script>alert(1)</script>", "<img src=x onerror=alert(1)>", "=cmd()", "../../etc/passwd", "[red]x"]


def test_injection(rankwise):
    rankwise.write_sweep(*(("fail", text) for text in HOSTILE), ("fail", "+1"))
    code, _, err = rankwise.run()
    assert code == 1
    for text in HOSTILE:
        assert f"RuntimeError: {text}" in err
    _, out, _ = rankwise.run("results", "--store", "store", "--csv")
    rows = list(csv.reader(io.StringIO(out)))
    for row in rows[1:]:
        for cell in row:
            assert not cell.startswith(("=", "@", "+")), cell
    _, out, _ = rankwise.run("results", "--store", "store", "--json")
    assert [row["reason"] for row in json.loads(out)] == [f"RuntimeError: {text}" for text in [*HOSTILE, "+1"]]


def test_escape_sequences_in_messages_do_not_reach_the_terminal(rankwise):
    """A spec cannot hold them (see the malformed specs), but what a run raises can."""
    rankwise.write_sweep("colourful")
    _, _, err = rankwise.run()
    assert "\x1b" not in err
    assert "RuntimeError: red" in err
    for form in ((), ("--csv",)):
        _, out, _ = rankwise.run("results", "--store", "store", *form)
        assert "\x1b" not in out
    _, out, _ = rankwise.run("status", "--store", "store")
    assert "\x1b" not in out
    assert "RuntimeError: red" in out


NAMES = (
    "<img src=x onerror=alert(1)>", "\u202egnp\u2066", "=cmd()", "[red]x", "a\x1b[31mb", "n\u200f\n\r\tn", "x" * 240,
    os.fsdecode(b"caf\xe9"), "'; rm -rf ~; '", "{{7*7}}", "&lt;b&gt;", "\ufeff", "%s%n", "$(id)", "`id`",
)  # fmt: skip


@pytest.mark.faults
def test_names_of_files_stay_text_on_pages_and_terminals(tmp_path, monkeypatch, capsys, record_property):
    home = tmp_path / "of" / "alice"
    home.mkdir(parents=True)
    monkeypatch.setenv("HOME", str(home))
    page, document = tmp_path / "p.html", tmp_path / "n.json"
    vectors = np.random.default_rng(0).normal(size=(60, 4)).astype(np.float32)
    for name in NAMES:
        np.save(home / f"{name}.npy", vectors)
        assert main(["need", str(home / f"{name}.npy"), "--steps", "0", "-o", str(document), "--page", str(page)]) == 0
        told = capsys.readouterr().out.replace(str(document), "").replace(str(page), "")
        shown = page.read_text(encoding="utf-8")
        assert shown.count("<script>") == 1
        assert "<img" not in shown
        for text in (told, shown.replace("\n", "").replace("\t", "")):
            assert all(letter.isprintable() or letter == "\n" for letter in text)
        assert "alice" not in shown
        assert main(["report", "--need", str(document), "-o", str(page)]) == 0
        capsys.readouterr()
    record_property("tries", len(NAMES))
