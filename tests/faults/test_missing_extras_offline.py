"""Missing extras, offline: with the core's dependencies alone, and with sockets blocked, the command names the extra;
the core works."""

import json
import os
import re
import subprocess
import sys
from importlib.metadata import distribution, requires
from pathlib import Path

import pytest

from rankwise.spec import to_toml
from spec_examples import seeds_sweep

SOURCE = Path(__file__).parents[2] / "src"

# No socket but those between a process and itself or its children.
NO_NETWORK = """
import socket
class Blocked(socket.socket):
    def connect(self, address):
        raise OSError(f"the test blocks the network: {address}")
    connect_ex = bind = connect
socket.socket = Blocked
def blocked(*arguments, **options):
    raise OSError(f"the test blocks the network: {arguments}")
socket.create_connection = socket.getaddrinfo = blocked
"""


def needed_by_the_core():
    """The distributions that ``pip install rankwise`` brings, found by following requirements without extras."""
    found, waiting = set(), [line for line in requires("rankwise") if "extra ==" not in line]
    while waiting:
        requirement = waiting.pop()
        if ";" in requirement and not _applies(requirement.split(";", 1)[1]):
            continue
        name = re.match(r"[\w.-]+", requirement)[0].lower().replace("_", "-")
        if name not in found:
            found.add(name)
            waiting += [line for line in distribution(name).requires or [] if "extra ==" not in line]
    return sorted(found)


def _applies(marker):
    from packaging.markers import Marker

    return Marker(marker).evaluate({"extra": ""})


@pytest.fixture(scope="module")
def core_only(tmp_path_factory):
    """A directory of packages like that of a fresh environment with the core only: links to ours, and no others."""
    packages = tmp_path_factory.mktemp("core") / "packages"
    packages.mkdir()
    for name in needed_by_the_core():
        files = distribution(name).files
        for top in {file.parts[0] for file in files} - {"..", "__pycache__"}:
            place = Path(distribution(name).locate_file(top))
            if place.exists() and not (packages / top).exists():
                (packages / top).symlink_to(place)
    (packages / "sitecustomize.py").write_text(NO_NETWORK)
    return packages


@pytest.fixture
def rankwise_core(core_only, tmp_path):
    def run(*arguments):
        environment = {k: v for k, v in os.environ.items() if not k.startswith(("PYTHON", "COV_"))}
        environment |= {
            "PYTHONPATH": f"{core_only}{os.pathsep}{SOURCE}",
            "OMP_NUM_THREADS": "1",
            "PYTHONNOUSERSITE": "1",
        }
        # -S: nothing of this environment's site-packages; sitecustomize is then imported by hand
        launch = "import sitecustomize, sys; from rankwise.cli import main; sys.exit(main())"
        command = [sys.executable, "-S", "-c", launch, *arguments]
        return subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=300)

    return run


@pytest.mark.parametrize(
    ("command", "extra"),
    [
        (("reproduce", "figure1", "--preset", "smoke"), "report"),
        (("sweep", "s.toml", "--engine", "ray"), "ray"),
    ],
)
def test_missing_extras(rankwise_core, tmp_path, command, extra):
    (tmp_path / "s.toml").write_text(to_toml(seeds_sweep(1)))
    done = rankwise_core(*command)
    assert done.returncode == 2, done.stderr
    assert f"pip install 'rankwise[{extra}]'" in done.stderr
    assert "Traceback" not in done.stderr
    assert not (tmp_path / "runs").exists(), "said before anything is trained"


def test_offline_the_core_works_without_any_extra(rankwise_core, tmp_path):
    (tmp_path / "s.toml").write_text(to_toml(seeds_sweep(2)))
    done = rankwise_core("sweep", "s.toml", "--json")
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["counts"] == {"done": 2}
    assert len(rankwise_core("results", "--csv").stdout.splitlines()) == 3
    bound = rankwise_core("bound", "--dim", "64", "--rank", "8", "--heads", "512", "--json")
    assert bound.returncode == 0, bound.stderr
    doctor = rankwise_core("doctor", "--json")
    assert doctor.returncode == 0, doctor.stderr
    assert "pip install" in json.loads(doctor.stdout)["extra ray"]


def test_the_environment_of_this_test_is_what_it_says(core_only):
    names = {path.name for path in core_only.iterdir()}
    assert {"torch", "numpy", "scipy", "safetensors", "tyro", "rich"} <= names
    assert not {"ray", "pandas", "matplotlib", "transformers", "huggingface_hub", "pytest"} & names
