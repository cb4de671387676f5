"""What all trained figures share: from a preset to a sweep, from its runs to rows, points, a table, and files."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from inspect import signature
from pathlib import Path
from typing import Any, ClassVar, TypeVar

from rankwise.errors import InvalidInputError, require_int
from rankwise.recipes.only import matching, parse_only
from rankwise.recipes.points import Point, Row, Value, points_of, result_row, run_columns
from rankwise.recipes.recipe import Recipe, Reproduced
from rankwise.spec import RunSpec, SweepSpec, vary
from rankwise.sweep import TrainedRun


@dataclass(frozen=True, kw_only=True)
class Settings:
    """A preset of a figure; subclasses add its sizes."""

    seeds: int = 3
    """With how many seeds every cell is trained."""


S = TypeVar("S", bound=Settings)


class TrainedFigure(Recipe[S]):
    """A figure whose points are trained. A subclass says what varies, what is measured and what is drawn."""

    keys: ClassVar[tuple[str, ...]]
    """The columns that tell its points apart."""
    tabled: ClassVar[tuple[str, ...]] = ("error",)
    """The columns whose mean over seeds the table shows."""

    @abstractmethod
    def runs(self, settings: S) -> Iterable[RunSpec]:
        """The runs of seed 0. Further keyword arguments are options of the command line that the figure has."""

    def columns(self, run: RunSpec) -> Mapping[str, Value]:
        """The figure's own columns that are known before ``run`` is trained."""
        return {}

    def measured(self, trained: TrainedRun) -> Iterable[Mapping[str, Value]]:
        """The figure's own columns that are known afterwards, for each row that the run makes."""
        return [{}]

    def sweep(self, preset: str, *, seeds: int | None = None, only: Sequence[str] = (), **options: Any) -> SweepSpec:
        """The runs of a preset, all with seed 0, then all with seed 1, and so on.

        - ``only``: words such as "rank=8,16" that choose runs by their columns.
        - ``options``: what ``runs`` understands besides the settings; another one is refused by name.
        """
        settings = self.settings(preset)
        own = [name for name in signature(self.runs).parameters if name != "settings"]
        for option in options:
            if option not in own:
                known = ", ".join(f"--{name}" for name in ("seeds", "only", *own))
                raise InvalidInputError(f"--{option}: expected an option of {self.name} ({known})")
        count = settings.seeds if seeds is None else require_int("--seeds", seeds, minimum=1)
        once = list(self.runs(settings, **options))
        runs = [vary(run, {"seed": seed}) for seed in range(count) for run in once]
        if only:
            wanted = matching([{**run_columns(run), **self.columns(run)} for run in runs], parse_only(only))
            runs = [run for run, is_wanted in zip(runs, wanted, strict=True) if is_wanted]
        return SweepSpec(name=f"{self.name} ({preset})", runs=tuple({run.id: run for run in runs}.values()))

    def rows(self, runs: Iterable[TrainedRun]) -> list[Row]:
        """The rows of trained runs, in their order."""
        return [
            result_row(trained, {**self.columns(trained.run), **measured})
            for trained in runs
            for measured in self.measured(trained)
        ]

    def table(self, points: Sequence[Point]) -> dict[str, Sequence[Value | None]]:
        """Keys, means and standard errors; a column of uncertainties that are not known, or of single seeds, is not."""
        columns: dict[str, Sequence[Value | None]] = {key: [point[key] for point in points] for key in self.keys}
        for column in self.tabled:
            columns[column] = [point.mean(column) for point in points]
            if any(spreads := [point.spread(column) for point in points]):
                columns[f"± {column}"] = spreads
        seeds = [len(point.rows) for point in points]
        return {**columns, "seeds": seeds} if set(seeds) != {1} else columns

    def write(self, preset: str, command: str, runs: Sequence[TrainedRun], out: Path) -> Reproduced:
        """Write CSV, PNG, SVG and the reading of ``runs`` into the folder ``out``."""
        rows = self.rows(runs)
        return self.write_files(preset, command, rows, points_of(rows, self.keys), out)
