"""What an audit of weights says, as plain data: frozen, without arrays, writable as strict JSON.

The format is named ``rankwise-audit/1``: fields may be added to it, not changed.
"""

from __future__ import annotations

import json
import math
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any

from rankwise.errors import InvalidInputError, require_int
from rankwise.shapes.shape import LatentShape
from rankwise.shapes.strict_json import parse_json_object

FORMAT = "rankwise-audit/1"
LATENT_NOTE = "latent attention"
"""How the note of a layer with latent attention begins."""


@dataclass(frozen=True)
class Ranks:
    """The ranks of one form, each defined in ``rankwise.measure``."""

    numerical: int
    """Singular values above ``max(rows, columns) * 2^-23`` of the largest: what float32 can tell from zero."""
    effective: float
    stable: float
    energy_90: int
    energy_99: int


@dataclass(frozen=True)
class Interval:
    """Mean over random draws, and where all heads of a random model would lie together in 99 of 100 models."""

    mean: float
    low: float
    high: float


@dataclass(frozen=True)
class Baseline:
    """The ranks of independent Gaussian weights of the same shapes."""

    draws: int
    effective: Interval
    stable: Interval
    energy_90: Interval
    energy_99: Interval


@dataclass(frozen=True)
class AtDistance:
    """The QK form of a rotary head for a key ``distance`` tokens back."""

    distance: int
    effective: float
    energy_90: int


@dataclass(frozen=True)
class HeadReport:
    """One query head: QK with its own key head, OV with its own value head."""

    head: int
    kv_head: int
    qk: Ranks
    qk_with_bias: Ranks | None
    """With the biases as a further input coordinate that is always 1; None where the layer has none."""
    ov: Ranks | None
    qk_norm: float
    """Frobenius norm of ``scale * QK``."""
    ov_norm: float | None
    at_distance: tuple[AtDistance, ...]
    qk_singular_values: tuple[float, ...]
    ov_singular_values: tuple[float, ...] | None


@dataclass(frozen=True)
class GroupReport:
    """A key head as all query heads of its group use it together: the stacked QK forms."""

    kv_head: int
    heads: tuple[int, ...]
    qk: Ranks


@dataclass(frozen=True)
class Overlap:
    """How much of the smaller of two heads' main subspaces lies in the other: mean squared cosine of principal angles.

    Subspaces hold 90 % of the form's energy. ``query`` and ``key`` are the two sides of QK (``write`` and ``read`` of
    OV); what random subspaces of the same dimensions would have stands beside.
    """

    form: str
    """``"QK"`` or ``"OV"``."""
    heads: tuple[int, int]
    left: float
    """Query side of QK, written side of OV."""
    right: float
    """Key side of QK, read side of OV."""
    left_random: float
    right_random: float
    redundant: bool
    """Both sides above one half and above chance (jointly over all pairs of the model, 1 %)."""


@dataclass(frozen=True)
class LayerReport:
    """One attention layer."""

    part: str
    layer: int
    dim: int
    context_dim: int
    heads: int
    kv_heads: int
    rank: int
    value_rank: int
    scale: float
    mask: str
    window: int | None
    rotary: bool
    qk_norm: bool
    folded_in: tuple[str, ...]
    notes: tuple[str, ...]
    qk_baseline: Baseline
    ov_baseline: Baseline | None
    head_reports: tuple[HeadReport, ...]
    groups: tuple[GroupReport, ...]
    pairs: int
    overlaps: tuple[Overlap, ...]
    """The redundant pairs, and the closest ones of each form."""
    latent: LatentShape | None = None
    """The sizes of latent attention, None for any other and in reports written before they were kept."""

    @property
    def name(self) -> str:
        """``"decoder 3"``."""
        return f"{self.part} {self.layer}"


@dataclass(frozen=True)
class NotAudited:
    """A part of the model that was left out, and why."""

    what: str
    reason: str


@dataclass(frozen=True)
class AuditReport:
    """The audit of a model's weights."""

    model: str
    architecture: str
    file_format: str
    storage: dict[str, int]
    """How many of the audited tensors are stored in which type; names the quantisation of a GGUF file."""
    layers: tuple[LayerReport, ...]
    not_audited: tuple[NotAudited, ...]
    notes: tuple[str, ...]
    attention: dict[str, Any] | None = None
    """What the heads did on texts (``activations.attention_document``), where the model was run."""

    @property
    def heads(self) -> int:
        """Query heads in all layers."""
        return sum(layer.heads for layer in self.layers)

    def to_json(self) -> dict[str, Any]:
        """Plain values; every number is finite."""
        values = _rounded(asdict(self))
        if self.attention is None:
            del values["attention"]
        return {"format": FORMAT, **values}

    def write(self, path: Path) -> None:
        """To a file, in one piece."""
        path.write_text(json.dumps(self.to_json(), allow_nan=False) + "\n")


def read_report(path: Path) -> AuditReport:
    """The report that ``AuditReport.write`` wrote."""
    try:
        content = path.read_bytes()
    except OSError as error:
        raise InvalidInputError(f"{path}: expected a readable file, got: {error.strerror}") from None
    values = parse_json_object(content, where=str(path))
    if values.pop("format", None) != FORMAT:
        raise InvalidInputError(f"{path}: format: expected {FORMAT!r} (rankwise audit -o FILE), got something else")
    try:
        return AuditReport(
            **values
            | {
                "layers": tuple(_layer(layer) for layer in values["layers"]),
                "not_audited": tuple(NotAudited(**item) for item in values["not_audited"]),
                "notes": tuple(values["notes"]),
            }
        )
    except (KeyError, TypeError, AttributeError) as error:
        raise InvalidInputError(f"{path}: expected the fields of {FORMAT}, got something else: {error}") from None


def _layer(values: dict[str, Any]) -> LayerReport:
    known = {field.name: values[field.name] for field in fields(LayerReport) if field.name != "latent"}
    return LayerReport(
        **known
        | {
            "folded_in": tuple(values["folded_in"]),
            "notes": tuple(values["notes"]),
            "qk_baseline": _baseline(values["qk_baseline"]),
            "ov_baseline": None if values["ov_baseline"] is None else _baseline(values["ov_baseline"]),
            "head_reports": tuple(_head(head) for head in values["head_reports"]),
            "groups": tuple(
                GroupReport(group["kv_head"], tuple(group["heads"]), Ranks(**group["qk"])) for group in values["groups"]
            ),
            "overlaps": tuple(Overlap(**pair | {"heads": tuple(pair["heads"])}) for pair in values["overlaps"]),
            "latent": None if values.get("latent") is None else _latent(**values["latent"]),
        }
    )


def _latent(keyvalue: object, rope: object, query: object) -> LatentShape:
    return LatentShape(
        keyvalue=require_int("latent.keyvalue", keyvalue, minimum=1),
        rope=require_int("latent.rope", rope, minimum=0),
        query=None if query is None else require_int("latent.query", query, minimum=1),
    )


def _head(values: dict[str, Any]) -> HeadReport:
    ranks = {name: None if values[name] is None else Ranks(**values[name]) for name in ("qk", "qk_with_bias", "ov")}
    spectra = {
        name: None if values[name] is None else tuple(values[name])
        for name in ("qk_singular_values", "ov_singular_values")
    }
    distances = tuple(AtDistance(**item) for item in values["at_distance"])
    return HeadReport(**values | ranks | spectra | {"at_distance": distances})


def _baseline(values: dict[str, Any]) -> Baseline:
    intervals = {name: Interval(**values[name]) for name in ("effective", "stable", "energy_90", "energy_99")}
    return Baseline(draws=values["draws"], **intervals)


def _rounded(value: Any) -> Any:
    """Floats to six digits: a spectrum's seventh is noise, and the file halves."""
    if isinstance(value, dict):
        return {key: _rounded(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_rounded(item) for item in value]
    if isinstance(value, float):
        if not math.isfinite(value):
            raise ValueError(f"expected finite numbers in a report, got {value}")
        return float(f"{value:.6g}")
    return value
