"""The numbers of a figure: rows, which are the lines of its CSV, and points, the rows that differ in their seed alone.

An error has three forms on its way to a picture: the result in the store, a row, and a point.
"""

from __future__ import annotations

import csv
import io
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from rankwise.estimate import Estimate
from rankwise.spec import RunSpec
from rankwise.sweep import TrainedRun, spreadsheet_cell

Value = str | int | float
Row = Mapping[str, Value | None]
"""Values by their columns; ``NAME_se`` is the standard error of ``NAME``. None is the same as no such column."""


def run_columns(run: RunSpec) -> dict[str, Value]:
    """The columns of every trained figure that are known before a run is trained.

    - ``dim``: of the vectors that the layers read and write;
    - ``points``: tokens per example;
    - ``rank``: of each head's query-key form;
    - ``sequences``: training examples.
    """
    return {
        "protocol": run.protocol,
        "dim": run.model.dim,
        "points": run.task.tokens,
        "layers": run.model.layers,
        "heads": run.model.heads,
        "rank": run.model.rank,
        "seed": run.seed,
        "sequences": run.optim.steps * run.optim.batch,
    }


def result_row(trained: TrainedRun, extra: Row) -> Row:
    """The row of one trained run: the columns of every figure, then the ``extra`` ones of this.

    - ``sequences``: fewer than planned where the run stopped early;
    - ``error``: on held-out examples, with its standard error over these;
    - ``train_min``: the lowest mean training error of an epoch, the statistic of the paper's figures;
    - ``seconds``: at work, all attempts together.
    """
    reached = ("sequences", "error", "error_se", "train_min")
    return {
        **run_columns(trained.run),
        **{name: trained.result[name] for name in reached},
        "parameters": trained.run.parameters(),
        "seconds": round(trained.seconds, 3),
        "run_id": trained.run.id,
        **extra,
    }


@dataclass(frozen=True)
class Point:
    """Rows that differ in their seed alone; a number that is computed is a point with one row."""

    rows: tuple[Row, ...]

    def __getitem__(self, column: str) -> Any:
        """What all rows have in ``column``."""
        return self.rows[0][column]

    def __contains__(self, column: str) -> bool:
        """Whether there is a value in ``column``."""
        return self.rows[0].get(column) is not None

    @property
    def error(self) -> float:
        """The mean held-out error."""
        return self.mean("error")

    def mean(self, column: str) -> float:
        """The mean over seeds."""
        return self.estimate(column).mean

    def spread(self, column: str = "error") -> float:
        """The standard error of that mean."""
        return self.estimate(column).standard_error

    def told(self, column: str = "error") -> str:
        """Mean and, where it is known, standard error to its first digit: 0.25 ± 0.01."""
        mean, error = self.mean(column), self.spread(column)
        if error <= 1e-9 * abs(mean):
            return f"{mean:.3g}"
        digits = max(0, -math.floor(math.log10(error)))
        return f"{mean:.{digits}f} ± {error:.{digits}f}"

    def below(self, other: Point) -> bool:
        """Whether the error is lower by more than two standard errors."""
        return other.error - self.error > 2 * math.hypot(self.spread(), other.spread())

    def estimate(self, column: str) -> Estimate:
        """The mean over seeds; one seed has the standard error of its validation, 0 where that is not known."""
        return Estimate.over(self.values(column), alone=float(self.rows[0].get(f"{column}_se") or 0.0))

    def values(self, column: str) -> list[float]:
        """The numbers of all rows."""
        found: list[Any] = [row[column] for row in self.rows]
        return [float(value) for value in found]


def estimated(name: str, found: Estimate, unit: float = 1.0) -> dict[str, float]:
    """The two columns of an estimate, in multiples of ``unit``."""
    return {name: found.mean / unit, f"{name}_se": found.standard_error / unit}


def points_of(rows: Iterable[Row], keys: Sequence[str]) -> list[Point]:
    """The points that the columns ``keys`` tell apart, in the order of these columns."""
    groups: dict[tuple[Any, ...], list[Row]] = {}
    for row in rows:
        groups.setdefault(tuple(row[key] for key in keys), []).append(row)
    return [Point(tuple(groups[key])) for key in sorted(groups, key=lambda key: [_order(value) for value in key])]


def select(points: Iterable[Point], /, **wanted: Value) -> list[Point]:
    """The points that have these values in these columns."""
    return [point for point in points if all(point[name] == value for name, value in wanted.items())]


def lines_of(points: Iterable[Point], key: str) -> dict[Any, list[Point]]:
    """The points by their value in column ``key``, in its order."""
    lines: dict[Value, list[Point]] = {}
    for point in points:
        lines.setdefault(point[key], []).append(point)
    return {value: lines[value] for value in sorted(lines, key=_order)}


def _order(value: Value) -> tuple[bool, float, str]:
    """Numbers before words, each among themselves."""
    return (True, 0.0, value) if isinstance(value, str) else (False, float(value), "")


def compared(one: Point, other: Point, better: str, worse: str, name: Callable[[Point], str]) -> str:
    """Two errors, and what they say: ``better`` if that of ``one`` is below the other, ``worse`` if above."""
    both = "; ".join(f"{name(point)}: {point.told()}" for point in (one, other))
    found = better if one.below(other) else worse if other.below(one) else "That is no clear difference"
    return f"{both}. {found} (two standard errors decide)."


def csv_text(rows: Sequence[Row]) -> str:
    """``rows`` as CSV, with the columns of all; an empty cell where there is no value."""
    columns = tuple(dict.fromkeys(name for row in rows for name in row))
    text = io.StringIO(newline="")
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(columns)
    for row in rows:
        writer.writerow(spreadsheet_cell(row.get(name)) for name in columns)
    return text.getvalue()
