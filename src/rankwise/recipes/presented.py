"""What every figure hands back, and the files that it becomes."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from rankwise.errors import InvalidInputError
from rankwise.whole_file import write_whole

if TYPE_CHECKING:
    from matplotlib.figure import Figure

Say = Callable[[str], None]
"""Takes one line of progress at a time."""

_Settings = TypeVar("_Settings")


@dataclass(frozen=True, kw_only=True)
class Presented:
    """A table for the reader, what to see in it, and the picture."""

    columns: tuple[str, ...]
    rows: tuple[tuple[str | int | float | None, ...], ...]
    reading: tuple[str, ...]
    figure: Figure


@dataclass(frozen=True, kw_only=True)
class Reproduced:
    """The same once it is written: the picture is among ``files``."""

    columns: tuple[str, ...]
    rows: tuple[tuple[str | int | float | None, ...], ...]
    reading: tuple[str, ...]
    files: tuple[Path, ...]


def pick_preset(presets: Mapping[str, _Settings], preset: str) -> _Settings:
    """The settings of that name."""
    if preset not in presets:
        raise InvalidInputError(f"--preset: expected one of {', '.join(presets)}, got {preset!r}")
    return presets[preset]


def write_files(done: Presented, stem: Path, command: str, numbers: Mapping[str, str]) -> Reproduced:
    """Write ``stem``.png, .svg, the ``numbers`` by their suffix, and ``stem``.md: the picture, its command and reading.

    A stem "figure1-laptop" is of the preset laptop.
    """
    from rankwise.report.figures import save_figure

    files = [*save_figure(done.figure, stem)]
    files += [write_whole(stem.with_name(stem.name + suffix), text.encode()) for suffix, text in numbers.items()]
    lines = "\n".join(f"- {line}" for line in done.reading)
    tables = ", ".join(f"[{stem.name}{suffix}]({stem.name}{suffix})" for suffix in numbers)
    page = f"# {stem.name}\n\n![{stem.name}]({stem.name}.png)\n\n{lines}\n\nNumbers: {tables}. Made by `{command}`.\n"
    files.append(write_whole(stem.with_name(f"{stem.name}.md"), page.encode()))
    return Reproduced(columns=done.columns, rows=done.rows, reading=done.reading, files=tuple(files))
