import csv
import io

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fake_runs import instant
from rankwise.sweep.plain_text import one_line, printable, spreadsheet_cell
from rankwise.sweep.results import columns_of, result_table, telling_columns, to_csv
from rankwise.sweep.store import read_store
from spec_examples import seeds_sweep


def test_the_table_has_the_spec_the_result_and_how_it_ended(run_sweep, tmp_path):
    run_sweep(seeds_sweep(3, model={"dim": 8, "heads": 4, "rank": 2}))
    with read_store(tmp_path / "store") as store:
        rows = list(store.rows())
    table = result_table(rows)
    assert [row["seed"] for row in table] == [0, 1, 2]
    assert table[0]["model.rank"] == 2
    assert [row["result.error"] for row in table] == [instant(row.spec, None)["error"] for row in rows]
    assert telling_columns(table) == ["run_id", "status", "seed", "result.error", "attempts", "seconds"]
    read = list(csv.DictReader(io.StringIO(to_csv(table))))
    assert [row["result.error"] for row in read] == [repr(row["result.error"]) for row in table]
    assert read[0]["result.curve"] == "[1.0, 0.5]"
    assert read[0]["model.bias"] == "true"
    assert list(read[0]) == columns_of(table)


def test_columns_that_only_some_rows_have_come_before_the_bookkeeping():
    table = [{"run_id": "a", "reason": "x", "seconds": 1}, {"run_id": "b", "result.error": 2, "reason": None}]
    assert columns_of(table) == ["run_id", "result.error", "reason", "seconds"]
    assert to_csv(table) == "run_id,result.error,reason,seconds\r\na,,x,1\r\nb,2,,\r\n"
    assert to_csv([]) == "\r\n"


@pytest.mark.parametrize(
    ("value", "cell"),
    [
        ("=cmd()", "'=cmd()"),
        ("+1+cmd|' /C calc'!A0", "'+1+cmd|' /C calc'!A0"),
        ("-2+3", "'-2+3"),
        ("@SUM(A1)", "'@SUM(A1)"),
        ("\t=1", "'\t=1"),
        ("\x1b[31m=1", "'=1"),
        ("-2.5e-3", "-2.5e-3"),
        ("plain", "plain"),
        ("a\x1b]0;title\x07b\x1b[2Jc\x00", "abc"),
        (-0.5, "-0.5"),
        (None, ""),
        (True, "true"),
    ],
)
def test_cells_are_safe_in_spreadsheets(value, cell):
    assert spreadsheet_cell(value) == cell


@given(st.text())
def test_no_text_becomes_a_formula_or_an_escape(text):
    cell = spreadsheet_cell(text)
    assert "\x1b" not in cell
    if cell.lstrip().startswith(("=", "+", "-", "@")):
        float(cell)


@given(st.text(st.sampled_from("\x1b\x9b[]0;31mJ\x07\\ab \n")))
def test_nothing_printable_is_lost_to_a_terminal(text):
    clean = printable(text)
    assert all(c.isprintable() or c in "\n\t" for c in clean)
    assert printable(clean) == clean


def test_one_line_is_the_first_that_says_something():
    assert one_line("\n  \n first \nsecond") == "first"
    assert one_line("") == ""
    assert one_line("x" * 400) == "x" * 297 + "..."
