"""Kept tables: what new rows replace, and which rows go into one picture.

A row is of a sweep if its id is that of one of the sweep's runs with the row's seed. An average is taken over seeds
alone: no cell of a picture mixes protocols, budgets or versions of a protocol, whatever the table holds.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from rankwise.recipes.rows import ResultRow
from rankwise.spec import SweepSpec, vary

_SHAPE = ("dim", "points", "layers", "heads", "rank")
_CELL = ("figure", "protocol", *_SHAPE, "sequences")
_ORDER = ("figure", "protocol", *_SHAPE, "seed", "sequences")


def merge(
    before: Sequence[ResultRow], new: Sequence[ResultRow], keys: Sequence[str], asked: SweepSpec
) -> list[ResultRow]:
    """``before`` without what ``new`` measures again, and ``new``; sorted, so that differences are small.

    Where ``new`` has rows of a cell, what stays of it with other seeds is of the same version, the one ``asked`` for.
    """
    runs = {row.run_id for row in new}
    cells = {_cell(row, keys) for row in new}
    current = ids_with_seeds(asked, {row.seed for row in before})
    kept = [
        row for row in before if row.run_id not in runs and (_cell(row, keys) not in cells or row.run_id in current)
    ]

    def place(row: ResultRow) -> tuple[tuple[bool, float, str], ...]:
        return tuple(map(_sortable, (*_values(row, _ORDER), *_extra(row, keys))))

    return sorted([*kept, *new], key=place)


def rows_of_picture(
    rows: Sequence[ResultRow],
    asked: SweepSpec,
    whole: SweepSpec,
    keys: Sequence[str],
    *,
    compared: Sequence[str] = (),
) -> list[ResultRow]:
    """The rows of one picture: in each cell those of ``asked``, else those of the ``whole`` preset, with any seed.

    Where no row has the id of such a run, rows of its protocol, shape and budget count, from before the protocol
    changed. A figure that has protocols ``compared`` tells them apart, and shows those however long they were trained;
    any other shows the protocol that was asked for.
    """
    seeds = {row.seed for row in rows}
    belongs: list[Callable[[ResultRow], bool]] = []
    for sweep in (asked, whole):
        ids, budgets = ids_with_seeds(sweep, seeds), _budgets(sweep)
        belongs += [_among(ids, lambda row: row.run_id), _among(budgets, _budget)]
    shapes = {budget[1:-1] for sweep in (asked, whole) for budget in _budgets(sweep)}
    belongs.append(lambda row: row.protocol in compared and _values(row, _SHAPE) in shapes)

    protocols = protocols_of(asked)
    cells: dict[tuple[object, ...], list[ResultRow]] = {}
    for row in rows:
        if compared or row.protocol in protocols:
            cells.setdefault((row.protocol, *_values(row, _SHAPE), *_extra(row, keys)), []).append(row)
    chosen = {id(row) for cell in cells.values() for row in _first_that_any_passes(belongs, cell)}
    return [row for row in rows if id(row) in chosen]


def protocols_of(sweep: SweepSpec) -> set[str]:
    """What its runs are trained by."""
    return {run.protocol for run in sweep.expand()}


def ids_with_seeds(sweep: SweepSpec, seeds: Iterable[int]) -> frozenset[str]:
    """The ids of the sweep's runs, each with every one of ``seeds``."""
    runs = {run.id: run for run in (vary(one, {"seed": 0}) for one in sweep.expand())}
    return frozenset(vary(run, {"seed": seed}).id for run in runs.values() for seed in set(seeds))


def _first_that_any_passes(
    tests: Sequence[Callable[[ResultRow], bool]], rows: Sequence[ResultRow]
) -> Sequence[ResultRow]:
    for test in tests:
        if found := [row for row in rows if test(row)]:
            return found
    return ()


def _budgets(sweep: SweepSpec) -> frozenset[tuple[object, ...]]:
    return frozenset(
        (
            run.protocol,
            *(run.model.dim, run.task.tokens, run.model.layers, run.model.heads, run.model.rank),
            run.optim.steps * run.optim.batch,
        )
        for run in sweep.expand()
    )


def _budget(row: ResultRow) -> tuple[object, ...]:
    return (row.protocol, *_values(row, _SHAPE), row.sequences)


def _among(wanted: frozenset[object], of: Callable[[ResultRow], object]) -> Callable[[ResultRow], bool]:
    return lambda row: of(row) in wanted


def _values(row: ResultRow, names: Sequence[str]) -> tuple[object, ...]:
    return tuple(getattr(row, name) for name in names)


def _cell(row: ResultRow, keys: Sequence[str]) -> tuple[object, ...]:
    return (*_values(row, _CELL), *_extra(row, keys))


def _extra(row: ResultRow, keys: Sequence[str]) -> tuple[object, ...]:
    return tuple(row.extra.get(key) for key in keys)


def _sortable(value: object) -> tuple[bool, float, str]:
    """Numbers among themselves, words among themselves."""
    return (False, float(value), "") if isinstance(value, int | float) else (True, 0.0, str(value))
