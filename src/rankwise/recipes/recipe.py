"""What every figure of ``rankwise reproduce`` shares: presets, a picture, a table, a reading, and their files."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, Generic, TypeVar

from rankwise.errors import InvalidInputError
from rankwise.recipes.marks import Marked, Value
from rankwise.report import Picture
from rankwise.whole_file import write_whole

S = TypeVar("S")
M = TypeVar("M", bound=Marked)


@dataclass(frozen=True, kw_only=True)
class Reproduced:
    """A table for the reader, what to see in it, and the files that were written, the picture among them."""

    columns: tuple[str, ...]
    rows: tuple[tuple[Value | None, ...], ...]
    reading: tuple[str, ...]
    files: tuple[Path, ...] = ()


class Recipe(ABC, Generic[S, M]):
    """A figure: from the settings of a preset to marks, and from these to a picture and words."""

    name: ClassVar[str]
    presets: ClassVar[Mapping[str, Any]]

    @abstractmethod
    def picture(self, settings: S, marks: Sequence[M]) -> Picture:
        """The picture of the marks."""

    @abstractmethod
    def reading(self, settings: S, marks: Sequence[M]) -> list[str]:
        """What the numbers say, a line each, computed from them."""

    @abstractmethod
    def table(self, marks: Sequence[M]) -> Mapping[str, Sequence[Value | None]]:
        """The columns of the printed table by their names."""

    def settings(self, preset: str) -> S:
        """The settings of that name."""
        if preset not in self.presets:
            raise InvalidInputError(f"--preset: expected one of {', '.join(self.presets)}, got {preset!r}")
        found: S = self.presets[preset]
        return found

    def present(self, preset: str, marks: Sequence[M]) -> Reproduced:
        """Table and reading of the marks."""
        table = self.table(marks)
        return Reproduced(
            columns=tuple(table),
            rows=tuple(zip(*table.values(), strict=True)),
            reading=tuple(self.reading(self.settings(preset), marks)),
        )

    def write_marks(self, preset: str, command: str, marks: Sequence[M], numbers: str, out: Path) -> Reproduced:
        """Write PNG, SVG, the ``numbers`` as CSV, and a page with picture, reading and command into ``out``."""
        from rankwise.report import save_figure

        done, stem = self.present(preset, marks), out / f"{self.name}-{preset}"
        files = save_figure(self.picture(self.settings(preset), marks).draw(), stem)
        lines = "\n".join(f"- {line}" for line in done.reading)
        page = f"# {stem.name}\n\n![{stem.name}]({stem.name}.png)\n\n{lines}\n\n"
        page += f"Numbers: [{stem.name}.csv]({stem.name}.csv). Made by `{command}`.\n"
        texts = [
            write_whole(out / f"{stem.name}{end}", text.encode()) for end, text in ((".csv", numbers), (".md", page))
        ]
        return Reproduced(columns=done.columns, rows=done.rows, reading=done.reading, files=(*files, *texts))
