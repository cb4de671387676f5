"""What all figures share that are computed at once: from a preset to numbers, a table, and files."""

from __future__ import annotations

import dataclasses
import json
from abc import ABC, abstractmethod
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Generic, TypeVar

from rankwise.recipes.presented import Presented, Reproduced, Say, pick_preset, write_files

if TYPE_CHECKING:
    from matplotlib.figure import Figure

S = TypeVar("S")
D = TypeVar("D")


class ComputedFigure(ABC, Generic[S, D]):
    """A figure that needs no training. A subclass says what is computed (a dataclass of plain numbers) and drawn."""

    name: ClassVar[str]
    presets: ClassVar[Mapping[str, Any]]
    columns: ClassVar[tuple[str, ...]]
    """Of the table."""

    @abstractmethod
    def compute(self, settings: S, say: Say) -> D:
        """The numbers of the figure."""

    @abstractmethod
    def draw(self, data: D) -> Figure:
        """The picture of the numbers."""

    @abstractmethod
    def table(self, data: D) -> list[tuple[str | int | float | None, ...]]:
        """The rows of the table."""

    @abstractmethod
    def reading(self, data: D) -> list[str]:
        """What the numbers say, a line each, computed from them."""

    def present(self, data: D) -> Presented:
        """Picture, table and reading of the numbers."""
        from rankwise.report.figures import house_style

        with house_style():
            figure = self.draw(data)
        return Presented(
            columns=self.columns, rows=tuple(self.table(data)), reading=tuple(self.reading(data)), figure=figure
        )

    def write(self, preset: str, command: str, out: Path, say: Say) -> Reproduced:
        """Compute a preset and write JSON, PNG, SVG and the reading into the folder ``out``."""
        data: Any = self.compute(pick_preset(self.presets, preset), say)
        numbers = json.dumps(dataclasses.asdict(data), indent=1, allow_nan=False) + "\n"
        return write_files(self.present(data), out / f"{self.name}-{preset}", command, {".json": numbers})
