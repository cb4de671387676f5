"""The commands of a page: found in its fenced blocks, run in one directory in the order in which a reader would.

A ``console`` block holds commands (``$ ...``, continued by a backslash) and what they print; ``...`` stands for output
left out. ``python`` blocks of a page share their names. Everything is run in this process: loading torch for every
command would take longer than the commands. rankwise is called through the entry point of its command line.
"""

from __future__ import annotations

import contextlib
import io
import re
import runpy
import shlex
import sys
import tokenize
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from markdown_it import MarkdownIt

# Blocks that hold nothing to run. A block without a language, or with one that is not known here, is an error: a
# command must not hide in it.
DATA_LANGUAGES = frozenset({"text", "toml", "json"})
_DIRECTIVE = re.compile(r"\{[a-z-]+\}")  # of the site: toctree, literalinclude
_FILE_NAME = re.compile(r"# ([\w-]+\.\w+)\n")
_NUMBER = re.compile(r"(?<![\w.])-?\d+(?:,\d{3})*(?:\.\d+)?(?:[eE][+-]?\d+)?(?![\w])")
_ANSWER = re.compile(r"#\s*(-?(?:\d+\.?\d*|\.\d+)(?:e[+-]?\d+)?)(?=$|[\s:,;])")


@dataclass(frozen=True)
class Command:
    """One command, as one line, and the output shown below it (empty: none is shown)."""

    page: Path
    line: int
    text: str
    shown: str = ""

    @property
    def words(self) -> list[str]:
        """What a shell would make of it; comments are gone."""
        return shlex.split(self.text, comments=True)


@dataclass(frozen=True)
class Python:
    """One ``python`` block."""

    page: Path
    line: int
    source: str


@dataclass(frozen=True)
class File:
    """A block of data whose first line names the file to put it into, as a comment: ``# ranks.toml``."""

    page: Path
    line: int
    name: str
    content: str


Block = Command | Python | File


class WrongPageError(Exception):
    """A page says something that does not hold."""


def blocks_of(page: Path) -> list[Block]:
    """All there is to run on a page, in its order."""
    found: list[Block] = []
    for token in MarkdownIt("commonmark").parse(page.read_text(encoding="utf-8")):
        if token.type != "fence":
            continue
        assert token.map is not None
        language, line = token.info.split()[0] if token.info.split() else "", token.map[0] + 2
        if language == "python":
            found.append(Python(page, line, token.content))
        elif language == "console":
            found += _commands(page, line, token.content)
        elif language in DATA_LANGUAGES:
            named = _FILE_NAME.match(token.content)
            found += [File(page, line, named[1], token.content)] if named else []
        elif not _DIRECTIVE.fullmatch(language):
            known = ", ".join(("console", "python", *sorted(DATA_LANGUAGES)))
            raise WrongPageError(f"{page}:{line}: expected a block of {known}, got {language!r}")
    return found


def _commands(page: Path, first: int, content: str) -> Iterator[Command]:
    text, shown, start, continued = "", [], first, False
    for at, line in enumerate(content.splitlines(), first):
        if continued:
            text += " " + line.strip().removesuffix("\\").rstrip()
        elif line.startswith("$ "):
            if text:
                yield Command(page, start, text, "\n".join(shown))
            text, shown, start = line[2:].removesuffix("\\").rstrip(), [], at
        elif not text:
            raise WrongPageError(f"{page}:{at}: expected '$ ' and a command first, got {line!r}")
        else:
            shown.append(line)
        continued = line.endswith("\\") and (continued or line.startswith("$ "))
    if text:
        yield Command(page, start, text, "\n".join(shown))


@dataclass
class Reader:
    """Someone who follows a page in ``directory``, where the files that the page takes for granted already lie."""

    directory: Path
    names: dict[str, Any] = field(default_factory=lambda: {"__name__": "__main__"})

    def run(self, command: Command, *, more: tuple[str, ...] = ()) -> str:
        """Run a command, with ``more`` words behind it; what it printed, or wrote into the file behind ``>``.

        Raises WrongPageError if it fails, or if it prints something else than the page shows.
        """
        words, into = command.words, None
        if len(words) > 2 and words[-2] == ">":
            words, into = words[:-2], words[-1]
        printed, complaints = io.StringIO(), io.StringIO()
        outputs = contextlib.redirect_stdout(printed), contextlib.redirect_stderr(complaints)
        with contextlib.chdir(self.directory), outputs[0], outputs[1]:
            code = _call([*words, *more])
        if code != 0:
            raise WrongPageError(
                f"{command.page}:{command.line}: {command.text}\nexit code {code}\n{complaints.getvalue()}"
            )
        if into is not None:
            (self.directory / into).write_text(printed.getvalue())
        elif command.shown and not more and not shows(command.shown, printed.getvalue()):
            raise WrongPageError(
                f"{command.page}:{command.line}: {command.text}\nthe page shows\n{command.shown}\n"
                f"but it prints\n{printed.getvalue()}"
            )
        return printed.getvalue()

    def write(self, block: File) -> None:
        """Put a file where the page says it is."""
        (self.directory / block.name).write_text(block.content)

    def execute(self, block: Python) -> None:
        """Execute a block; a line that is an expression with a number behind it (``# 0.124``) must have that value."""
        source = "\n" * (block.line - 1) + block.source
        with contextlib.chdir(self.directory), contextlib.redirect_stdout(io.StringIO()):
            exec(compile(source, str(block.page), "exec", dont_inherit=True), self.names)
            for line, expression, answer in answers(block.source):
                value = float(eval(expression, self.names))
                if not agrees(value, answer):
                    raise WrongPageError(f"{block.page}:{block.line + line - 1}: {expression} is {value}, not {answer}")


def _call(words: list[str]) -> int:
    if words[0] == "rankwise":
        from rankwise.cli import main

        return main(words[1:])
    if words[0] == "python" and words[1].endswith(".py"):
        return _script(words[1:])
    raise WrongPageError(
        f"{' '.join(words)}: expected rankwise or python FILE.py; anything else needs a word in tests/docs"
    )


def _script(argv: list[str]) -> int:
    before, sys.argv = sys.argv, argv
    folder = str(Path(argv[0]).parent.resolve())
    sys.path.insert(0, folder)  # as python does
    try:
        runpy.run_path(argv[0], run_name="__main__")
    except SystemExit as leaving:
        return leaving.code if isinstance(leaving.code, int) else int(leaving.code is not None)
    finally:
        sys.argv = before
        sys.path.remove(folder)
    return 0


def shows(shown: str, printed: str) -> bool:
    """Whether ``printed`` holds what a page shows, but for ``...``, the breaking of lines, and a tenth of any number.

    A tenth, because another processor rounds otherwise and training multiplies that.
    """
    words, start = printed.split(), 0
    for part in _parts(shown):
        ends = len(words) - len(part) + 1
        at = next((at for at in range(start, ends) if all(map(_same_word, part, words[at:]))), None)
        if at is None:
            return False
        start = at + len(part)
    return True


def _parts(shown: str) -> Iterator[list[str]]:
    part: list[str] = []
    for word in (*shown.split(), "..."):
        if word != "...":
            part.append(word)
        elif part:
            yield part
            part = []


def _same_word(shown: str, printed: str) -> bool:
    if shown == printed:
        return True
    numbers = [[float(number.replace(",", "")) for number in _NUMBER.findall(word)] for word in (shown, printed)]
    if _NUMBER.sub("#", shown) != _NUMBER.sub("#", printed):
        return False
    return all(abs(one - other) <= 0.1 * max(abs(one), abs(other)) for one, other in zip(*numbers, strict=True))


def answers(source: str) -> Iterator[tuple[int, str, str]]:
    """(line, expression, number as written) of every line ``expression  # number ...`` that stands alone."""
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        said = _ANSWER.match(token.string) if token.type == tokenize.COMMENT else None
        code = token.line[: token.start[1]].strip()
        if said is None or not code:
            continue
        with contextlib.suppress(SyntaxError):  # an assignment, say
            compile(code, "", "eval")
            yield token.start[0], code, said[1]


def agrees(value: float, written: str) -> bool:
    """Whether ``written`` is ``value``, rounded or cut where its digits end."""
    mantissa, _, exponent = written.lower().partition("e")
    digits = len(mantissa.partition(".")[2])
    return abs(value - float(written)) < 10.0 ** (int(exponent or 0) - digits)
