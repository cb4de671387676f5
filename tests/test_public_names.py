"""Public names of a package are those its ``__init__`` exports: no other package reaches past them."""

import ast
from importlib import import_module
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1] / "src/rankwise"
PACKAGES = sorted(path.parent.name for path in ROOT.glob("*/__init__.py"))


def package_of(path):
    inside = path.relative_to(ROOT).parts
    return inside[0] if len(inside) > 1 else None


def imports_from_other_packages():
    for path in sorted(ROOT.rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.ImportFrom) and node.module and node.module.startswith("rankwise."):
                package = node.module.split(".")[1]
                if package in PACKAGES and package not in (package_of(path), "cli"):
                    yield path, node


def test_packages_import_what_other_packages_export():
    found = list(imports_from_other_packages())
    assert len(found) > 100
    past = [f"{path.relative_to(ROOT)}: {node.module}" for path, node in found if node.module.count(".") > 1]
    assert not past


@pytest.mark.parametrize("package", [package for package in PACKAGES if package != "cli"])
def test_what_a_package_exports_is_there_and_is_no_module(package):
    module = import_module(f"rankwise.{package}")
    assert module.__all__
    for name in module.__all__:
        assert not name.startswith("_")
        assert not hasattr(getattr(module, name), "__path__")
        assert not (ROOT / package / f"{name}.py").exists()


def test_there_are_few_public_names():
    assert sum(len(import_module(f"rankwise.{package}").__all__) for package in PACKAGES if package != "cli") < 400
