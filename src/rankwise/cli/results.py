"""``rankwise results``: every run of a store with its spec, its result and how it ended."""

from __future__ import annotations

import sys
from pathlib import Path

from rankwise.cli.output import console, print_json
from rankwise.errors import InvalidInputError


def results(*, store: Path = Path("runs"), csv: bool = False, json: bool = False) -> None:
    """Every run with its spec, its result and how it ended; on a screen only what differs, with --csv or --json all.

    Example: rankwise results --store rankwise-demo --csv > runs.csv

    Args:
        store: Directory that a sweep writes to.
        csv: Print CSV: all columns, one row per run, safe to open in a spreadsheet.
        json: Print JSON: all columns, with tracebacks, versions and machine of every run.
    """
    from rankwise.sweep import printable, read_store, result_table, telling_columns, to_csv

    if csv and json:
        raise InvalidInputError("--csv: expected one of --csv and --json, got both")
    with read_store(store) as reader:
        rows = list(reader.rows())
    if json:
        print_json([vars(row) for row in rows])
        return
    table = result_table(rows)
    if csv:
        sys.stdout.write(to_csv(table))
        return
    from rich.markup import escape
    from rich.table import Table
    from rich.text import Text

    columns = telling_columns(table)
    shown = Table(*(escape(name.rpartition(".")[2]) for name in columns))
    for row in table:
        shown.add_row(*(Text(printable(_cell(row.get(name)))) for name in columns))
    console().print(shown)


def _cell(value: object) -> str:
    if value is None:
        return ""
    return f"{value:.4g}" if isinstance(value, float) else str(value)
