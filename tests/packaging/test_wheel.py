"""What is shipped: one version everywhere, a wheel with every file it needs, and a workflow that does what CI does."""

import re
import subprocess
import sys
import sysconfig
import tarfile
import tomllib
import venv
import zipfile
from email.parser import Parser
from pathlib import Path

import pytest
import yaml

from rankwise import __version__

ROOT = Path(__file__).parents[2]


def test_one_version_everywhere():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    assert project["project"]["dynamic"] == ["version"]
    assert project["tool"]["hatch"]["version"]["path"] == "src/rankwise/__init__.py"
    citation = yaml.safe_load((ROOT / "CITATION.cff").read_text())
    assert citation["version"] == __version__
    assert citation["license"] == project["project"]["license"]
    assert {"cff-version", "message", "title", "authors"} <= citation.keys()


def test_the_workflow_does_what_ci_does_on_every_supported_python():
    workflow = yaml.safe_load((ROOT / ".github/workflows/ci.yml").read_text())
    job = workflow["jobs"]["test"]
    classifiers = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["classifiers"]
    supported = [name.rpartition(" ")[2] for name in classifiers if re.search(r":: 3\.\d+$", name)]
    assert job["strategy"]["matrix"]["python"] == supported
    assert {name.partition("-")[0] for name in job["strategy"]["matrix"]["os"]} == {"ubuntu", "macos"}
    assert job["steps"][-1] == {"run": ".ci/run"}


@pytest.fixture(scope="module")
def dist(tmp_path_factory):
    folder = tmp_path_factory.mktemp("dist")
    command = [sys.executable, "-m", "build", "--no-isolation", "--outdir", str(folder), str(ROOT)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return folder


def test_the_wheel_has_every_file_of_the_package(dist):
    [wheel] = dist.glob("*.whl")
    with zipfile.ZipFile(wheel) as archive:
        held = {name for name in archive.namelist() if name.startswith("rankwise/")}
        [stated] = [archive.read(name).decode() for name in archive.namelist() if name.endswith("/METADATA")]
    ours = {
        path.relative_to(ROOT / "src").as_posix()
        for path in (ROOT / "src/rankwise").rglob("*")
        if path.is_file() and "__pycache__" not in path.parts
    }
    assert held == ours
    metadata = Parser().parsestr(stated)
    assert (metadata["Name"], metadata["Version"]) == ("rankwise", __version__)
    assert metadata["License-Expression"] == "Apache-2.0"
    assert "report" in metadata.get_all("Provides-Extra")


def test_the_source_archive_builds_the_same_wheel(dist, tmp_path):
    [sdist] = dist.glob("*.tar.gz")
    with tarfile.open(sdist) as archive:
        archive.extractall(tmp_path, filter="data")
    [folder] = tmp_path.iterdir()
    command = [sys.executable, "-m", "build", "--no-isolation", "--wheel", "--outdir", str(tmp_path), str(folder)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    names = [zipfile.ZipFile(next(place.glob("*.whl"))).namelist() for place in (dist, tmp_path)]
    assert names[0] == names[1]


def test_the_wheel_works_in_a_clean_environment(dist, tmp_path):
    """Its dependencies are those of this environment, found by a path; rankwise itself comes from the wheel alone."""
    [wheel] = dist.glob("*.whl")
    venv.create(tmp_path / "env", with_pip=False)
    python = tmp_path / "env/bin/python"
    pip = [sys.executable, "-m", "pip", "--python", str(python), "install", "--no-deps", "--no-index", str(wheel)]
    subprocess.run(pip, check=True, capture_output=True)
    [packages] = (tmp_path / "env/lib").glob("python*/site-packages")
    (packages / "dependencies.pth").write_text(sysconfig.get_path("purelib") + "\n")

    def said(*command):
        done = subprocess.run(
            command, capture_output=True, text=True, check=False, cwd=tmp_path, env={"PATH": "/usr/bin:/bin"}
        )
        assert done.returncode == 0, done.stderr
        return done.stdout

    rankwise = str(tmp_path / "env/bin/rankwise")
    assert said(rankwise, "--version") == f"rankwise {__version__}\n"
    where = said(str(python), "-c", "import rankwise; print(rankwise.__file__)")
    assert Path(where.strip()).is_relative_to(packages)
    assert "rank" in said(rankwise, "bound", "--dim", "64", "--rank", "32", "--heads", "8")
    assert "heads of rank 64" in said(str(python), "-c", "import rankwise; print(rankwise.advise(dim=768, heads=12))")
    script = "from rankwise.report.html import PageContent, build_page; print(len(build_page(PageContent())))"
    assert int(said(str(python), "-c", script)) > 10_000
