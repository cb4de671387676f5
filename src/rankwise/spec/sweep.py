"""Many runs: a base run varied along axes, or a list.

::

    name = "rank against heads"

    [base.task]
    name = "nearest"
    dim = 64
    points = 16
    # ... base.model, base.optim: a complete run

    [[axes]]                      # keys of one table move together
    model.rank = [8, 16, 32]
    model.heads = [8, 4, 2]

    [[axes]]                      # tables are crossed: 3 x 2 runs
    seed = [0, 1]
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, is_dataclass, replace
from typing import Any, Literal

from rankwise.errors import InvalidInputError, SpecError, nearest_name
from rankwise.spec.fields import convert, describe, join, kinds, settle, shorten
from rankwise.spec.run import RunSpec

MAX_RUNS = 1_000_000


@dataclass(frozen=True, kw_only=True)
class Axis:
    """Columns of values that move together: run i of the axis takes the i-th value of every column."""

    columns: tuple[tuple[str, tuple[Any, ...]], ...]

    @classmethod
    def of(cls, columns: Mapping[str, Sequence[Any]]) -> Axis:
        """``Axis.of({"model.rank": [8, 16], "model.heads": [8, 4]})``."""
        return cls(columns=tuple((key, tuple(values)) for key, values in sorted(columns.items())))

    @classmethod
    def from_table(cls, table: object, path: str) -> Axis:
        """An axis as files write it: ``model.rank = [8, 16]``, dotted keys or nested tables."""
        columns: dict[str, tuple[Any, ...]] = {}
        for key, values in _leaves(table, path, ""):
            if key in columns:
                raise SpecError(f"{path}.{key}: duplicate key")
            columns[key] = values
        return cls.of(columns)

    def to_table(self) -> dict[str, Any]:
        """The nested tables that ``from_table`` reads."""
        root: dict[str, Any] = {}
        for key, values in self.columns:
            *parents, leaf = key.split(".")
            table = root
            for parent in parents:
                table = table.setdefault(parent, {})
            table[leaf] = [list(value) if isinstance(value, tuple) else value for value in values]
        return root

    def __len__(self) -> int:
        return len(self.columns[0][1])

    def checked(self, path: str, base: RunSpec) -> Axis:
        """This axis with every key known to ``base`` and every value of the key's type."""
        if not self.columns:
            raise SpecError(f"{path}: expected a key of a run with a list of values, got none")
        columns = []
        for key, values in self.columns:
            here = f"{path}.{key}"
            kind = _kind_of(key, path, base)
            if len(values) != len(self):
                raise SpecError(
                    f"{here}: expected {len(self)} values like {self.columns[0][0]} (keys of one axis move together; "
                    f"give each its own [[axes]] to cross them), got {len(values)}"
                )
            if not values:
                raise SpecError(f"{here}: expected at least one value, got an empty list")
            columns.append((key, tuple(convert(kind, value, f"{here}[{i}]") for i, value in enumerate(values))))
        return Axis(columns=tuple(columns))

    def overrides(self) -> Iterator[dict[str, Any]]:
        """For each run of the axis, the values it sets."""
        for index in range(len(self)):
            yield {key: values[index] for key, values in self.columns}


@dataclass(frozen=True, kw_only=True)
class SweepSpec:
    """``base`` varied along the product of ``axes``, or the explicit list ``runs``.

    ``order`` "listed" starts the runs in their own order, for a long sweep whose first part matters most; otherwise the
    longest run starts first, so that all workers end together.
    """

    name: str
    base: RunSpec | None = None
    axes: tuple[Axis, ...] = ()
    runs: tuple[RunSpec, ...] = ()
    order: Literal["listed"] | None = None

    def __post_init__(self) -> None:
        settle(self)
        if not self.name:
            raise InvalidInputError("name: expected a name for the sweep, got an empty string")
        if (self.base is None) == (not self.runs):
            got = "both" if self.runs else "neither"
            raise InvalidInputError(f"base: expected either a base run (with axes) or a list of runs, got {got}")
        if self.axes and self.runs:
            raise InvalidInputError("axes: expected a base run to vary, got a list of runs")
        axes = self.axes
        if self.base is not None:
            axes = tuple(axis.checked(f"axes[{index}]", self.base) for index, axis in enumerate(self.axes))
        object.__setattr__(self, "axes", axes)
        seen: dict[str, int] = {}
        for index, axis in enumerate(axes):
            for key, _ in axis.columns:
                if key in seen:
                    raise SpecError(f"axes[{index}].{key}: duplicate key, already varied by axes[{seen[key]}]")
                seen[key] = index
        if self.size() > MAX_RUNS:
            raise SpecError(f"axes: expected at most {MAX_RUNS:,} runs, got {self.size():,}")

    def size(self) -> int:
        """How many runs, before equal ones are merged."""
        return len(self.runs) or math.prod(len(axis) for axis in self.axes)

    def expand(self) -> Iterator[RunSpec]:
        """Every run, the last axis moving fastest; equal runs may come more than once."""
        if self.base is None:
            yield from self.runs
            return
        for combination in itertools.product(*(tuple(axis.overrides()) for axis in self.axes)):
            changes = {key: value for part in combination for key, value in part.items()}
            try:
                yield vary(self.base, changes)
            except InvalidInputError as error:
                where = ", ".join(f"{key} = {value!r}" for key, value in changes.items())
                raise SpecError(f"{error} (in the run with {where})") from None


def vary(run: RunSpec, changes: Mapping[str, Any]) -> RunSpec:
    """``run`` with the values at the given key paths replaced, all of them at once."""
    varied: RunSpec = _vary(run, changes, "")
    return varied


def _vary(spec: Any, changes: Mapping[str, Any], path: str) -> Any:
    own: dict[str, Any] = {}
    nested: dict[str, dict[str, Any]] = {}
    for key, value in changes.items():
        first, dot, rest = key.partition(".")
        if dot:
            nested.setdefault(first, {})[rest] = value
        else:
            own[first] = value
    for first, inner in nested.items():
        own[first] = _vary(getattr(spec, first), inner, join(path, first))
    try:
        return replace(spec, **own)
    except SpecError:
        raise
    except InvalidInputError as error:
        raise SpecError(join(path, str(error))) from None


def _leaves(table: object, path: str, key: str) -> Iterator[tuple[str, tuple[Any, ...]]]:
    here = join(path, key)
    if isinstance(table, list | tuple) and key:
        yield key, tuple(table)
    elif isinstance(table, Mapping):
        for name, inner in table.items():
            yield from _leaves(inner, path, join(key, name))
    else:
        raise SpecError(f"{here}: expected a list of values, got {describe(table)}")


def _kind_of(key: str, path: str, base: RunSpec) -> Any:
    """The annotation at a key path of ``base``; a table as a whole cannot be varied, only its keys."""
    kind, holder = Any, base
    done: list[str] = []
    for name in key.split("."):
        here = ".".join([path, *done, shorten(name)])
        valid = kinds(type(holder)) if is_dataclass(holder) else {}
        if name not in valid:
            hint = nearest_name(name, list(valid)) or (f" (valid: {', '.join(valid)})" if valid else "")
            raise SpecError(f"{here}: unknown key{hint}")
        kind, holder = valid[name], getattr(holder, name)
        done.append(name)
    if is_dataclass(holder):
        keys = ", ".join(kinds(type(holder)))
        raise SpecError(f"{path}.{key}: expected one of its keys ({keys}), got the whole table")
    return kind
