"""A Ray for tests: two logical CPUs on the loopback interface, workers that can import the tests' fake runs."""

import os
import sys
from pathlib import Path

import pytest

from rankwise.sweep.engines.ray import _import_ray

TESTS = Path(__file__).parent


def worker_path():
    """What workers need in PYTHONPATH to find rankwise and the fake runs."""
    return os.pathsep.join([str(TESTS), str(TESTS.parent / "src"), *(path for path in sys.path if path)])


@pytest.fixture(scope="session")
def local_ray():
    """Ray, started once in this process; engines find it and leave it open."""
    before = os.environ.get("PYTHONPATH")
    os.environ["PYTHONPATH"] = worker_path()
    ray = _import_ray(own=True)
    quiet = {"include_dashboard": False, "log_to_driver": False, "logging_level": "ERROR"}
    ray.init(address="local", num_cpus=2, object_store_memory=80_000_000, _node_ip_address="127.0.0.1", **quiet)
    yield ray
    ray.shutdown()
    os.environ["PYTHONPATH"] = before or ""
