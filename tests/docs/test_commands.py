"""README and docs, followed as a reader would: every command and every block of Python, page by page."""

import contextlib
import io
import re
import shutil
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))
from docs.tools.commands import Command, File, Python, Reader, WrongPageError, agrees, answers, blocks_of, shows
from exceptions import EXCEPTIONS, exception_of
from reader_files import ROOT, reader_files

from rankwise.cli import main
from rankwise.need.measurement import NeedSettings

DOCS = ROOT / "docs"
PAGES = [ROOT / "README.md", *(page for page in sorted(DOCS.rglob("*.md")) if "results" not in page.parts)]
WITH_COMMANDS = [page for page in PAGES if blocks_of(page)]
FROM_NOTHING = ("tutorial.md",)
"""Pages that make all they need."""


def name(page):
    return str(page.relative_to(ROOT))


@pytest.fixture(scope="module")
def granted(tmp_path_factory):
    return reader_files(tmp_path_factory.mktemp("granted"))


def follow(page, directory, *, quick):
    reader = Reader(directory)
    for block in blocks_of(page):
        if isinstance(block, Python):
            reader.execute(block)
        elif isinstance(block, File):
            reader.write(block)
        else:
            run(reader, block, quick=quick)


def run(reader, command, *, quick):
    entry = exception_of(command.text)
    more = () if entry is None else entry.quick if quick else entry.full
    if more is not None:
        reader.run(command, more=more)


def directory_for(page, granted, tmp_path, *, quick):
    """Where the page is followed: with what it takes for granted; in quick tests, with what it would have trained."""
    if page.name not in FROM_NOTHING:
        return Path(shutil.copytree(granted, tmp_path / "here", symlinks=True))
    if quick:
        shutil.copytree(granted / "runs", tmp_path / "runs")
    return tmp_path


@pytest.fixture
def few_questions(monkeypatch):
    """``rankwise need`` asks 8,192 questions of every form; here a sixteenth of them."""
    check = NeedSettings.__post_init__

    def fewer(settings):
        check(settings)
        object.__setattr__(settings, "questions", 512)

    monkeypatch.setattr(NeedSettings, "__post_init__", fewer)


@pytest.mark.usefixtures("few_questions")
@pytest.mark.parametrize("page", WITH_COMMANDS, ids=name)
def test_a_page_can_be_followed(page, granted, tmp_path):
    follow(page, directory_for(page, granted, tmp_path, quick=True), quick=True)


@pytest.mark.slow
@pytest.mark.parametrize("page", WITH_COMMANDS, ids=name)
def test_a_page_can_be_followed_with_what_takes_longer(page, granted, tmp_path):
    follow(page, directory_for(page, granted, tmp_path, quick=False), quick=False)


def all_commands():
    return [block for page in PAGES for block in blocks_of(page) if isinstance(block, Command)]


def test_every_exception_has_a_command():
    taken = {exception_of(command.text) for command in all_commands()}
    assert [entry.pattern for entry in EXCEPTIONS if entry not in taken] == []


def test_commands_in_running_text_exist():
    """`rankwise audit MODEL --text` within a sentence: the command and its options are those of its help."""
    mentioned = {}
    for page in [*PAGES, *(ROOT / "results").glob("*.md")]:
        for code in re.findall(r"`(rankwise [a-z][^`]*)`", page.read_text()):
            mentioned.setdefault(code, name(page))
    assert len(mentioned) > 20
    options = {}
    for code, page in mentioned.items():
        command, *rest = code.split()[1:]
        if command not in options:
            options[command] = help_of(command)
        assert options[command] is not None, f"{page}: {code}"
        unknown = [word for word in rest if word.startswith("-") and word not in options[command]]
        assert unknown == [], f"{page}: {code}"


def help_of(command):
    with contextlib.redirect_stdout(io.StringIO()) as out, contextlib.redirect_stderr(io.StringIO()):
        code = main([command, "--help"])
    return set(re.findall(r"--?[a-z][a-z-]*", out.getvalue())) if code == 0 else None


def test_files_that_pages_name_exist():
    for page in PAGES:
        for path in re.findall(r"`((?:src|tests|docs|examples|benchmarks)/[\w./-]+)`", page.read_text()):
            assert (ROOT / path).exists(), f"{name(page)}: {path}"


# How the reading itself works.


def page_of(tmp_path, text):
    page = tmp_path / "page.md"
    page.write_text(text)
    return page


def test_commands_and_their_output_are_told_apart(tmp_path):
    page = page_of(tmp_path, "x\n\n```console\n$ rankwise a \\\n    --b  # why\nout\n$ rankwise c\n```\n")
    first, second = blocks_of(page)
    assert (first.line, first.words, first.shown) == (4, ["rankwise", "a", "--b"], "out")
    assert (second.line, second.text, second.shown) == (7, "rankwise c", "")


@pytest.mark.parametrize("text", ["```\nx\n```\n", "```bash\n$ x\n```\n", "```console\nrankwise x\n```\n"])
def test_commands_cannot_hide(tmp_path, text):
    with pytest.raises(WrongPageError):
        blocks_of(page_of(tmp_path, text))


def test_what_is_shown_is_compared(tmp_path):
    assert shows("need 5 of 64\n...\nneed.html", "need 5 of\n 64 (95 %)\nmore\nneed.html\n")
    assert shows("error 0.456", "error 0.47")
    assert not shows("error 0.456", "error 0.6")
    assert not shows("need 5", "rank 5")
    assert not shows("a\n...\nb", "b a")
    assert not shows("rank 3 ... error", "rank 4 error")
    assert shows("a\n...\nrank 8 error 0.1", "a rank 1 error 0.4 rank 8 error 0.1")


def test_failing_commands_and_wrong_answers_are_seen(tmp_path):
    reader = Reader(tmp_path)
    page = page_of(tmp_path, "```console\n$ rankwise bound --dim 8\n$ rankwise saturate --length 64\n2 tokens\n```\n")
    for command in blocks_of(page):
        with pytest.raises(WrongPageError, match=r"page\.md:"):
            reader.run(command)
    with pytest.raises(WrongPageError, match="expected rankwise or python"):
        reader.run(Command(page, 1, "rm -rf x"))
    with pytest.raises(WrongPageError, match=r"page\.md:3: x \+ 1 is 3"):
        reader.execute(Python(page, 2, "x = 2\nx + 1  # 4: no\n"))


def test_numbers_behind_expressions_are_answers():
    source = "f(1).x  # 0.124: why\ny = 2  # 3\nf(2)  # [8, 3]\n# 5\ng()\n"
    assert list(answers(source)) == [(1, "f(1).x", "0.124")]
    assert agrees(0.1239, "0.124")
    assert agrees(0.1249, "0.124")
    assert not agrees(0.1261, "0.124")
    assert agrees(1.234e12, "1.2e12")
