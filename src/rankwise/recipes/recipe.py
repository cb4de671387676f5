"""What every figure of ``rankwise reproduce`` shares: presets, a picture, a table, a reading, and their files."""

from __future__ import annotations

import re
import sys
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import ClassVar, Generic, TypeVar

from rankwise.errors import InvalidInputError
from rankwise.recipes.points import Point, Row, Value, csv_text
from rankwise.report import Picture
from rankwise.whole_file import write_whole

S = TypeVar("S")


@dataclass(frozen=True, kw_only=True)
class Reproduced:
    """A table for the reader, what to see in it, and the files that were written, the picture among them."""

    columns: tuple[str, ...]
    rows: tuple[tuple[Value | None, ...], ...]
    reading: tuple[str, ...]
    files: tuple[Path, ...] = ()


class Recipe(ABC, Generic[S]):
    """A figure: from the settings of a preset to points, and from these to a picture and words.

    - ``presets``: the settings by the names of the presets.
    """

    name: ClassVar[str]

    def __init__(self, **presets: S) -> None:
        self.presets = presets

    @abstractmethod
    def picture(self, settings: S, points: Sequence[Point]) -> Picture:
        """The picture of the points."""

    @abstractmethod
    def reading(self, settings: S, points: Sequence[Point]) -> list[str]:
        """What the numbers say, a line each, computed from them."""

    @abstractmethod
    def table(self, points: Sequence[Point]) -> Mapping[str, Sequence[Value | None]]:
        """The columns of the printed table by their names."""

    def settings(self, preset: str) -> S:
        """The settings of that name."""
        if preset not in self.presets:
            raise InvalidInputError(f"--preset: expected one of {', '.join(self.presets)}, got {preset!r}")
        return self.presets[preset]

    def present(self, preset: str, points: Sequence[Point]) -> Reproduced:
        """Table and reading of the points."""
        table = self.table(points)
        return Reproduced(
            columns=tuple(table),
            rows=tuple(zip(*table.values(), strict=True)),
            reading=tuple(self.reading(self.settings(preset), points)),
        )

    def write_files(
        self, preset: str, command: str, rows: Sequence[Row], points: Sequence[Point], out: Path
    ) -> Reproduced:
        """Write PNG, SVG, the ``rows`` as CSV, and a page with picture, reading and command into ``out``."""
        from rankwise.report import save_figure

        done, stem = self.present(preset, points), out / f"{self.name}-{preset}"
        files = save_figure(self.picture(self.settings(preset), points).draw(), stem)
        lines = "\n".join(f"- {line}" for line in done.reading)
        first = (sys.modules[type(self).__module__].__doc__ or self.name).splitlines()[0]
        title = re.split(r"(?<=[.?]) ", first)[0].rstrip(".").replace("``", "`")
        page = f"# {title}\n\n![{self.name}]({stem.name}.png)\n\n{lines}\n\n"
        page += f"Numbers: [{stem.name}.csv]({stem.name}.csv). Made by `{command}`.\n"
        texts = {".csv": csv_text(rows), ".md": page}
        written = [write_whole(out / f"{stem.name}{end}", text.encode()) for end, text in texts.items()]
        return replace(done, files=(*files, *written))
