import io

import pytest
from rich.console import Console

from rankwise.spec import MatchSpec, SweepSpec
from rankwise.sweep import progress
from rankwise.sweep.plan import plan_sweep
from rankwise.sweep.progress import Lines, LiveTable, Tally, duration
from spec_examples import seeds_sweep, small_run


@pytest.fixture
def clock(monkeypatch):
    """A clock that stands still until a test moves it."""
    now = [100.0]
    monkeypatch.setattr(progress.time, "monotonic", lambda: now[0])
    return now


@pytest.fixture
def plan():
    return plan_sweep(seeds_sweep(4))


@pytest.fixture
def tally(plan, clock):
    return Tally(plan, {run.id: "pending" for run in plan.runs})


def test_time_left_is_work_left_over_speed_so_far(tally, plan, clock):
    assert tally.seconds_left() is None
    tally.started(plan.runs[0])
    clock[0] += 10
    tally.ended(plan.runs[0], "done", 0.5)
    assert tally.seconds_left() == pytest.approx(30)
    tally.started(plan.runs[1])
    tally.progressed(plan.runs[1].id, {"step": 0, "of": 100})
    clock[0] += 5
    tally.progressed(plan.runs[1].id, {"step": 50, "of": 100})
    assert tally.seconds_left() == pytest.approx(25)


def test_errors_of_different_tasks_are_not_compared(clock):
    runs = (small_run(), small_run(task=MatchSpec(name="match2", points=4)))
    plan = plan_sweep(SweepSpec(name="two tasks", runs=runs))
    tally = Tally(plan, {run.id: "pending" for run in plan.runs})
    for run in plan.runs:
        tally.started(run)
        tally.ended(run, "done", 0.5)
    assert tally.line() == f"{len(plan.runs)} of {len(plan.runs)} done"


def test_work_done_before_a_resume_is_no_speed(tally, plan, clock):
    """A run resumed at half its steps that ends after 10 s has done half a run's work in them."""
    tally.started(plan.runs[0])
    tally.progressed(plan.runs[0].id, {"step": 50, "of": 100})
    clock[0] += 10
    tally.ended(plan.runs[0], "done", 0.5)
    assert tally.seconds_left() == pytest.approx(60)


def test_the_line_counts_what_happened(tally, plan):
    for run, status, error in zip(plan.runs, ("done", "diverged", "pending"), (0.5, None, None), strict=False):
        tally.started(run)
        tally.ended(run, status, error)
    tally.started(plan.runs[3])
    assert tally.line().startswith("1 of 4 done, 1 running, 1 failed, lowest error 0.5 (seed=0), time left")
    tally.stopping = True
    assert tally.line().endswith("stopping")


def test_a_sweep_without_reported_errors_has_a_line_too(tally, plan, clock):
    tally.started(plan.runs[0])
    tally.ended(plan.runs[0], "done", None)
    assert tally.line() == "1 of 4 done, time left unknown"


def test_lines_come_now_and_then(tally, clock):
    out = io.StringIO()
    lines = Lines(Console(file=out, width=40), every=5)
    for _ in range(20):
        lines.update(tally)
        clock[0] += 1
    lines.say("a [bold]failure[/bold] that is rather longer than forty characters")
    lines.close(tally)
    shown = out.getvalue().splitlines()
    assert len(shown) == 4 + 1 + 1
    assert shown[4] == "a [bold]failure[/bold] that is rather longer than forty characters"


def test_the_live_table_shows_what_runs(tally, plan, clock):
    out = io.StringIO()
    live = LiveTable(Console(file=out, force_terminal=True, width=100))
    tally.started(plan.runs[2])
    tally.progressed(plan.runs[2].id, {"step": 3, "of": 7, "error": 0.123456})
    live.update(tally)
    live.close(tally)
    shown = out.getvalue()
    assert "seed=2" in shown
    assert "3/7" in shown
    assert "0.1235" in shown


class Gone(io.StringIO):
    """A terminal or pipe whose reader has left."""

    def write(self, text):
        raise BrokenPipeError(32, "Broken pipe")


@pytest.mark.parametrize("make", [Lines, LiveTable])
def test_a_reader_who_leaves_does_not_stop_the_sweep(make, tally, clock):
    console = progress._QuietWhenGone(file=Gone(), force_terminal=make is LiveTable)
    watcher = make(console)
    watcher.update(tally)
    watcher.say("still here")
    watcher.close(tally)
    assert console.quiet


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (None, "unknown"),
        (0.04, "0.0 s"),
        (9.96, "10.0 s"),
        (59.4, "59 s"),
        (93, "1 min 33 s"),
        (3599.7, "1 h 0 min"),
        (7260, "2 h 1 min"),
        (200_000, "2.3 days"),
    ],
)
def test_durations_read_well(seconds, text):
    assert duration(seconds) == text
