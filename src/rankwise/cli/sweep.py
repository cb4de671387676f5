"""``rankwise sweep``: train every run of a file, or continue where the last attempt stopped."""

from __future__ import annotations

from pathlib import Path

import tyro

from rankwise.cli.dry_run import show_plan
from rankwise.cli.output import print_json
from rankwise.errors import require_int
from rankwise.sweep import Where


def sweep(
    file: tyro.conf.Positional[Path],
    /,
    *,
    store: Path = Path("runs"),
    workers: int | None = None,
    retry: bool = False,
    dry_run: bool = False,
    json: bool = False,
    where: tyro.conf.OmitArgPrefixes[Where] = Where(),  # noqa: B008 (frozen)
) -> None:
    """Train every run of a sweep. The same command again continues: finished runs are never trained twice.

    Ctrl-C once lets running runs checkpoint, twice stops at once; either way nothing finished is lost.

    Example: rankwise sweep grid.toml --dry-run, then without --dry-run

    Args:
        file: The sweep, as TOML or JSON: a base run and axes to vary it along, or a list of runs.
        store: Directory that keeps results and checkpoints.
        workers: How many runs at a time; one for every core if not given.
        retry: Also try again what failed, timed out or ran out of memory before.
        dry_run: Show the runs, their parameters and the estimated time; train and write nothing.
        json: Print one JSON object instead of text.
        where: Where the runs are executed.
    """
    from rankwise.spec import SweepSpec, read_spec
    from rankwise.sweep import plan_sweep

    if workers is not None:
        require_int("--workers", workers, minimum=1)
    where.check()
    plan = plan_sweep(read_spec(SweepSpec, file))
    if dry_run:
        show_plan(plan, store, workers=workers, json=json, retry=retry)
        return
    from rankwise.sweep import raise_for_failures, result_table, run_here

    outcome = run_here(plan, store, where=where, workers=workers, retry=retry)
    if json:
        print_json({"name": plan.name, "counts": outcome.counts, "failures": result_table(outcome.failures)})
    raise_for_failures(plan, outcome, store)
    if not json:
        print(f"{len(plan.runs)} runs done; the table: rankwise results --store {store}")
