"""Injection: hostile names and messages stay text in tables, CSV, JSON and on the terminal. (The HTML
report has tests of its own.)"""

import csv
import io
import json

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
