"""What a comparison of two models says, as plain data; the format is named ``rankwise-comparison/1``."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rankwise.audit.report import Ranks
from rankwise.spec import Words, to_document, write_document

FORMAT = "rankwise-comparison/1"


@dataclass(frozen=True)
class FormChange:
    """One form of a head in both models, and the difference of the two."""

    first: Ranks
    second: Ranks
    change: float
    """``|second - first| / |first|``, Frobenius norms."""
    rounding: float
    """The change that the rounding of both files alone would make."""
    beyond: float
    """``sqrt(change^2 - rounding^2)``, 0 where that is negative: what rounding does not explain."""
    directions: int
    """Singular values of the difference above the largest that rounding makes: the rank of what changed."""


@dataclass(frozen=True)
class HeadChange:
    """One query head in both models."""

    head: int
    kv_head: int
    qk: FormChange
    ov: FormChange | None
    """None where values and outputs are not known."""

    @property
    def moved(self) -> bool:
        """Whether either form changed by more than rounding explains."""
        return self.qk.directions > 0 or (self.ov is not None and self.ov.directions > 0)


@dataclass(frozen=True)
class LayerChange:
    """One attention layer in both models."""

    part: str
    layer: int
    rank: int
    value_rank: int
    head_changes: tuple[HeadChange, ...]

    @property
    def name(self) -> str:
        """``"decoder 3"``."""
        return f"{self.part} {self.layer}"


@dataclass(frozen=True)
class Comparison:
    """The heads of two models of one shape, pair by pair."""

    first: Words
    """Name of the model that changes are relative to."""
    second: Words
    """Name of the other."""
    first_storage: dict[str, int]
    """How many of the compared tensors are stored in which type."""
    second_storage: dict[str, int]
    """The same of the second."""
    layers: tuple[LayerChange, ...]
    """One per attention layer that both have."""
    notes: tuple[Words, ...]
    """What a reader of the numbers should know."""

    @property
    def heads(self) -> int:
        """Query heads in all layers."""
        return sum(len(layer.head_changes) for layer in self.layers)

    @property
    def moved(self) -> int:
        """Heads that changed by more than rounding explains."""
        return sum(head.moved for layer in self.layers for head in layer.head_changes)

    def to_json(self) -> dict[str, Any]:
        """Plain values; floats have six digits."""
        return to_document(FORMAT, self, digits=6)

    def write(self, path: Path) -> None:
        """To a file."""
        write_document(self.to_json(), path)
