"""Shapes written in annotations are checked under pytest; every test is seeded and single-threaded by default."""

import pkgutil
import sys
from pathlib import Path

import hypothesis
from jaxtyping import install_import_hook

import rankwise

sys.path.insert(0, str(Path(__file__).parent))
# Packages without arrays stay as they are: the hook would make every call in them ten times slower.
_WITHOUT_ARRAYS = {"__main__", "cli", "errors", "spec", "sweep"}
_packages = [package.name for package in pkgutil.iter_modules(rankwise.__path__) if package.name not in _WITHOUT_ARRAYS]
_hook = install_import_hook([f"rankwise.{package}" for package in _packages], "array_shapes.check_arrays_only")

# No test may fail because the machine is busy: neither by a deadline nor by slow drawing.
hypothesis.settings.register_profile(
    "rankwise",
    deadline=None,
    derandomize=True,
    print_blob=True,
    suppress_health_check=[hypothesis.HealthCheck.too_slow],
)
hypothesis.settings.load_profile("rankwise")

from model_folders import saved  # noqa: E402, F401 (a fixture, found by its name)
from ray_fixtures import local_ray, ray_cluster  # noqa: E402, F401 (fixtures, found by their names)
