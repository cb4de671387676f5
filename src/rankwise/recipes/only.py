"""``--only``: which of a figure's runs are wanted, by the columns that they will have."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from rankwise.errors import InvalidInputError, nearest_name
from rankwise.recipes.points import Value

Only = Mapping[str, tuple[str, ...]]


def parse_only(words: Sequence[str]) -> Only:
    """``["rank=8,16", "layers=1"]`` as columns and the values wanted in each."""
    only: dict[str, tuple[str, ...]] = {}
    for word in words:
        column, equals, values = word.partition("=")
        if not equals or not column or not values:
            raise InvalidInputError(f"--only: expected COLUMN=VALUE,VALUE..., for example rank=8,16, got {word!r}")
        only[column] = (*only.get(column, ()), *values.split(","))
    return only


def matching(tables: Sequence[Mapping[str, Value]], only: Only) -> list[bool]:
    """For each run, given by its columns, whether ``only`` wants it; a column or value that no run has is named."""
    for column, values in only.items():
        known = list(dict.fromkeys(name for table in tables for name in table))
        if column not in known:
            hint = nearest_name(column, known)
            raise InvalidInputError(f"--only: expected one of the columns {', '.join(known)}, got {column!r}{hint}")
        present = sorted({_shown(table[column]) for table in tables if column in table})
        for value in values:
            if not any(_equal(table.get(column), value) for table in tables):
                raise InvalidInputError(f"--only: expected some of {column}={','.join(present)}, got {value!r}")
    wanted = [all(any(_equal(t.get(c), value) for value in values) for c, values in only.items()) for t in tables]
    if not any(wanted):
        asked = " ".join(f"{column}={','.join(values)}" for column, values in only.items())
        raise InvalidInputError(f"--only: expected a choice that leaves a run, got {asked}, which no run has together")
    return wanted


def _equal(value: Value | None, text: str) -> bool:
    if value is None or isinstance(value, str):
        return value == text
    try:
        return float(text) == value
    except ValueError:
        return False


def _shown(value: Value) -> str:
    return value if isinstance(value, str) else f"{value:g}"
