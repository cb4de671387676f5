"""Shapes written in annotations are checked under pytest; every test is seeded and single-threaded by default."""

import sys
from pathlib import Path

import hypothesis
from jaxtyping import install_import_hook

sys.path.insert(0, str(Path(__file__).parent))
_hook = install_import_hook("rankwise", "array_shapes.check_arrays_only")

hypothesis.settings.register_profile("rankwise", deadline=None, derandomize=True, print_blob=True)
hypothesis.settings.load_profile("rankwise")
