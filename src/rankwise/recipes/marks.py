"""What is drawn: marks, which have columns; how they are chosen, grouped, and joined to curves."""

from __future__ import annotations

import csv
import dataclasses
import io
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, TypeVar

from rankwise.report import PlotAxis, Series
from rankwise.sweep import spreadsheet_cell

Value = str | int | float


class Marked(Protocol):
    """A point of a trained figure, or a number of a computed one."""

    def get(self, column: str) -> Any:
        """What tells it apart."""

    def mean(self, column: str) -> float | None:
        """A number that is drawn, None where there is none."""

    def spread(self, column: str) -> float:
        """How well that number is known; 0 where nothing is known about it."""


M = TypeVar("M", bound=Marked)


@dataclass(frozen=True, kw_only=True)
class Mark:
    """A number of a computed figure, and a line of its CSV. A field ``NAME_se`` is the standard error of ``NAME``."""

    def columns(self) -> dict[str, Any]:
        """All fields by their names."""
        return dataclasses.asdict(self)

    def get(self, column: str) -> Any:
        """The field of that name."""
        return getattr(self, column)

    def mean(self, column: str) -> float | None:
        """The same, as a number."""
        value = self.get(column)
        return None if value is None else float(value)

    def spread(self, column: str) -> float:
        """Two standard errors."""
        return 2 * float(getattr(self, f"{column}_se", 0.0))


def select(marks: Sequence[M], /, **wanted: Value) -> list[M]:
    """The marks that have these values in these columns."""
    return [mark for mark in marks if all(mark.get(name) == value for name, value in wanted.items())]


def lines_of(marks: Iterable[M], key: str) -> dict[Any, list[M]]:
    """The marks by their value in column ``key``, in its order."""
    lines: dict[Value, list[M]] = {}
    for mark in marks:
        lines.setdefault(mark.get(key), []).append(mark)
    return {value: lines[value] for value in sorted(lines, key=column_order)}


def column_order(value: Value) -> tuple[bool, float, str]:
    """The order of columns: numbers before words, each among themselves."""
    return (True, 0.0, value) if isinstance(value, str) else (False, float(value), "")


def curve(
    label: str,
    marks: Sequence[M],
    *,
    x: str | Callable[[M], float],
    y: str = "error",
    published: Mapping[int, float] | None = None,
    notes: str | None = None,
    **style: Any,
) -> Series:
    """A line through the marks that have a ``y``.

    - ``x``: the column on the horizontal axis, or a function of a mark.
    - ``y``: the column whose mean is shown, with its spread.
    - ``published``: the paper's training errors by x.
    - ``notes``: the column that is written beside every mark.
    - ``style``: passed to matplotlib.
    """
    shown = [(mark, value) for mark in marks if (value := mark.mean(y)) is not None]
    return Series(
        label=label,
        x=[float(mark.get(x)) if isinstance(x, str) else x(mark) for mark, _ in shown],
        y=[value for _, value in shown],
        spread=[mark.spread(y) for mark, _ in shown],
        style=style,
        published=published,
        notes=[str(mark.get(notes)) for mark, _ in shown] if notes else (),
    )


ERROR = PlotAxis(label="squared error per query", scale="log")


def ticked(marks: Iterable[M], column: str = "rank", label: str = "rank of a head") -> PlotAxis:
    """A logarithmic axis with a tick at every value of ``column``."""
    return PlotAxis(label=label, scale="log2", ticks=sorted({float(mark.get(column)) for mark in marks}))


def csv_text(rows: Sequence[Mapping[str, Any]]) -> str:
    """``rows`` as CSV, with the columns of all; an empty cell where there is no value."""
    columns = tuple(dict.fromkeys(name for row in rows for name in row))
    text = io.StringIO(newline="")
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(columns)
    for row in rows:
        writer.writerow(spreadsheet_cell(row.get(name)) for name in columns)
    return text.getvalue()
