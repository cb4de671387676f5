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
made: a kill, a damaged file, a hostile spec.

## What is promised

"Kept" means that every try ended as promised. The faults are explained in the table below.

| promise | what was tried | tries | what came |
|---|---|---|---|
"""

_FAULTS = """
## What was tried

The tests are in `tests/faults/`, one file per row.

| fault | survived means | tests | tries | outcome |
|---|---|---|---|---|
"""

PROMISES: tuple[tuple[str, tuple[str, ...]], ...] = (
    (
        "A finished run is never lost and never silently trained again.",
        (
            "test_kill_9_the_driver",
            "test_corrupt_or_locked_database_two_drivers",
            "test_disk_full_and_read_only_directory",
            "test_the_head_of_ray_killed_or_frozen",
        ),
    ),
    (
        "Kill anything at any time; the same command continues to an equal table.",
        (
            "test_kill_9_the_driver",
            "test_kill_9_a_worker",
            "test_kill_9_a_ray_worker_a_ray_node",
            "test_resume_at_any_step",
            "test_corrupt_checkpoint",
        ),
    ),
    ("Ctrl-C once checkpoints, twice stops at once.", ("test_signals_closed_pipe_hang_out_of_memory",)),
    (
        "A head of Ray that dies or hangs ends the driver within a minute, and Ctrl-C works meanwhile.",
        ("test_the_head_of_ray_killed_or_frozen",),
    ),
    ("Nothing that is read executes code.", ("test_nothing_read_executes_code", "test_malicious_model")),
    (
        "Any file is answered by what it says or refused by a message; no command hangs on it.",
        ("test_fuzz", "test_fuzz_by_meaning", "test_malformed_specs", "test_malicious_model"),
    ),
    ("No network and no account unless asked for.", ("test_missing_extras_offline",)),
    (
        "Every failure is listed with its cause and changes the exit code.",
        ("test_divergence", "test_kill_9_a_worker", "test_signals_closed_pipe_hang_out_of_memory"),
    ),
    (
        "Names from files stay text, on terminals, in tables and on pages; a page names no home of a user.",
        ("test_injection",),
    ),
    ("Thousands of runs cost the driver no memory.", ("test_scale",)),
    ("Numbers of the theory are finite and never above the trivial bound.", ("test_extremes_of_theory",)),
)

_NOT_PROMISED = """
## What is not promised

- **A hostile node of a Ray cluster.** Ray unpickles what nodes return: every node is trusted ([clusters](cluster.md)).
- **Attempts on Ray, to the last one.** A node that dies between the beginning of a run and the driver's hearing of it
  has begun the run once more than the store counts. On one machine the count is never below the truth.
- **A head of Ray that hangs for less than half a minute.** It is waited for, and Ctrl-C then takes longer than 10 s.
- **Ray's own two agents.** They stay for about a minute after a driver that was killed.
- **Files that lie consistently.** A configuration whose sizes fit the matrices, but that belongs to another model, is
  believed; so is a store that someone rewrote together with its hashes, which are no signatures.
- **Texts and tokenizers that fit in size alone.** A tokenizer with about as many tokens as the model has embeddings is
  taken for the model's. What it makes of the texts is judged by the loss, beside guesses, and warned of, not refused.
- **Names in the content of a page.** Homes and the user's name in paths are taken out, on pages only: JSON documents,
  stores and the names of files themselves stay as they are.
- **Equal bits on different kinds of CPU**, and anything about CUDA, which was never tried.
- **Power cuts, network file systems, macOS and Windows.** Files are brought to the disk before they are renamed, but
  all tests run on Linux with a local disk.
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
    names = {name: fault for name, fault, _ in faults()}
    kept = [_promise(words, [(names[name], rows.get(name, Row())) for name in tests]) for words, tests in PROMISES]
    for name, fault, means in faults():
        row = rows.get(name, Row())
        lines.append(f"| {fault} | {means.replace('|', 'pipe')} | {row.tests} | {row.tries:,} | {row.outcome()} |")
    return "\n".join([_INTRODUCTION + "\n".join(kept), _FAULTS + "\n".join(lines), _NOT_PROMISED])


def _promise(words: str, tried: list[tuple[str, Row]]) -> str:
    """One row: what was tried for a promise, how often, and what came."""
    failed, missing = sum(row.failed for _, row in tried), [fault for fault, row in tried if not row.tests]
    came = f"**{failed} tests failed**" if failed else "kept"
    came += f"; not tried: {'; '.join(missing)}" if missing else ""
    what = "; ".join(fault[:1].lower() + fault[1:] for fault, _ in tried)
    return f"| {words} | {what} | {sum(row.tries for _, row in tried):,} | {came} |"


def main(paths: list[str]) -> int:
    """Write the page; 1 if a fault was not survived."""
    rows = read_results(map(Path, paths))
    PAGE.write_text(page(rows), encoding="utf-8")
    print(f"{PAGE.relative_to(ROOT)}: {sum(row.tries for row in rows.values()):,} tries")
    return int(any(row.failed for row in rows.values()))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
