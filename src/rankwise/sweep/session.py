"""A sweep from a command line or a recipe: store, signals, workers and progress put together, and how it ends."""

from __future__ import annotations

from pathlib import Path

from rankwise.errors import InterruptedSweepError, RunsFailedError
from rankwise.spec import ImagesSpec, TextSpec
from rankwise.sweep.engines.protocol import TRAIN
from rankwise.sweep.engines.where import Where
from rankwise.sweep.plan import Plan, on_device
from rankwise.sweep.printable import one_line
from rankwise.sweep.progress import watcher
from rankwise.sweep.runner import Outcome, run_plan
from rankwise.sweep.signals import stop_on_signals
from rankwise.sweep.store import WORTH_RETRYING, open_store


def run_here(
    plan: Plan,
    directory: Path,
    *,
    where: Where | None = None,
    workers: int | None = None,
    retry: bool = False,
    entry: str = TRAIN,
) -> Outcome:
    """Drive ``plan`` from this process with its store in ``directory``, showing progress on stderr.

    The runs are executed where ``where`` says: on this machine if it says nothing. Data that their tasks read is read
    once here first: what is missing or unusable is refused before anything is trained.
    """
    require_data(plan)
    where = where or Where()
    engine = where.open(directory / "logs", entry=entry, workers=workers)
    plan = plan if where.device is None else on_device(plan, where.device)
    with open_store(directory) as store, stop_on_signals() as stop:
        return run_plan(plan, store, engine, watcher=watcher(), stop=stop, retry=retry)


def require_data(plan: Plan) -> None:
    """That every text and every set of images of ``plan`` is there, whole, and the one its spec was written for."""
    tasks = {run.spec.task for run in plan.runs if isinstance(run.spec.task, TextSpec | ImagesSpec)}
    if tasks:
        from rankwise.train.build import build_task

        for task in tasks:
            build_task(task)


def raise_for_failures(plan: Plan, outcome: Outcome, directory: Path) -> None:
    """Nothing if every run is done; otherwise the error that says so, each failure listed with its cause."""
    labels = {run.id: run.label for run in plan.runs}
    lines = []
    for row in outcome.failures:
        tried = f"{row.attempts} attempt{'s' * (row.attempts != 1)}"
        lines.append(f"  {row.status}: {labels[row.run_id]} (run {row.run_id}, {tried}): {one_line(row.reason or '')}")
    total = len(plan.runs)
    if outcome.interrupted:
        left = outcome.counts.get("pending", 0)
        lines = [f"stopped with {left} of {total} runs left; the same command continues", *lines]
        raise InterruptedSweepError("\n".join(lines))
    if outcome.failures:
        hint = f"tracebacks: rankwise results --store {directory} --json"
        if any(row.status in WORTH_RETRYING for row in outcome.failures):
            hint += "; try them again: --retry"
        raise RunsFailedError("\n".join([f"{len(outcome.failures)} of {total} runs failed ({hint})", *lines]))
