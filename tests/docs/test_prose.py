"""Words of README, docs, results and docstrings: the patterns that made them hard to read are gone."""

import ast
import dataclasses
import inspect
import re
from pathlib import Path
from typing import get_args, get_type_hints

import pytest

from rankwise.cli.commands import all_commands

ROOT = Path(__file__).parents[2]
PAGES = [
    *(ROOT / name for name in ("README.md", "CHANGELOG.md", "LOG.md", "SECURITY.md")),
    *sorted((ROOT / "docs").glob("*.md")),
    *sorted((ROOT / "results").glob("*.md")),
]
_COUNTED = (
    "seconds?|ms|us|ns|bytes|bits|nats|tokens|steps|runs|numbers?|operations|queries|heads|epochs|minutes|rows?|"
    "parameters|errors|columns?|values|one|two|three|seeds|records?|vectors?|pages?|files?|scalars?|dollars|megabytes|"
    "representatives?|ideas?|scores|threads?|workers?|lists?|means?|GFLOP/s"
)
_UNITS = (
    "run|token|query|step|call|key head|head|layer|second|example|row|epoch|worker|score|seed|file|line|hour|byte|text|"
    "piece|key|block|minute|node|process|question|figure|class|core"
)
_RULES = {
    rf"\b(?:{_COUNTED}) an? (?:{_UNITS})\b(?! (?:sees|may|of|that|is|has))": "per",
    r"\bby heart\b": "memorised",
    r"\bstarts? as nothing\b": "initialised to zero",
    r"\bwritten down\b": "hand-built",
    r"\blikewise\b": "the value itself",
    r"\bon new points\b|\bon such sequences\b": "held-out",
    r"\bx_i beside\b": "the token's own vector",
    r"\bso-manieth\b": "every N-th",
    r"(?<!leave )(?<!make )(?<!is )\brooms?\b(?! =|_)": "package",
    r"\brungs?\b(?<!been rung)(?<!b\"rung)": "round",
    r"\bbrings? (?:back|one)\b|\bbrought back\b": "retrieves",
    r"\bteach(?:es|ing)? (?:which )?directions\b": "calibration",
    r"(?:\.\d+|\d %) of (?:the|their|its) plateau\b": "of the barrier",
}
LONGEST_README = 900
LONGEST_PARAGRAPH = 5
PRESETS = ("smoke", "laptop", "full")
MOST_COLUMNS, MOST_ROWS, MOST_NUMBERS = 5, 8, 4
QUESTIONS = ("rank", "heads", "depth", "need", "saturation", "audit", "choose", "select", "structured", "reduce")
WRITTEN = [path for path in PAGES if path.name != "LOG.md"]
_NUMBER = re.compile(r"(?<![\w.^])(?:\d[\d,]*\.?\d*|\.\d+)(?!\w)")


def texts_of(path):
    if path.suffix == ".md":
        return list(enumerate(path.read_text().splitlines(), 1))
    found = [
        (node.lineno, node.value)
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and " " in node.value
    ]
    comments = enumerate(path.read_text().splitlines(), 1)
    return found + [(line, text.split("# ", 1)[1]) for line, text in comments if "# " in text]


def findings(path):
    return [
        f"{path.name}:{line}: {match[0]!r}, better: {better}"
        for line, text in texts_of(path)
        for rule, better in _RULES.items()
        for match in re.finditer(rule, text, re.IGNORECASE)
    ]


@pytest.mark.parametrize("path", PAGES, ids=lambda path: path.name)
def test_pages_use_ordinary_words(path):
    assert findings(path) == []


def test_docstrings_and_comments_use_ordinary_words():
    sources = sorted((ROOT / "src").rglob("*.py"))
    assert len(sources) > 300
    assert [line for path in sources for line in findings(path)] == []


def paragraphs_of(path):
    """The paragraphs and list items of all docstrings of a file, without tables."""
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            text = (ast.get_docstring(node) or "").split("\nArgs:\n")[0]
            yield from (part for part in re.split(r"\n\s*\n|\n(?=\s*[-*] )", text) if not part.startswith("==="))


def test_no_paragraph_of_a_docstring_is_long():
    sources = sorted((ROOT / "src").rglob("*.py"))
    long = [part for path in sources for part in paragraphs_of(path) if part.count("\n") >= LONGEST_PARAGRAPH]
    assert long == []


def test_the_rules_find_what_they_are_for(tmp_path):
    page = tmp_path / "page.md"
    page.write_text("One row a run, learned by heart.\nWhich keys a query sees.\n2 us a call, written down.\n")
    assert len(findings(page)) == 4


def test_readme_is_short():
    assert len((ROOT / "README.md").read_text().split()) < LONGEST_README


def tables_of(path):
    """The tables of a page, each a list of rows of cells, without the line of dashes."""
    text = re.sub(r"^```.*?^```$", "", path.read_text(), flags=re.MULTILINE | re.DOTALL)
    for table in re.findall(r"(?:^\|.*\n)+", text, re.MULTILINE):
        yield [row.strip("|").split("|") for row in table.splitlines() if not row.startswith("|---")]


@pytest.mark.parametrize("path", PAGES, ids=lambda path: path.name)
def test_tables_are_narrow(path):
    assert [row for table in tables_of(path) for row in table if len(row) > MOST_COLUMNS] == []


@pytest.mark.parametrize("name", QUESTIONS)
def test_a_page_of_results_answers_one_question(name):
    text = (ROOT / "results" / f"{name}.md").read_text()
    assert text.splitlines()[0].endswith("?")
    assert text.index("](") < text.index("|")  # the picture comes first
    assert "**How sure.**" in text
    assert "**Command.**" in text
    assert [len(table) for table in tables_of(ROOT / "results" / f"{name}.md") if len(table) > 1 + MOST_ROWS] == []


def sentences_of(text):
    """The prose of a page, without code, formulas, tables, headings and links."""
    for away in (r"^```.*?^```$", r"\$\$.*?\$\$", r"\$[^$\n]*(?:\n[^$\n]*)?\$", r"`[^`]*`", r"\]\([^)]*\)"):
        text = re.sub(away, "", text, flags=re.MULTILINE | re.DOTALL)
    prose = (line for line in text.splitlines() if not line.startswith("    ") and line.lstrip()[:1] not in ("|", "#"))
    for paragraph in re.split(r"\n\s*\n|\n(?=\s*(?:[-*]|\d+\.) )", "\n".join(prose)):
        item = re.sub(r"^\s*(?:[-*]|\d+\.) ", "", paragraph)
        yield from re.split(r"(?<=[.!?:;])\s+", " ".join(item.split()))


def numbers_of(sentence):
    """Its numbers; a year or the number of a preprint is a name."""
    return _NUMBER.findall(re.sub(r"\b(?:19|20)\d\d\b|\b\d{4}\.\d{4,5}\b", "", sentence))


@pytest.mark.parametrize("path", WRITTEN, ids=lambda path: path.name)
def test_a_sentence_has_few_numbers(path):
    found = [one for one in sentences_of(path.read_text()) if len(numbers_of(one)) > MOST_NUMBERS]
    assert found == []


def test_numbers_are_counted_where_they_are_prose():
    page = "Rank 8 has .58, .32, 1,024 and 16 in 2024 ([x](2407.16153)).\n\n| 1 | 2 |\n\n$a_1 + 2$ and `3 4` of 5."
    assert [len(numbers_of(one)) for one in sentences_of(page)] == [5, 1]


def named_in(path):
    """What a page writes as code: the words of every inline span, and the commands of console blocks."""
    text = path.read_text()
    spans = re.findall(r"(?<!`)`([^`\n]+)`(?!`)", re.sub(r"^```.*?^```$", "", text, flags=re.MULTILINE | re.DOTALL))
    return spans + re.findall(r"^\$ (rankwise .*)$", text, re.MULTILINE)


def known_options():
    names = set()
    for command in all_commands():
        hints = get_type_hints(command, include_extras=True)
        for name, one in inspect.signature(command).parameters.items():
            fields = dataclasses.fields(one.default) if dataclasses.is_dataclass(one.default) else ()
            names |= {f"--{each.name}" for each in fields} | {f"--{name}".replace("_", "-")}
            names |= {f"--no-{name}"} if one.default is True else set()
            names |= {alias for other in get_args(hints[name])[1:] for alias in getattr(other, "aliases", None) or ()}
    return names | {"--help", "--version"}


@pytest.mark.parametrize("path", PAGES, ids=lambda path: path.name)
def test_files_and_options_that_a_page_names_exist(path):
    options = known_options()
    spans = named_in(path)
    ours = [span for span in spans if span.startswith(("--", "rankwise "))]
    unknown = [name for span in ours for name in re.findall(r"(?<!\S)--[a-z][a-z-]*", span) if name not in options]
    presets = [name for span in ours for name in re.findall(r"--preset (\w+)", span)]
    files = [name for span in spans for name in re.findall(r"(?<![\w./*])[\w/]+\.py\b", span)]
    places = [ROOT, ROOT / "src" / "rankwise", ROOT / "tests", ROOT / "examples", ROOT / "docs"]
    missing = [name for name in files if not any((place / name).exists() for place in places)]
    assert (unknown, [name for name in presets if name not in PRESETS], missing) == ([], [], [])
