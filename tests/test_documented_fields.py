"""Classes with many fields say beside each what it is."""

import ast
from pathlib import Path

ROOT = Path(__file__).parents[1] / "src"
MANY = 8


def undocumented(text):
    for node in ast.walk(ast.parse(text)):
        if not isinstance(node, ast.ClassDef):
            continue
        fields = [
            (place, entry)
            for place, entry in enumerate(node.body)
            if isinstance(entry, ast.AnnAssign) and "ClassVar" not in ast.unparse(entry.annotation)
        ]
        if len(fields) > MANY:
            for place, entry in fields:
                following = node.body[place + 1 : place + 2]
                if not (following and isinstance(following[0], ast.Expr)):
                    yield f"{node.name}.{ast.unparse(entry.target)}"


def test_fields_of_large_classes_are_documented():
    assert [
        f"{path.name}: {name}" for path in sorted(ROOT.rglob("*.py")) for name in undocumented(path.read_text())
    ] == []


def test_a_missing_one_is_found():
    fields = "\n".join(f"    f{number}: int\n    '''The field.'''" for number in range(MANY))
    assert list(undocumented(f"class Large:\n{fields}\n    last: int\n")) == ["Large.last"]
    assert list(undocumented("class Small:\n    only: int\n")) == []
