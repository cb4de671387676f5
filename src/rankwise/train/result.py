"""What a run leaves behind."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any


@dataclass(frozen=True, kw_only=True)
class TrainingCurve:
    """One entry per epoch: the steps made, the mean training loss over the epoch, the validation error at its end."""

    steps: tuple[int, ...]
    train: tuple[float, ...]
    validation: tuple[float, ...]


@dataclass(frozen=True, kw_only=True)
class RunResult:
    """The outcome of one run."""

    error: float
    """The task's error of the last weights on held-out examples."""
    error_se: float
    """Standard error of ``error`` over those examples."""
    train_min: float
    """The smallest mean training loss of an epoch: the statistic of the paper's figures."""
    steps: int
    """Steps made."""
    sequences: int
    """Training examples seen."""
    parameters: int
    """Trainable numbers."""
    stopped_early: bool
    """Whether ``optim.patience`` ended the run."""
    curve: TrainingCurve
    """Errors during training."""
    versions: Mapping[str, str]
    """Versions of the software, by package."""
    threads: int
    """CPU threads that PyTorch used."""
    device: str
    """``cpu``, or CUDA with the name of the hardware."""
    seconds: float
    """At work, also before an interruption. Equal runs on equal software differ in it alone."""
    details: Mapping[str, Any] | None = None
    """The task's further numbers on the held-out examples: ``NAME`` and its standard error ``NAME_se``."""
    attention: Mapping[str, Any] | None = None
    """The ranks of a probed run (see ``train.probe``); None without a probe."""

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
