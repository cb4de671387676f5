"""What only the Ray engine promises; the rest is the conformance suite."""

import dataclasses
import json
import os
import signal
import subprocess
import sys
import tempfile
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from types import SimpleNamespace

import pytest
from safetensors import safe_open

from processes import family, listening, parent_of, wait_until_gone
from rankwise.errors import EngineError, InvalidInputError, MissingExtraError
from rankwise.spec import plain
from rankwise.sweep.engines import ray as ray_engine
from rankwise.sweep.engines.engine import (
    CLOSING,
    TRAIN,
    Checkpointed,
    Failed,
    Finished,
    Job,
    Lost,
    Returned,
    Started,
)
from rankwise.sweep.engines.ray import RayEngine, _Task
from rankwise.sweep.engines.where import Where
from ray_fixtures import worker_path
from spec_examples import small_run


def job(directory, *tags, steps=20, **fields):
    run = small_run(tags=tags, optim={"lr": 0.1, "steps": steps, "batch": 4}, **fields)
    return Job(run_id=run.id, spec=plain(run), checkpoint_dir=directory / run.id)


def heard(engine, until, seconds=300):
    """All events until one of a kind has come."""
    events, deadline = [], time.monotonic() + seconds
    while not any(isinstance(event, until) for event in events):
        assert time.monotonic() < deadline, events
        events += engine.events(0.2)
    return events


@pytest.fixture
def engine(local_ray, tmp_path):
    made = RayEngine(tmp_path / "logs", entry="fake_runs:entry", grace=1.0)
    yield made
    made.close()


def test_only_bytes_cross(local_ray, tmp_path, monkeypatch):
    """Every value handed to Ray and every value taken from it, for a run that sends its checkpoint."""
    crossed = []
    context = local_ray._private.worker.global_worker.get_serialization_context()
    serialize, get = type(context).serialize, local_ray.get

    def watched_serialize(self, value):
        crossed.append(value)
        return serialize(self, value)

    def watched_get(ref, **options):
        crossed.append(get(ref, **options))
        return crossed[-1]

    monkeypatch.setattr(type(context), "serialize", watched_serialize)
    monkeypatch.setattr(local_ray, "get", watched_get)
    engine = RayEngine(tmp_path / "logs", entry=TRAIN, share=False)
    one = job(tmp_path / "store")
    engine.submit(one)
    heard(engine, Finished)
    engine.close()
    assert len(crossed) > 4
    assert {type(value) for value in crossed} == {bytes}
    files = [value for value in crossed if value[:1] != b"{" and value != b"rung"]
    assert files
    (checkpoint,) = one.checkpoint_dir.iterdir()
    assert checkpoint.read_bytes() == files[-1]
    with safe_open(checkpoint, framework="pt") as file:
        assert file.keys()


@pytest.mark.faults
def test_without_a_shared_directory_checkpoints_come_and_go(local_ray, tmp_path):
    """Trained to the end, the file is here; asked again, it goes back and the answer comes from it."""
    one = job(tmp_path / "store", steps=40)
    results, hashes = [], set()
    for session in ("first", "second"):
        engine = RayEngine(tmp_path / session, entry=TRAIN, share=False)
        engine.submit(one)
        events = heard(engine, Finished)
        engine.close()
        results.append(events[-1].result)
        checkpoints = [event for event in events if isinstance(event, Checkpointed)]
        hashes |= {event.sha256 for event in checkpoints}
        assert [event.step for event in checkpoints] == [40]
        assert Path(checkpoints[0].path).parent == one.checkpoint_dir
        left = Path(tempfile.gettempdir()) / f"rankwise-{engine._session}" / "checkpoints" / one.run_id
        deadline = time.monotonic() + 10
        while left.exists():
            assert time.monotonic() < deadline, "the node keeps nothing"
            time.sleep(0.1)
    assert results[0] == results[1]
    assert len(hashes) == 1, "a finished run writes nothing new"


@pytest.mark.faults
def test_a_full_disk_here_blocks_the_run(local_ray, tmp_path):
    (tmp_path / "store").write_text("a file where the directory should be")
    engine = RayEngine(tmp_path / "logs", entry=TRAIN, share=False)
    engine.submit(job(tmp_path / "store"))
    events = heard(engine, CLOSING)
    engine.close()
    assert type(events[-1]).__name__ == "Blocked"
    assert "store" in events[-1].reason


def test_kill_9_a_ray_worker_ends_its_run_and_no_other(engine, tmp_path):
    jobs = [job(tmp_path, "hang"), job(tmp_path, "slow", "0.05", steps=40, seed=1)]
    for one in jobs:
        engine.submit(one)
    calls = [one.checkpoint_dir / "calls" for one in jobs]
    deadline = time.monotonic() + 60
    while not all(path.exists() for path in calls):
        assert time.monotonic() < deadline
        engine.events(0.1)
    child = int(calls[0].read_text())
    os.kill(parent_of(child), signal.SIGKILL)
    lost = heard(engine, Lost)[-1]
    assert lost.run_id == jobs[0].run_id, lost
    assert lost.reason.startswith("the Ray worker died")
    wait_until_gone([child])
    assert heard(engine, Finished)[-1].run_id == jobs[1].run_id


def test_stop_reaches_runs_even_after_the_bell_has_died(engine, tmp_path):
    one = job(tmp_path, "slow", "0.01", steps=10_000)
    engine.submit(one)
    heard(engine, Started)
    bell = int(engine._ray.get(engine._bell.pid.remote()))
    os.kill(bell, signal.SIGKILL)
    deadline = time.monotonic() + 30
    while True:  # a new bell hangs
        try:
            assert int(engine._ray.get(engine._bell.pid.remote(), timeout=10)) != bell
            break
        except engine._ray.exceptions.RayError:
            assert time.monotonic() < deadline
    time.sleep(1)
    engine.stop()
    assert isinstance(heard(engine, CLOSING)[-1], Returned)
    assert (one.checkpoint_dir / "state").exists(), "it was asked, not killed"


def test_a_cluster_that_is_too_small_is_said_with_its_size(local_ray, tmp_path):
    engine = RayEngine(tmp_path / "logs", gpus=2, patience=0.0)
    with pytest.raises(EngineError, match="expected a Ray node with 1 CPUs and 2 GPUs for a run, got nodes with 2 CPU"):
        _ = engine.slots
    engine.close()


def test_fractions_of_a_cpu_make_more_seats(local_ray, tmp_path):
    half, whole = (RayEngine(tmp_path / "logs", cpus=cpus) for cpus in (0.5, 1.0))
    assert (half.slots, whole.slots) == (8, 4)
    half.close()
    whole.close()


@pytest.mark.parametrize(
    ("address", "cpus", "workers", "cluster", "slots"),
    [
        ("auto", 1.0, 2, 8, 2),
        ("auto", 1.0, 20, 8, 16),
        ("auto", 1.0, None, 8, 16),
        (None, 1.0, 2, 2, 4),  # two at work and two that wait for their seats
        (None, 0.5, 3, 2, 3),  # a Ray has whole CPUs, here with a fourth seat
    ],
)
def test_workers_bounds_the_runs_at_work(tmp_path, address, cpus, workers, cluster, slots):
    engine = RayEngine(tmp_path / "logs", address=address, cpus=cpus, workers=workers)
    engine._owns_ray = True  # as after any ray.init
    engine._ray = SimpleNamespace()
    engine._head = SimpleNamespace(sizes=lambda: [{"CPU": float(cluster)}])
    assert engine.slots == slots


def test_workers_of_another_version_are_refused(engine, tmp_path, monkeypatch):
    monkeypatch.setattr(ray_engine, "__version__", "99.0")
    engine.submit(job(tmp_path))
    with pytest.raises(EngineError, match=r"the driver has rankwise 99\.0, this node has "):
        heard(engine, CLOSING)


def test_a_missing_ray_names_the_extra(tmp_path, monkeypatch):
    monkeypatch.setattr(ray_engine.importlib.util, "find_spec", lambda name: None)
    with pytest.raises(MissingExtraError, match=r"pip install 'rankwise\[ray\]'"):
        Where(engine="ray").open(tmp_path)


@pytest.mark.parametrize(
    ("choice", "complaint"),
    [
        ({"cpus": 2.0}, "--cpus: expected --engine ray"),
        ({"address": "auto"}, "--address: expected --engine ray"),
        ({"engine": "ray", "cpus": 0.0}, "--cpus: expected a finite number above 0"),
        ({"engine": "ray", "gpus": -1.0}, "--gpus: expected a finite number of at least 0"),
        ({"engine": "ray", "address": "ray://head:10001"}, "--address: expected auto or host:port"),
        ({"engine": "slurm"}, "--engine: expected one of 'local', 'ray'"),
        ({"device": "tpu"}, "--device: expected one of 'cpu', 'cuda', 'auto'"),
    ],
)
def test_choices_that_cannot_be_meant(tmp_path, choice, complaint):
    with pytest.raises(InvalidInputError, match=complaint):
        Where(**choice).open(tmp_path)


_OWN_RAY = """
import json, sys
from pathlib import Path
from rankwise.sweep.engines.ray import RayEngine, _Task
from rankwise.sweep.engines.engine import Job, Finished
engine = RayEngine(Path(sys.argv[1]), entry="fake_runs:entry", workers=1)
engine.submit(Job(run_id="a", spec={"tags": [], "seed": 1, "optim": {"steps": 3}}, checkpoint_dir=Path(sys.argv[1])))
while not any(isinstance(event, Finished) for event in engine.events(0.2)): pass
print("ready", flush=True)
sys.stdin.read()
"""


class Proxy(ThreadingHTTPServer):
    """A proxy on loopback that notes what it is asked for, and has none of it."""

    def __init__(self):
        self.asked = asked = []

        class Refusing(BaseHTTPRequestHandler):
            def do_GET(self):
                asked.append(self.path)
                self.send_error(404)

            def log_message(self, *_):
                pass

        super().__init__(("127.0.0.1", 0), Refusing)
        threading.Thread(target=self.serve_forever, daemon=True).start()


@pytest.mark.faults
def test_a_ray_of_its_own_listens_on_loopback_alone_asks_nobody_and_dies_with_the_driver(tmp_path):
    with Proxy() as proxy, tempfile.TemporaryDirectory() as short:  # sockets have short names
        # heeded by the library that Ray asks clouds with
        asking = {"http_proxy": f"http://127.0.0.1:{proxy.server_port}", "no_proxy": "127.0.0.1,localhost"}
        driver = subprocess.Popen(
            [sys.executable, "-c", _OWN_RAY, str(tmp_path)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env=os.environ | asking | {"PYTHONPATH": worker_path(), "TMPDIR": short},
        )
        _require_own_ray(driver)
        proxy.shutdown()
        assert proxy.asked == []
        assert len(list(Path(short).glob("rankwise-*"))) == 1  # of the killed driver, for the next one to remove


def _require_own_ray(driver):
    try:
        assert driver.stdout.readline() == "ready\n"
        started = family(driver.pid)
        agents = [pid for pid in started if b"Agent" in Path(f"/proc/{pid}/cmdline").read_bytes()]
        assert len(started) > 5
        loopback = {"0100007F", "0000000000000000FFFF00000100007F"}
        addresses = listening(started)
        assert addresses
        assert addresses <= loopback
    finally:
        driver.kill()
        driver.communicate()
    wait_until_gone(set(started) - set(agents))
    wait_until_gone(agents, seconds=120)  # Ray's two agents look for their parent about once a minute


def test_jobs_are_plain_json():
    """What is sent is a dictionary of the spec's own values, nothing that needs a class to be read."""
    fields = {field.name for field in dataclasses.fields(Job)}
    assert fields == {"run_id", "spec", "checkpoint_dir", "time_limit"}
    assert json.loads(json.dumps(plain(small_run()))) == plain(small_run())


@pytest.mark.parametrize(
    "message", [None, b"null", b"[]", b"{", b'{"events": [{"event": "Exec"}]}', b"\xff", b"[" * 5000,
                b'{"events": [{"event": "Returned", "run_id": "another", "seconds": 1}], "files": []}'],
)  # fmt: skip
def test_a_malformed_message_is_that_runs_failure(tmp_path, message):
    engine = RayEngine(tmp_path / "logs")
    engine._ray = SimpleNamespace(get=lambda value: value, cancel=lambda *_, **__: None)
    stream = iter([message])
    own = job(tmp_path)
    engine._tasks[stream] = _Task(own, stream)
    engine._hear(engine._tasks[stream])
    (event,) = engine._events
    assert (type(event), event.run_id, event.status) == (Failed, own.run_id, "failed")
    assert "got a message that is none" in event.reason
    assert not engine._tasks
