"""The store as a table: one row per run, one column per key of its spec and of its result."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Iterable, Sequence
from typing import Any

from rankwise.sweep.plain_text import spreadsheet_cell
from rankwise.sweep.plan import flatten, varying_keys
from rankwise.sweep.store import Row


def result_table(rows: Iterable[Row]) -> list[dict[str, Any]]:
    """Flat rows: run_id, status, the spec's keys (``model.rank``), the result's keys (``result.error``), bookkeeping.

    Rows come in the order the runs were planned. Everything up to ``reason`` is decided by the specs alone: two stores
    of the same sweep agree there, however often either was interrupted.
    """
    return [
        {
            "run_id": row.run_id,
            "status": row.status,
            **dict(flatten(row.spec)),
            **dict(flatten(row.result or {}, "result.")),
            "reason": row.reason,
            "attempts": row.attempts,
            "seconds": row.seconds,
        }
        for row in rows
    ]


def columns_of(table: Sequence[dict[str, Any]]) -> list[str]:
    """All columns; those that only some rows have stand where such a row has them."""
    columns = dict.fromkeys(key for row in table for key in row)
    last = ("reason", "attempts", "seconds")
    return [name for name in columns if name not in last] + [name for name in last if name in columns]


def telling_columns(table: Sequence[dict[str, Any]]) -> list[str]:
    """The few columns for a screen: what differs between runs, the error, and how each ended."""
    specs = [{k: v for k, v in row.items() if "." in k and not k.startswith("result.")} for row in table]
    seeds = [{k: v for k, v in row.items() if k in ("seed", "protocol", "dtype")} for row in table]
    errors = [name for name in ("result.error", "result.error_se") if any(name in row for row in table)]
    return ["run_id", "status", *varying_keys(specs), *varying_keys(seeds), *errors, "attempts", "seconds"]


def to_csv(table: Sequence[dict[str, Any]]) -> str:
    """The whole table as CSV (RFC 4180): safe to open in a spreadsheet, lists as JSON."""
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\r\n")
    columns = columns_of(table)
    writer.writerow(map(spreadsheet_cell, columns))
    for row in table:
        cells = (row.get(name) for name in columns)
        writer.writerow(spreadsheet_cell(json.dumps(c) if isinstance(c, list) else c) for c in cells)
    return out.getvalue()
