"""The results of a figure as rows, and as points: the rows that differ in their seed alone.

An error has three forms on its way to a picture: the result in the store, a row (also a line of the figure's CSV), and
a point.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields
from typing import Any

from rankwise.estimate import Estimate
from rankwise.recipes.marks import Value, column_order
from rankwise.spec import RunSpec
from rankwise.sweep import TrainedRun


@dataclass(frozen=True, kw_only=True)
class ResultRow:
    """What a run was, what it reached, and the id that leads back to its spec."""

    protocol: str
    """The training protocol."""
    dim: int
    """Dimension of the vectors that the layers read and write."""
    points: int
    """Tokens per example."""
    layers: int
    """Layers."""
    heads: int
    """Query heads."""
    rank: int
    """Of each head's query-key form."""
    seed: int
    """Which repetition it is."""
    sequences: int
    """Training examples seen, fewer than planned where a run stopped early."""
    error: float
    """On held-out examples."""
    error_se: float
    """Standard error of ``error`` over those examples."""
    train_min: float
    """The lowest mean training error of an epoch: the statistic of the paper's figures."""
    parameters: int
    """Trainable numbers."""
    seconds: float
    """At work, all attempts together."""
    run_id: str
    """Hash of the run's spec."""
    extra: Mapping[str, Value] = field(default_factory=dict)
    """The figure's own columns."""

    def get(self, column: str) -> Value:
        """The value of a column, common or the figure's own."""
        value: Value = self.extra[column] if column in self.extra else getattr(self, column)
        return value

    def columns(self) -> dict[str, Value]:
        """The common columns, then the figure's own."""
        return {**{name: getattr(self, name) for name in COLUMNS}, **self.extra}


COLUMNS = tuple(column.name for column in fields(ResultRow) if column.name != "extra")


def run_columns(run: RunSpec) -> dict[str, Value]:
    """The common columns that are known before a run is trained."""
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


def result_row(trained: TrainedRun, extra: Mapping[str, Value]) -> ResultRow:
    """The row of one trained run."""
    reached: dict[str, Any] = {name: trained.result[name] for name in ("error", "error_se", "train_min")}
    reached["sequences"] = trained.result["sequences"]  # fewer than planned where a run stopped early
    return ResultRow(
        **{**run_columns(trained.run), **reached},
        parameters=trained.run.parameters(),
        seconds=round(trained.seconds, 3),
        run_id=trained.run.id,
        extra=extra,
    )


@dataclass(frozen=True)
class Point:
    """Rows that differ in their seed alone."""

    rows: tuple[ResultRow, ...]

    @property
    def row(self) -> ResultRow:
        """A row that stands for what all have in common."""
        return self.rows[0]

    @property
    def error(self) -> float:
        """The mean held-out error."""
        return self.mean("error")

    def get(self, column: str) -> Value:
        """What all rows have in ``column``."""
        return self.row.get(column)

    def mean(self, column: str) -> float:
        """The mean over seeds."""
        return self.estimate(column).mean

    def spread(self, column: str = "error") -> float:
        """The standard error of that mean."""
        return self.estimate(column).standard_error

    def told(self, column: str = "error") -> str:
        """Mean and, where it is known, standard error in words: 0.25 ± 0.01."""
        known = self.estimate(column)
        return f"{known.mean:.3g}" + (f" ± {known.standard_error:.1g}" if known.standard_error else "")

    def estimate(self, column: str) -> Estimate:
        """The mean over seeds; one seed has the standard error of its validation, 0 where that is not known."""
        named = f"{column}_se"
        known = hasattr(self.row, named) or named in self.row.extra
        return Estimate.over(
            [float(row.get(column)) for row in self.rows], alone=float(self.row.get(named)) if known else 0.0
        )


def points_of(rows: Sequence[ResultRow], keys: Sequence[str]) -> list[Point]:
    """The points that the columns ``keys`` tell apart, in the order of these columns."""
    groups: dict[tuple[Value, ...], list[ResultRow]] = {}
    for row in rows:
        groups.setdefault(tuple(row.get(key) for key in keys), []).append(row)
    return [Point(tuple(groups[key])) for key in sorted(groups, key=lambda key: [column_order(value) for value in key])]
