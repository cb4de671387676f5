"""Words of README, docs, results and docstrings: the patterns that made them hard to read are gone."""

import ast
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGES = [
    *(ROOT / name for name in ("README.md", "CHANGELOG.md", "LOG.md", "SECURITY.md")),
    *sorted((ROOT / "docs").glob("*.md")),
    *sorted((ROOT / "results").glob("*.md")),
]
_COUNTED = (
    "seconds?|ms|us|ns|bytes|bits|nats|tokens|steps|runs|numbers?|operations|queries|heads|epochs|minutes|rows?|"
    "parameters|errors|columns?|values|one|two|three|seeds"
)
_UNITS = (
    "run|token|query|step|call|key head|head|layer|second|example|row|epoch|worker|score|seed|file|line|hour|byte|text|"
    "piece|key|block|minute|node|process"
)
_RULES = {
    rf"\b(?:{_COUNTED}) an? (?:{_UNITS})\b(?! (?:sees|may|of|that|is|has))": "per",
    r"\bby heart\b": "memorised",
    r"\bstarts? as nothing\b": "initialised to zero",
    r"\bwritten down\b": "hand-built",
    r"\blikewise\b": "the value itself",
    r"\bon new points\b|\bon such sequences\b": "held-out",
    r"\bx_i beside\b": "the token's own vector",
}
LONGEST_README = 900


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


def test_the_rules_find_what_they_are_for(tmp_path):
    page = tmp_path / "page.md"
    page.write_text("One row a run, learned by heart.\nWhich keys a query sees.\n2 us a call, written down.\n")
    assert len(findings(page)) == 4


def test_readme_is_short():
    assert len((ROOT / "README.md").read_text().split()) < LONGEST_README
