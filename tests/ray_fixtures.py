"""Ray for tests: on the loopback interface, with workers that can import the tests' own entry points."""

import os
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

from rankwise.sweep.engines.ray_library import import_ray

TESTS = Path(__file__).parent
_QUIET = {"include_dashboard": False, "log_to_driver": False, "logging_level": "ERROR"}
_STORE = 80_000_000  # bytes, about the least Ray accepts


def worker_path():
    """What workers need in PYTHONPATH to find rankwise and the tests' entry points."""
    return os.pathsep.join([str(TESTS), str(TESTS.parent / "src"), *(path for path in sys.path if path)])


@pytest.fixture(scope="session")
def local_ray():
    """A Ray of two logical CPUs, started once in this process; engines find it and leave it open."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PYTHONPATH", worker_path())
        ray = import_ray(own=True)
        ray.init(address="local", num_cpus=2, object_store_memory=_STORE, _node_ip_address="127.0.0.1", **_QUIET)
    yield ray
    ray.shutdown()


@pytest.fixture
def ray_cluster(monkeypatch):
    """A function that starts a cluster of nodes with one logical CPU each, on this machine."""
    monkeypatch.setenv("PYTHONPATH", worker_path())
    ray = import_ray(own=True)
    from ray.cluster_utils import Cluster

    if ray.is_initialized():
        pytest.skip("this process has a Ray already: run the faults in a process of their own")
    made = []

    def start(nodes):
        options = {"num_cpus": 1, "object_store_memory": _STORE, "include_dashboard": False}
        cluster = Cluster(initialize_head=True, head_node_args=options)
        made.append(cluster)
        others = [cluster.add_node(num_cpus=1, object_store_memory=_STORE) for _ in range(nodes - 1)]
        cluster.wait_for_nodes()
        return SimpleNamespace(cluster=cluster, nodes=others, address=cluster.address)

    yield start
    if ray.is_initialized():
        ray.shutdown()
    for cluster in made:
        cluster.shutdown()
