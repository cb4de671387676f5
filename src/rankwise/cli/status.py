"""``rankwise status``: where the runs of a store stand, also while a sweep works on it."""

from __future__ import annotations

from pathlib import Path

from rankwise.cli.output import console, print_json


def status(*, store: Path = Path("runs"), json: bool = False) -> None:
    """How many runs are done, running, waiting or failed, what runs now, and why the failed ones failed.

    Example: rankwise status --store rankwise-demo

    Args:
        store: Directory that a sweep writes to.
        json: Print one JSON object instead of a table.
    """
    from rankwise.sweep import FAILURES, driver_of, one_line, read_store

    with read_store(store) as reader:
        counts = reader.counts()
        running = [{"run_id": row.run_id, **(row.progress or {})} for row in reader.rows("running")]
        failures = [
            {"run_id": row.run_id, "status": row.status, "attempts": row.attempts, "reason": one_line(row.reason or "")}
            for row in reader.rows(*FAILURES)
        ]
    driver = driver_of(store)
    if json:
        print_json({"counts": counts, "driver": driver, "running": running, "failures": failures})
        return
    from rich.table import Table
    from rich.text import Text

    out = console()
    table = Table("status", title=Text(f"{store}: {sum(counts.values()):,} runs"))
    table.add_column("runs", justify="right")
    for name, count in counts.items():
        table.add_row(name, f"{count:,}")
    out.print(table)
    who = f"process {driver.get('pid')} on {driver.get('host')} since {driver.get('since')}" if driver else "nobody"
    out.print(Text(f"driven by {who}"))
    for run in running:
        out.print(Text(f"running {run['run_id']}: {_told(run)}"))
    for run in failures:
        out.print(Text(f"{run['status']} {run['run_id']} after {run['attempts']} attempts: {run['reason']}"))


def _told(progress: dict[str, object]) -> str:
    """What a run says of itself, in its own words but for rounding: ``step 120 of 1000, error 0.3134``."""
    counted = {"step", "of"} <= progress.keys()
    words = [f"step {progress['step']} of {progress['of']}"] if counted else []
    for name, value in progress.items():
        if name != "run_id" and not (counted and name in ("step", "of")):
            words.append(f"{name} {value:.4g}" if isinstance(value, float) else f"{name} {value}")
    return ", ".join(words)
