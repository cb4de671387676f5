"""What a run leaves behind."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any


@dataclass(frozen=True, kw_only=True)
class Curve:
    """One entry per epoch: the steps made, the mean training loss over the epoch, the validation error at its end."""

    steps: tuple[int, ...]
    train: tuple[float, ...]
    validation: tuple[float, ...]


@dataclass(frozen=True, kw_only=True)
class RunResult:
    """The outcome of one run.

    ``error`` is the task's error of the last weights on held-out examples, ``error_se`` its standard error over those
    examples. ``train_min`` is the statistic of the paper's figures: the smallest mean training loss of an epoch.
    ``details`` are the task's further numbers on the held-out examples (``NAME`` and its standard error ``NAME_se``),
    ``attention`` the ranks of a probed run (see ``train.probe``). Only ``seconds`` is not decided by the spec.
    """

    error: float
    error_se: float
    train_min: float
    steps: int
    sequences: int
    parameters: int
    stopped_early: bool
    curve: Curve
    versions: Mapping[str, str]
    threads: int
    device: str
    seconds: float
    details: Mapping[str, Any] | None = None
    attention: Mapping[str, Any] | None = None

    def to_json(self) -> dict[str, Any]:
        """Plain values for a store, which counts the seconds itself: equal runs give equal tables."""
        table = asdict(self)
        del table["seconds"]
        table["versions"] = dict(self.versions)
        for optional in ("details", "attention"):
            if not table[optional]:
                del table[optional]
        table["curve"] = {name: list(values) for name, values in table["curve"].items()}
        return table
