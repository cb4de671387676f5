"""A watched training as a document: ``watch.write(FILE)``, for ``rankwise report --watch FILE``."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rankwise.errors import InvalidInputError
from rankwise.spec import Words, read_document, to_document, write_document
from rankwise.watch.observation import Alarm, Observation, Thresholds

FORMAT = "rankwise-watch/1"


@dataclass(frozen=True, kw_only=True)
class WatchReport:
    """All looks at one training."""

    model: Words
    """The class of the model."""
    every: int
    """Steps between looks."""
    thresholds: Thresholds
    observations: tuple[Observation, ...]

    def __post_init__(self) -> None:
        if not self.observations:
            raise InvalidInputError("observations: expected at least one look at the model, got none")

    @property
    def alarms(self) -> tuple[Alarm, ...]:
        """Of the last look."""
        return self.observations[-1].alarms

    def headline(self) -> str:
        """The last look in a sentence."""
        last = self.observations[-1]
        heads = len({(alarm.layer, alarm.head) for alarm in last.alarms})
        said = f"{heads} of {len(last.heads)} heads give an alarm" if heads else f"no alarm of {len(last.heads)} heads"
        return f"{self.model} at step {last.step:,}: {said}"

    def to_json(self) -> dict[str, Any]:
        """Plain values."""
        return to_document(FORMAT, self, digits=6)

    def write(self, path: Path) -> None:
        """To a file."""
        write_document(self.to_json(), path)


def read_watch(path: Path) -> WatchReport:
    """The document that ``Watch.write`` wrote."""
    return read_document(WatchReport, path, format=FORMAT, made_by="watch.write(FILE)")
