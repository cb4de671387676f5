"""What all figures share that are computed at once: from a preset to marks, part by part, and to files."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, ClassVar, TypeVar

from rankwise.progress import Progress, silent
from rankwise.recipes.marks import Mark, Value, csv_text
from rankwise.recipes.recipe import Recipe, Reproduced, S

M = TypeVar("M", bound=Mark)


class ComputedFigure(Recipe[S, M]):
    """A figure that needs no training. A subclass says which parts there are and what marks each part has."""

    columns: ClassVar[tuple[str, ...]]
    """The fields that the printed table shows."""

    @abstractmethod
    def parts(self, settings: S) -> Iterable[tuple[Any, ...]]:
        """What can be computed independently: the further arguments of ``marks``."""

    @abstractmethod
    def marks(self, settings: S, *part: Any) -> Iterable[M]:
        """The numbers of one part."""

    def compute(self, settings: S, progress: Progress = silent) -> list[M]:
        """The numbers of the figure."""
        found: list[M] = []
        parts = list(self.parts(settings))
        for done, part in enumerate(parts):
            progress(f"{self.name} ({', '.join(map(str, part))})", done, len(parts))
            found += self.marks(settings, *part)
        return found

    def tabled(self, marks: Sequence[M]) -> Sequence[M]:
        """The marks that the table shows."""
        return marks

    def table(self, marks: Sequence[M]) -> dict[str, Sequence[Value | None]]:
        """The columns of the tabled marks."""
        return {column: [mark.get(column) for mark in self.tabled(marks)] for column in self.columns}

    def write(self, preset: str, command: str, out: Path, progress: Progress = silent) -> Reproduced:
        """Compute a preset and write CSV, PNG, SVG and the reading into the folder ``out``."""
        marks = self.compute(self.settings(preset), progress)
        return self.write_marks(preset, command, marks, csv_text([mark.columns() for mark in marks]), out)
