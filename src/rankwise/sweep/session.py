"""A sweep from a command line or a recipe: store, signals, workers and progress put together, and how it ends."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from pathlib import Path

from rankwise.errors import CorruptStoreError, InterruptedSweepError, RunsFailedError
from rankwise.spec import RunSpec
from rankwise.sweep.database import database_file
from rankwise.sweep.engines.engine import TRAIN
from rankwise.sweep.engines.where import Where
from rankwise.sweep.plain_text import one_line
from rankwise.sweep.plan import Plan, on_device
from rankwise.sweep.progress import watcher
from rankwise.sweep.runner import Outcome, run_plan
from rankwise.sweep.signals import stop_on_signals
from rankwise.sweep.store import OUTCOMES, WORTH_RETRYING, Status, is_to_do, open_store, read_store


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

    The runs are executed where ``where`` says: on this machine if it says nothing. Data that the runs left to do need
    is read once here first, and a GPU they name is looked for: what is missing or unusable is refused before anything
    is trained.
    """
    where = where or Where()
    engine = where.open(directory / "logs", entry=entry, workers=workers)
    plan = plan if where.device is None else on_device(plan, where.device)
    left = _left_to_do(plan, directory, retry=retry)
    require_data(left)
    if where.engine == "local":
        _require_device(left)
    with open_store(directory) as store, stop_on_signals() as stop:
        outcome = run_plan(plan, store, engine, watcher=watcher(), stop=stop, retry=retry)
    require_kept(plan, outcome, directory)
    return outcome


def require_kept(plan: Plan, outcome: Outcome, directory: Path) -> None:
    """That the store, opened anew by its path, has every outcome that was counted; "done" is said of what is there."""
    path = database_file(directory)
    if not path.is_file():
        raise CorruptStoreError(f"{path}: deleted while the sweep ran; its results are lost: give the command again")
    with read_store(directory) as reader:
        reader.check_results()
        statuses = reader.statuses()
    own = Counter(statuses[run.id] for run in plan.runs if run.id in statuses)
    for status, count in outcome.counts.items():
        if status in OUTCOMES and own[status] != count:
            raise CorruptStoreError(
                f"{path}: expected {count} runs {status}, which the sweep counted, got {own[status]} in the file; it "
                f"was replaced or damaged meanwhile: give the command again to train what is missing"
            )


def _left_to_do(plan: Plan, directory: Path, *, retry: bool) -> list[RunSpec]:
    statuses: dict[str, Status] = {}
    if database_file(directory).exists():
        with read_store(directory) as reader:
            statuses = reader.statuses()
    return [run.spec for run in plan.runs if is_to_do(statuses.get(run.id), retry=retry)]


def require_data(runs: Iterable[RunSpec]) -> None:
    """That every file of texts, images or vectors is there, whole, and the one its spec was written for."""
    tasks = {run.task for run in runs if run.task.reads_files}
    if tasks:
        from rankwise.tasks import build_task

        for task in tasks:
            build_task(task)


def _require_device(runs: Iterable[RunSpec]) -> None:
    """That this machine has the device that the runs name; what is always there is not looked for."""
    if any(run.device == "cuda" for run in runs):
        from rankwise.train import pick_device

        pick_device("cuda")


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
