"""What every engine promises (``rankwise.sweep.engines.engine``), asked of each of them."""

import os
import time
from collections import Counter

import pytest

from processes import alive, wait_until_gone
from rankwise.errors import EngineError
from rankwise.spec import plain
from rankwise.sweep.engines.engine import (
    CLOSING,
    Blocked,
    Checkpointed,
    Failed,
    Finished,
    Job,
    Lost,
    Progress,
    Returned,
    Started,
)
from rankwise.sweep.engines.local import LocalEngine
from rankwise.sweep.engines.ray import RayEngine
from spec_examples import small_run


def local(directory, **options):
    return LocalEngine(directory / "logs", **{"entry": "fake_runs:entry", "workers": 2, "grace": 1.0} | options)


def on_ray(directory, **options):
    return RayEngine(directory / "logs", **{"entry": "fake_runs:entry", "workers": 2, "grace": 1.0} | options)


ENGINES = {"local": local, "ray": on_ray}


@pytest.fixture(params=ENGINES)
def make_engine(request, tmp_path):
    """A function that makes an engine of the kind under test; all are closed in the end."""
    made = []
    if request.param == "ray":
        request.getfixturevalue("local_ray")  # one Ray for all tests: starting it takes seconds

    def make(**options):
        made.append(ENGINES[request.param](tmp_path, **options))
        return made[-1]

    yield make
    for engine in made:
        engine.close()


@pytest.fixture
def job(tmp_path):
    """A function that makes a job which behaves as its tags say."""

    def make(*tags, seed=0, time_limit=None, steps=20):
        run = small_run(seed=seed, tags=tags, optim={"lr": 0.1, "steps": steps, "batch": 4})
        name = f"{'-'.join(tags)}-{seed}"
        return Job(run_id=name, spec=plain(run), checkpoint_dir=tmp_path / name, time_limit=time_limit)

    return make


def drain(engine, jobs, seconds=60.0):
    """All events until each job has closed, fed to the engine as the driver does it."""
    events, waiting, open_jobs = [], list(jobs), 0
    until = time.monotonic() + seconds
    while waiting or open_jobs:
        assert time.monotonic() < until, f"jobs still open after {seconds} s: {events[-3:]}"
        while waiting and open_jobs < engine.slots:
            engine.submit(waiting.pop(0))
            open_jobs += 1
        new = engine.events(0.2)
        events += new
        open_jobs -= sum(isinstance(event, CLOSING) for event in new)
    return events


def closing(events):
    return {event.run_id: event for event in events if isinstance(event, CLOSING)}


def test_each_job_starts_once_and_closes_once(make_engine, job):
    jobs = [job(seed=seed) for seed in range(25)]
    events = drain(make_engine(), jobs)
    for kind in (Started, CLOSING):
        assert Counter(e.run_id for e in events if isinstance(e, kind)) == {j.run_id: 1 for j in jobs}
    for event in events:
        assert isinstance(event, Started | Finished)
    first = next(event for event in events if isinstance(event, Started))
    assert "python" in first.versions
    assert first.machine["cores"] == os.cpu_count()


def test_results_depend_neither_on_order_nor_on_the_number_of_workers(make_engine, job):
    def table(engine, jobs):
        return {name: event.result for name, event in closing(drain(engine, jobs)).items()}

    jobs = [job(seed=seed) for seed in range(12)]
    forward = table(make_engine(workers=1), jobs)
    assert len({result["error"] for result in forward.values()}) == 12
    assert table(make_engine(workers=3), jobs[::-1]) == forward


@pytest.mark.parametrize(
    ("tags", "reason"),
    [
        (("die",), "the worker was ended by SIGKILL"),
        (("leave",), "the worker left with exit code 7"),
        (("segfault",), "the worker was ended by SIGSEGV"),
    ],
)
def test_a_dead_worker_loses_its_own_job_alone(make_engine, job, tags, reason):
    bad = job(*tags)
    events = closing(drain(make_engine(), [bad, *(job(seed=seed) for seed in range(6))]))
    lost = events.pop(bad.run_id)
    assert isinstance(lost, Lost)
    assert reason in lost.reason
    if tags != ("leave",):
        assert ("about to die" if tags == ("die",) else "Segmentation fault") in lost.log
    assert all(isinstance(event, Finished) for event in events.values())


@pytest.mark.parametrize(
    ("behaviour", "status", "reason"),
    [
        ("fail", "failed", "RuntimeError: no such luck"),
        ("diverge", "diverged", "diverged at step 17: the loss is inf"),
        ("not_json", "failed", "ValueError: Out of range float values are not JSON compliant"),
        ("not_a_table", "failed", "TypeError: expected the entry point to return a dictionary, got int"),
        ("out_of_memory", "oom", "MemoryError"),
        ("no_such_behaviour", "failed", "KeyError: 'no_such_behaviour'"),
    ],
)
def test_what_a_job_raises_is_its_outcome(make_engine, job, behaviour, status, reason):
    events = closing(drain(make_engine(workers=1), [job(behaviour), job(seed=1)]))
    failed = events[f"{behaviour}-0"]
    assert isinstance(failed, Failed)
    assert failed.status == status
    assert failed.reason.startswith(reason)
    assert ("fake_runs.py" in failed.traceback) == (behaviour not in ("diverge", "not_json", "not_a_table"))
    assert isinstance(events["-1"], Finished)


def test_a_full_disk_is_not_the_jobs_fault(make_engine, job):
    (event,) = closing(drain(make_engine(), [job("no_space")])).values()
    assert isinstance(event, Blocked)
    assert event.reason.endswith("weights.safetensors: No space left on device")


def test_a_job_over_its_time_is_asked_then_killed(make_engine, job):
    jobs = [job("slow", "0.05", time_limit=0.3, steps=1000), job("hang", time_limit=0.3), job(seed=1, time_limit=30)]
    events = closing(drain(make_engine(grace=0.5), jobs))
    for name in ("slow-0.05-0", "hang-0"):
        assert isinstance(events[name], Failed)
        assert events[name].status == "timeout"
        assert events[name].reason == "still running after its time limit of 0.3 s"
    assert (jobs[0].checkpoint_dir / "state").exists()
    assert isinstance(events["-1"], Finished)


def test_stop_returns_what_is_running_and_what_is_waiting(make_engine, job):
    engine = make_engine(workers=2, grace=0.5)
    jobs = [job("slow", steps=10_000), job("hang"), job(seed=1), job(seed=2)]
    for one in jobs:
        engine.submit(one)
    events = []
    while sum(isinstance(event, Started) for event in events) < 2 or not (jobs[1].checkpoint_dir / "calls").exists():
        events += engine.events(0.2)
    engine.stop()
    until = time.monotonic() + 20
    while len(closing(events)) < 4:
        assert time.monotonic() < until
        events += engine.events(0.2)
    assert all(isinstance(event, Returned) for event in closing(events).values())
    assert int((jobs[0].checkpoint_dir / "state").read_text().split()[0]) >= 0
    with pytest.raises(EngineError, match="asked to stop"):
        engine.submit(job(seed=3))


def test_a_stopped_job_continues_where_it_was(make_engine, job):
    straight = job("slow", "0", seed=5, steps=1500)
    (expected,) = closing(drain(make_engine(), [straight])).values()

    interrupted = job("slow", "0.002", seed=5, steps=1500)
    engine = make_engine()
    engine.submit(interrupted)
    while not (interrupted.checkpoint_dir / "state").exists():
        engine.events(0.05)
    engine.stop()
    until = time.monotonic() + 20
    while not closing(engine.events(0.2)):
        assert time.monotonic() < until
    assert 0 < int((interrupted.checkpoint_dir / "state").read_text().split()[0]) < 1500
    (resumed,) = closing(drain(make_engine(), [interrupted])).values()
    assert resumed.result == expected.result


def test_progress_and_checkpoints_are_told(make_engine, job):
    events = drain(make_engine(), [job("slow", "0.02", steps=25)])
    progress = [event for event in events if isinstance(event, Progress)]
    assert progress[0].values["of"] == 25
    assert [event.step for event in events if isinstance(event, Checkpointed)] == [5, 10, 15, 20, 25]


def test_a_flood_of_reports_is_thinned_out_and_stays_strict_json(make_engine, job):
    events = drain(make_engine(), [job("flood")])
    progress = [event for event in events if isinstance(event, Progress)]
    assert 1 <= len(progress) < 200
    assert all(event.values.get("error", 1.0) == 1.0 for event in progress)


def test_what_a_job_prints_does_not_disturb_the_messages(make_engine, job, tmp_path):
    (event,) = closing(drain(make_engine(), [job("chatter")])).values()
    assert isinstance(event, Finished)


def test_large_specs_and_results_pass(make_engine, job, tmp_path):
    """Larger than the buffers of pipes and sockets."""
    biases = [0.1 * k for k in range(20_000)]
    task = {"name": "biased", "dim": 8, "points": 2, "distribution": "orthogonal"}
    run = small_run(task=task | {"biases": biases, "coefficients": biases}, tags=("long_result",))
    (event,) = closing(drain(make_engine(), [Job(run_id="a", spec=plain(run), checkpoint_dir=tmp_path / "a")])).values()
    assert event.result["curve"] == list(range(500_000))


def test_workers_have_one_thread(make_engine, job):
    (event,) = closing(drain(make_engine(), [job("threads")])).values()
    assert event.result["threads"] == ["1", "1", 1]


@pytest.mark.parametrize(
    ("entry", "message"),
    [
        ("no.such.module:entry", "the entry point does not load: ModuleNotFoundError: No module named 'no'"),
        ("fake_runs:nothing", "the entry point does not load: AttributeError"),
        ("fake_runs", "expected an entry point 'package.module:function', got 'fake_runs'"),
    ],
)
def test_an_entry_point_that_does_not_load_is_said_at_once(make_engine, job, entry, message):
    with pytest.raises(EngineError, match=message):
        drain(make_engine(entry=entry), [job()])


def test_nothing_is_left_after_close(make_engine, job):
    engine = make_engine()
    hanging = [job("hang", seed=seed) for seed in range(2)]
    for one in hanging:
        engine.submit(one)
    while not all((one.checkpoint_dir / "calls").exists() for one in hanging):
        engine.events(0.1)
    pids = [int((one.checkpoint_dir / "calls").read_text()) for one in hanging]
    assert all(alive(pid) for pid in pids)
    engine.close()
    wait_until_gone(pids)
    engine.close()
