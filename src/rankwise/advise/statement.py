"""One statement of advice: what to do or to find out, why, how sure it is, and what it does not prove."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from rankwise.shapes import ModelShape

Confidence = Literal["theorem", "our derivation", "heuristic", "hypothesis", "measurement", "not measured"]


@dataclass(frozen=True, kw_only=True)
class Statement:
    """What is said, in order of reading."""

    what: str
    reason: str
    confidence: Confidence
    """``measurement`` only where the very change was tried; a shape that nobody has trained is a ``hypothesis``, and
    ``not measured`` is said where nothing is known either way."""
    does_not_prove: str
    command: str | None = None
    """A command that runs as it stands, and says or does the next step."""
    shapes: tuple[ModelShape, ...] = ()
    """The layers that the statement leads to, each with its number of layers; empty where it changes none."""
