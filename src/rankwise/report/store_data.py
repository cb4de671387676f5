"""A store as the page's data: every run with its provenance, and the settings and cells they form.

``rankwise-report/1``. What all specs share is written once; versions and machines are written once each; a training
curve keeps at most ``CURVE_POINTS`` epochs, the first and the last among them, and says so. Of a probed run's attention
ranks every layer keeps the mean, the least and the greatest over its heads.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from rankwise.errors import RankwiseError
from rankwise.foreign_file import plain_name
from rankwise.report.no_names import without_homes
from rankwise.report.settings import Setting, finite, settings_of
from rankwise.spec import RunSpec, TaskSpec, from_plain
from rankwise.sweep import FAILURES, Row, flatten, printable, read_store, varying_keys

FORMAT = "rankwise-report/1"
CURVE_POINTS = 120
_CURVE = ("steps", "train", "validation")
_IN_OWN_FIELDS = ("curve", "versions", "attention")

Levels = Callable[[TaskSpec], Mapping[str, float]]
"""The errors of predictors without attention; empty where none are known."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class StoreData:
    """What the page shows of a store: plain values for the browser, and the settings for the headline."""

    name: str
    counts: dict[str, int]
    seconds: float
    until: float | None
    settings: list[Setting]
    document: dict[str, Any]

    @property
    def failures(self) -> int:
        """How many runs ended without a result."""
        return sum(self.counts[status] for status in FAILURES)

    @property
    def probed(self) -> bool:
        """Whether some run recorded the ranks of its attention matrices while it trained."""
        return any(run["attention"] for run in self.document["runs"])


def read_store_data(directory: Path, levels: Levels | None = None) -> StoreData:
    """The whole store in ``directory``, as it is now."""
    with read_store(directory) as reader:
        counts = {str(status): count for status, count in reader.counts().items()}
        rows = list(reader.rows())
    results = [row.result if row.status == "done" else None for row in rows]
    settings = settings_of([_readable(row.spec) for row in rows], results)
    return StoreData(
        name=printable(directory.resolve().name),
        counts=counts,
        seconds=sum(row.seconds for row in rows),
        until=max((row.finished for row in rows if row.finished is not None), default=None),
        settings=settings,
        document=_document(rows, settings, levels or (lambda task: {})),
    )


def _readable(spec: Mapping[str, Any]) -> RunSpec | None:
    """The spec, or None where it is of a version that this one cannot read: such a run is listed, not drawn."""
    try:
        return from_plain(RunSpec, spec)
    except RankwiseError:
        return None


def _document(rows: Sequence[Row], settings: Sequence[Setting], levels: Levels) -> dict[str, Any]:
    flat = [{key: _plain(value) for key, value in flatten(row.spec)} for row in rows]
    own_keys = varying_keys(flat)
    common = {key: value for key, value in (flat[0] if flat else {}).items() if key not in own_keys}
    versions, machines = _Once(), _Once()
    return {
        "format": FORMAT,
        "common": common,
        "runs": [
            _run(row, {key: keys[key] for key in own_keys if key in keys}, versions, machines)
            for row, keys in zip(rows, flat, strict=True)
        ],
        "versions": versions.values,
        "machines": machines.values,
        "settings": [_setting(setting, levels) for setting in settings],
    }


def _run(row: Row, own: dict[str, Any], versions: _Once, machines: _Once) -> dict[str, Any]:
    result = row.result or {}
    curve, thinned = _curve(result.get("curve"))
    numbers = {key: _plain(value) for key, value in flatten(result) if key.split(".")[0] not in _IN_OWN_FIELDS}
    return {
        "id": row.run_id,
        "status": row.status,
        "spec": own,
        "result": numbers,
        "curve": curve,
        "thinned": thinned,
        "attention": _attention(result.get("attention")),
        "seconds": row.seconds,
        "attempts": row.attempts,
        "started": row.started,
        "finished": row.finished,
        "versions": versions.index(row.versions or result.get("versions")),
        "machine": machines.index(_nameless(row.machine)),
        "checkpoint": row.checkpoint,
        "sha256": row.checkpoint_sha256,
        "reason": _shown(row.reason) if row.reason else None,
        "traceback": _shown(row.traceback) if row.traceback else None,
    }


def _setting(setting: Setting, levels: Levels) -> dict[str, Any]:
    return {
        "title": setting.title,
        "dim": setting.dim,
        "unit": setting.task.unit,
        "inTheorem": setting.in_theorem,
        "levels": [{"name": name, "error": error} for name, error in levels(setting.task).items()],
        "cells": [dataclasses.asdict(cell) for cell in setting.cells],
    }


def _curve(curve: object) -> tuple[dict[str, list[float | None]] | None, bool]:
    """Steps, training loss and validation error of at most ``CURVE_POINTS`` epochs, and whether some were left out."""
    if not isinstance(curve, Mapping):
        return None, False
    columns = [curve.get(name) for name in _CURVE]
    if not all(isinstance(column, Sequence) and not isinstance(column, str) for column in columns):
        return None, False
    epochs = min(len(column) for column in columns if column is not None)
    if epochs == 0:
        return None, False
    points = min(epochs, CURVE_POINTS)
    picked = [round(at * (epochs - 1) / max(1, points - 1)) for at in range(points)]
    kept = {
        name: [_rounded(column[at]) for at in picked] for name, column in zip(_CURVE, columns, strict=True) if column
    }
    return kept, epochs > points


def _attention(table: object) -> dict[str, Any] | None:
    """Tokens, steps and, by name of the rank, [snapshot][layer] (mean, least, greatest head)."""
    if not isinstance(table, Mapping):
        return None
    steps, names = table.get("steps"), [name for name in table if name not in ("tokens", "steps")]
    try:
        ranks = {printable(name): [[_of_heads(heads) for heads in layers] for layers in table[name]] for name in names}
        whole = ranks and all(len(snapshots) == len(steps or ()) for snapshots in ranks.values())
    except (TypeError, ValueError):
        return None
    if not whole or not isinstance(steps, list) or finite(table.get("tokens")) is None:
        return None
    return {"tokens": table["tokens"], "steps": [finite(step) for step in steps], "ranks": ranks}


def _of_heads(heads: Sequence[object]) -> list[float | None]:
    numbers = [number for head in heads if (number := finite(head)) is not None]
    if not numbers:
        raise ValueError("no head has a rank")
    return [_rounded(math.fsum(numbers) / len(numbers)), _rounded(min(numbers)), _rounded(max(numbers))]


def _rounded(value: object) -> float | None:
    """Six digits are more than a curve shows; a loss that is not finite is a gap."""
    if type(value) is float and math.isfinite(value):  # nearly all: a thousand runs have hundreds of thousands
        return float(f"{value:.6g}")
    number = finite(value)
    return None if number is None else value if isinstance(value, int) else float(f"{number:.6g}")


def _plain(value: Any) -> Any:
    """A value that JSON and a browser can show; text short and without control characters."""
    if isinstance(value, list | tuple):
        return [_plain(one) for one in value]
    if isinstance(value, float) and finite(value) is None:
        return str(value)
    return without_homes(plain_name(value)) if isinstance(value, str) else value


def _shown(text: str) -> str:
    return without_homes(printable(text))


def _nameless(machine: Mapping[str, Any] | None) -> dict[str, Any] | None:
    """The machine without its name; the store, and ``results --json``, keep it."""
    return None if machine is None else {key: value for key, value in machine.items() if key != "host"}


class _Once:
    """Equal tables kept once, in the order they came."""

    def __init__(self) -> None:
        self.values: list[dict[str, Any]] = []

    def index(self, table: Mapping[str, Any] | None) -> int | None:
        if table is None:
            return None
        known = {key: _plain(value) for key, value in table.items()}
        if known not in self.values:
            self.values.append(known)
        return self.values.index(known)
