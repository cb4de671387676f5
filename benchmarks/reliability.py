"""docs/reliability.md from what the tests found: ``python -m benchmarks.reliability RESULTS.xml ...``.

The results are pytest's (``--junitxml``), as ``make test-faults`` writes them. One row a file of ``tests/faults``: its
fault and what surviving it means are the file's own words; tries and outcome are counted from the results.
"""

from __future__ import annotations

import ast
import sys
import xml.etree.ElementTree as ElementTree
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

ROOT = Path(__file__).parent.parent
FAULTS = ROOT / "tests" / "faults"
PAGE = ROOT / "docs" / "reliability.md"

_INTRODUCTION = """# What rankwise survives

Written by `python -m benchmarks.reliability` from the results of `make test-faults`; do not edit. A try is one fault
made: a kill, a damaged file, a hostile spec. The tests are in `tests/faults/`, one file a row.

| fault | survived means | tests | tries | outcome |
|---|---|---|---|---|
"""

_PROMISES = """
Promises that these tests back:

- A finished run is never lost and never silently trained again.
- Kill anything at any time; the same command continues to an equal table.
- Nothing that is read executes code.
- No network and no account unless asked for.
- Every failure is listed with its cause and changes the exit code.

What stays for about a minute of a killed driver that had started its own Ray: Ray's two agent processes.
"""


@dataclass
class Row:
    """One fault: how often it was made, and how often it was not survived."""

    tests: int = 0
    tries: int = 0
    failed: int = 0
    skipped: int = 0
    notes: list[str] = field(default_factory=list)

    def outcome(self) -> str:
        if not self.tests:
            return "not tested yet"
        parts = ["survived" if not self.failed else f"**{self.failed} of {self.tests} tests failed**"]
        parts += [f"{self.skipped} skipped"] if self.skipped else []
        return "; ".join([*parts, *self.notes])


def read_results(paths: Iterable[Path]) -> dict[str, Row]:
    """Rows by the name of the test file; of a test that stands in several results the last counts."""
    cases = {}
    for path in paths:
        for case in ElementTree.parse(path).iter("testcase"):
            cases[case.get("classname", ""), case.get("name", "")] = case
    rows: dict[str, Row] = {}
    for (classname, _), case in cases.items():
        module = classname.split(".")
        name = next((part for part in module if part.startswith("test_")), "")
        if "faults" not in module or not name:
            continue
        row = rows.setdefault(name, Row())
        if case.find("skipped") is not None:
            row.skipped += 1
            continue
        properties = {entry.get("name"): entry.get("value", "") for entry in case.iter("property")}
        row.tests += 1
        row.tries += int(properties.get("tries") or 1)
        row.failed += case.find("failure") is not None or case.find("error") is not None
        row.notes += [properties["note"]] if "note" in properties else []
    return rows


def faults() -> Iterator[tuple[str, str, str]]:
    """Name, fault and what surviving means, from the first sentence of every file."""
    for path in sorted(FAULTS.glob("test_*.py")):
        text = " ".join((ast.get_docstring(ast.parse(path.read_text(encoding="utf-8"))) or path.stem).split())
        fault, _, means = text.split(". (")[0].rstrip(".").partition(": ")
        yield path.stem, fault, means


def page(rows: dict[str, Row]) -> str:
    """The whole document."""
    lines = []
    for name, fault, means in faults():
        row = rows.get(name, Row())
        lines.append(f"| {fault} | {means.replace('|', 'pipe')} | {row.tests} | {row.tries:,} | {row.outcome()} |")
    return _INTRODUCTION + "\n".join(lines) + "\n" + _PROMISES


def main(paths: list[str]) -> int:
    """Write the page; 1 if a fault was not survived."""
    rows = read_results(map(Path, paths))
    PAGE.write_text(page(rows), encoding="utf-8")
    print(f"{PAGE.relative_to(ROOT)}: {sum(row.tries for row in rows.values()):,} tries")
    return int(any(row.failed for row in rows.values()))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
