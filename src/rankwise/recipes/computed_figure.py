"""What all figures share that are computed at once: from a preset to points, part by part, and to files."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, ClassVar

from rankwise.progress import Progress, silent
from rankwise.recipes.points import Point, Row, Value
from rankwise.recipes.recipe import Recipe, Reproduced, S


class ComputedFigure(Recipe[S]):
    """A figure that needs no training. A subclass says which parts there are and what rows each part has."""

    columns: ClassVar[tuple[str, ...]]
    """The columns that the printed table shows."""

    @abstractmethod
    def parts(self, settings: S) -> Iterable[tuple[Any, ...]]:
        """What can be computed independently: the further arguments of ``rows``."""

    @abstractmethod
    def rows(self, settings: S, *part: Any) -> Iterable[Row]:
        """The numbers of one part."""

    def compute(self, settings: S, progress: Progress = silent) -> list[Point]:
        """The numbers of the figure."""
        found: list[Point] = []
        parts = list(self.parts(settings))
        for done, part in enumerate(parts):
            progress(f"{self.name} ({', '.join(map(str, part))})", done, len(parts))
            found += [Point((row,)) for row in self.rows(settings, *part)]
        return found

    def tabled(self, points: Sequence[Point]) -> Sequence[Point]:
        """The points that the table shows."""
        return points

    def table(self, points: Sequence[Point]) -> dict[str, Sequence[Value | None]]:
        """The columns of the tabled points."""
        rows = [point.rows[0] for point in self.tabled(points)]
        return {column: [row.get(column) for row in rows] for column in self.columns}

    def write(self, preset: str, command: str, out: Path, progress: Progress = silent) -> Reproduced:
        """Compute a preset and write CSV, PNG, SVG and the reading into the folder ``out``."""
        points = self.compute(self.settings(preset), progress)
        return self.write_files(preset, command, [point.rows[0] for point in points], points, out)
