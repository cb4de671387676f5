"""What ``--dry-run`` shows, for every command that trains: the runs, their parameters, the estimated time."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

from rankwise.cli.output import console, print_json

if TYPE_CHECKING:
    from rankwise.sweep import Plan


def show_plan(plan: Plan, store: Path, *, workers: int | None, json: bool, retry: bool = False) -> None:
    """The plan with its costs; reads the store if there is one, writes nothing. ``retry``: what failed is to do."""
    from rankwise.sweep import (
        Status,
        corrected,
        database_file,
        is_to_do,
        measured_rate,
        read_store,
        run_seconds,
        usable_cores,
        wall_seconds,
    )

    rate, statuses = measured_rate(), dict[str, Status]()
    if database_file(store).exists():
        with read_store(store) as reader:
            statuses = reader.statuses()
            rate = corrected(rate, reader.rows("done"))
    estimates = {run.id: run_seconds(run.spec, rate) for run in plan.runs}
    left = [estimates[run.id] for run in plan.runs if is_to_do(statuses.get(run.id), retry=retry)]
    seats = workers or usable_cores()
    seconds = wall_seconds(left, seats)
    if json:
        runs = [
            {
                "run_id": run.id,
                "label": run.label,
                "status": statuses.get(run.id, "new"),
                "parameters": run.parameters,
                "operations": run.flops,
                "seconds": estimates[run.id],
            }
            for run in plan.runs
        ]
        totals = {"to_do": len(left), "merged": plan.merged, "workers": seats, "seconds": seconds}
        print_json({"name": plan.name, **totals, "rate": asdict(rate), "runs": runs})
        return
    from rich.table import Table
    from rich.text import Text

    from rankwise.sweep import duration

    table = Table("run", "varies", "status", title=Text(plan.name))
    for column in ("parameters", "operations", "time"):
        table.add_column(column, justify="right")
    for run in plan.runs:
        cost = (f"{run.parameters:,}", f"{run.flops:.2e}", duration(estimates[run.id]))
        table.add_row(run.id, Text(run.label), statuses.get(run.id, "new"), *cost)
    equal = f" ({plan.merged} equal ones merged)" if plan.merged else ""
    reading = (
        f"{len(plan.runs)} runs{equal}, {len(left)} to do: about {duration(seconds)} with {seats} workers\n"
        f"time = operations / rate + calls * {rate.call_seconds * 1e6:.1f} us + scores * "
        f"{rate.score_seconds * 1e9:.1f} ns (formulas: rankwise.sweep.run_time)\n"
        f"rate = {rate.flops / 1e9:.1f} GFLOP/s per worker: {rate.source}"
    )
    out = console()
    out.print(table)
    out.print(Text(reading))
