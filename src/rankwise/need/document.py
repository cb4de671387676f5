"""``rankwise-need/1``: a measured need as JSON, and back as far as advice is made of it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rankwise.errors import InvalidInputError
from rankwise.shapes.strict_json import read_json_object

if TYPE_CHECKING:
    from rankwise.need.measurement import Need
    from rankwise.need.retrieval import Interval

FORMAT = "rankwise-need/1"


def need_document(needs: Sequence[Need], source: Mapping[str, Any]) -> dict[str, Any]:
    """All that was measured, and from what; ``source`` says where the vectors came from."""
    from rankwise import __version__
    from rankwise.need.retrieval import BOOTSTRAP, CONFIDENCE

    settings = needs[0].settings
    return {
        "format": FORMAT,
        "rankwise": __version__,
        "source": dict(source),
        "settings": {
            "target": settings.target,
            "context": settings.context,
            "similarity": settings.similarity,
            "heads": settings.heads,
            "steps": settings.steps,
            "seed": settings.seed,
            "bootstrap": BOOTSTRAP,
            "confidence": CONFIDENCE,
        },
        "measurements": [_measurement(need) for need in needs],
    }


def _measurement(need: Need) -> dict[str, Any]:
    return {
        "name": need.name,
        "dim": need.dim,
        "keys": need.keys,
        "queries": need.queries,
        "own_queries": need.own_queries,
        "context": need.context,
        "need": int(need.need.value),
        "need_low": int(need.need.low),
        "need_high": int(need.need.high),
        "need_svd": need.need_svd,
        "need_pca": need.need_pca,
        "need_random": need.need_random,
        "need_isotropic": need.need_isotropic,
        "participation_ratio": {"keys": need.key_dimension, "queries": need.query_dimension},
        "by_context": [
            {"context": other.context, "need": other.need, "need_isotropic": other.need_isotropic}
            for other in need.by_context
        ],
        "curves": {
            kind: [
                {
                    "rank": point.rank,
                    "form": point.form,
                    **_interval("error", point.error),
                    **_interval("recall", point.recall),
                }
                for point in points
            ]
            for kind, points in need.curves.items()
        },
        "isotropic": [
            {"rank": at.rank, "error": at.error, "standard_error": at.standard_error, "bound": at.bound}
            for at in need.isotropic
        ],
        "notes": need.notes,
    }


def _interval(name: str, interval: Interval) -> dict[str, float]:
    return {name: interval.value, f"{name}_low": interval.low, f"{name}_high": interval.high}


@dataclass(frozen=True, kw_only=True)
class MeasuredNeed:
    """What advice takes from a need file: the most demanding of its measurements."""

    name: str
    dim: int
    rank: int
    low: int
    high: int
    target: float
    context: int
    participation_ratio: float
    measurements: int


def read_need(path: Path) -> MeasuredNeed:
    """The measurement with the largest need in a ``rankwise-need/1`` file."""
    document = read_json_object(path)
    if document.get("format") != FORMAT:
        raise InvalidInputError(
            f"{path}: expected a file of `rankwise need ... --json` (format {FORMAT!r}), got format "
            f"{document.get('format')!r}"
        )
    settings = _field(path, document, "settings", dict)
    target = _number(path, settings, "target")
    found = _field(path, document, "measurements", list)
    if not found:
        raise InvalidInputError(f"{path}: measurements: expected at least one, got none")
    read = [_read_measurement(path, entry, target, len(found)) for entry in found]
    dims = {one.dim for one in read}
    if len(dims) > 1:
        raise InvalidInputError(f"{path}: measurements: expected vectors of one dimension, got {sorted(dims)}")
    return max(read, key=lambda one: one.rank)


def _read_measurement(path: Path, entry: object, target: float, count: int) -> MeasuredNeed:
    if not isinstance(entry, dict):
        raise InvalidInputError(f"{path}: measurements: expected objects, got {type(entry).__name__}")
    dim, rank, low, high, context = (
        int(_number(path, entry, key)) for key in ("dim", "need", "need_low", "need_high", "context")
    )
    if not 1 <= low <= rank <= high <= dim:
        raise InvalidInputError(
            f"{path}: measurements: expected 1 <= need_low <= need <= need_high <= dim, got {(low, rank, high, dim)}"
        )
    name = _field(path, entry, "name", str)
    return MeasuredNeed(
        name="".join(character if character.isprintable() else "\ufffd" for character in name)[:80],
        dim=dim,
        rank=rank,
        low=low,
        high=high,
        target=target,
        context=context,
        participation_ratio=_number(path, _field(path, entry, "participation_ratio", dict), "keys", zero=True),
        measurements=count,
    )


def _field(path: Path, values: Mapping[str, Any], key: str, kind: type) -> Any:
    value = values.get(key)
    if not isinstance(value, kind):
        raise InvalidInputError(f"{path}: {key}: expected a {kind.__name__}, got {type(value).__name__}")
    return value


def _number(path: Path, values: Mapping[str, Any], key: str, *, zero: bool = False) -> float:
    """A positive number; ``zero``: or nothing, as the dimension of keys that are all equal."""
    value = values.get(key)
    if isinstance(value, bool) or not isinstance(value, int | float) or not (0 < value < 1e9 or (zero and value == 0)):
        raise InvalidInputError(f"{path}: {key}: expected a positive number, got {value!r}")
    return value
