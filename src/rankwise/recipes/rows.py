"""Trained results as rows: one a run (or several, where a run is measured in several ways), in CSV and back.

A figure is drawn from rows alone, so that it can be drawn again from its CSV without the store it was trained in. The
first columns are the same for every figure; what a figure measures besides follows them.
"""

from __future__ import annotations

import csv
import io
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from rankwise.errors import InvalidInputError
from rankwise.report.whole_file import write_whole
from rankwise.sweep.printable import spreadsheet_cell

if TYPE_CHECKING:
    from rankwise.recipes.trained import TrainedRun

Value = str | int | float
_Key = TypeVar("_Key", bound=tuple[Any, ...])


@dataclass(frozen=True, kw_only=True)
class ResultRow:
    """What a run was, what it reached, and the id that leads back to its spec; ``extra`` is the figure's own."""

    figure: str
    protocol: str
    dim: int
    points: int
    layers: int
    heads: int
    rank: int
    seed: int
    sequences: int
    error: float
    error_se: float
    train_min: float
    parameters: int
    seconds: float
    run_id: str
    extra: Mapping[str, Value] = field(default_factory=dict)


COLUMNS = tuple(column.name for column in fields(ResultRow) if column.name != "extra")
_TYPES: dict[str, Callable[[str], Value]] = {
    column.name: {"int": int, "float": float, "str": str}[str(column.type)]
    for column in fields(ResultRow)
    if column.name in COLUMNS
}


def result_row(figure: str, trained: TrainedRun, extra: Mapping[str, Value] | None = None) -> ResultRow:
    """The row of one trained run."""
    run, model = trained.run, trained.run.model
    return ResultRow(
        figure=figure,
        protocol=run.protocol,
        dim=model.dim,
        points=run.task.tokens,
        layers=model.layers,
        heads=model.heads,
        rank=model.rank,
        seed=run.seed,
        sequences=trained.sequences,
        error=trained.error,
        error_se=trained.error_se,
        train_min=trained.train_min,
        parameters=run.parameters(),
        seconds=round(trained.seconds, 3),
        run_id=run.id,
        # a name such as "2024" must be in the row what it will be when it is read back
        extra={name: _value(value) if isinstance(value, str) else value for name, value in (extra or {}).items()},
    )


@dataclass(frozen=True, kw_only=True)
class Mean:
    """The mean error of equal cells over their seeds.

    ``spread`` is the standard error of that mean: between seeds where there are several, else of the one validation;
    0 where that is not known.
    """

    error: float
    spread: float
    seeds: int
    row: ResultRow


def mean_over_seeds(
    rows: Iterable[ResultRow],
    key: Callable[[ResultRow], _Key],
    value: Callable[[ResultRow], float] | None = None,
    spread: Callable[[ResultRow], float] | None = None,
) -> dict[_Key, Mean]:
    """The cells that ``key`` tells apart, in the order of their keys.

    ``value`` is the error unless given, and ``spread`` what one row knows of its uncertainty: of another value
    nothing, unless given.
    """
    alone = spread or ((lambda row: row.error_se) if value is None else (lambda row: 0.0))
    value = value or (lambda row: row.error)
    cells: dict[_Key, list[ResultRow]] = {}
    for row in rows:
        cells.setdefault(key(row), []).append(row)
    means = {}
    for cell, group in sorted(cells.items()):
        values = [value(row) for row in group]
        mean = math.fsum(values) / len(values)
        between = math.fsum((one - mean) ** 2 for one in values) / max(1, len(values) - 1) / len(values)
        uncertainty = math.sqrt(between) if len(values) > 1 else alone(group[0])
        means[cell] = Mean(error=mean, spread=uncertainty, seeds=len(values), row=group[0])
    return means


def write_rows(rows: Sequence[ResultRow], path: Path) -> Path:
    """``rows`` as CSV in one piece: the common columns, then the figure's own."""
    own = tuple(dict.fromkeys(name for row in rows for name in row.extra))
    text = io.StringIO(newline="")
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow((*COLUMNS, *own))
    for row in rows:
        common = (getattr(row, name) for name in COLUMNS)
        writer.writerow(map(spreadsheet_cell, (*common, *(row.extra.get(name, "") for name in own))))
    return write_whole(path, text.getvalue().encode())


def read_rows(path: Path) -> list[ResultRow]:
    """The rows of a CSV that ``write_rows`` wrote."""
    try:
        with path.open(newline="", encoding="utf-8") as file:
            table = list(csv.DictReader(file))
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        raise InvalidInputError(f"{path}: expected a CSV of results, got: {error}") from None
    rows = []
    for number, cells in enumerate(table, start=2):
        missing = [name for name in COLUMNS if not cells.get(name)]
        if missing:
            raise InvalidInputError(f"{path}, line {number}: expected a value in {missing[0]!r}, got none")
        try:
            common: dict[str, Any] = {name: convert(cells[name]) for name, convert in _TYPES.items()}
        except ValueError as error:
            raise InvalidInputError(f"{path}, line {number}: expected numbers, got: {error}") from None
        extra = {name: _value(text) for name, text in cells.items() if name not in COLUMNS and name and text}
        rows.append(ResultRow(**common, extra=extra))
    return rows


def _value(text: str) -> Value:
    for convert in (int, float):
        try:
            return convert(text)
        except ValueError:
            continue
    return text
