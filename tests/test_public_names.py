"""Public names of a room are those its ``__init__`` exports: no other room reaches past them."""

import ast
from importlib import import_module
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1] / "src/rankwise"
ROOMS = sorted(path.parent.name for path in ROOT.glob("*/__init__.py"))


def room_of(path):
    inside = path.relative_to(ROOT).parts
    return inside[0] if len(inside) > 1 else None


def imports_from_other_rooms():
    for path in sorted(ROOT.rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.ImportFrom) and node.module and node.module.startswith("rankwise."):
                room = node.module.split(".")[1]
                if room in ROOMS and room not in (room_of(path), "cli"):
                    yield path, node


def test_rooms_import_what_other_rooms_export():
    found = list(imports_from_other_rooms())
    assert len(found) > 100
    past = [f"{path.relative_to(ROOT)}: {node.module}" for path, node in found if node.module.count(".") > 1]
    assert not past


@pytest.mark.parametrize("room", [room for room in ROOMS if room != "cli"])
def test_what_a_room_exports_is_there_and_is_no_module(room):
    module = import_module(f"rankwise.{room}")
    assert module.__all__
    for name in module.__all__:
        assert not name.startswith("_")
        assert not hasattr(getattr(module, name), "__path__")
        assert not (ROOT / room / f"{name}.py").exists()


def test_there_are_few_public_names():
    assert sum(len(import_module(f"rankwise.{room}").__all__) for room in ROOMS if room != "cli") < 400
