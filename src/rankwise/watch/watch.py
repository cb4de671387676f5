"""One hook for any training loop: ``watch = Watch(model)``, then ``watch.step()`` after every optimiser step."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from rankwise.errors import InvalidInputError, require_int
from rankwise.watch.document import WatchReport
from rankwise.watch.observation import HeadReading, Observation, Thresholds, alarms_of
from rankwise.watch.taps import Tap, taps_of

if TYPE_CHECKING:
    from torch import nn


class ScalarWriter(Protocol):
    """TensorBoard's ``SummaryWriter``, and whatever writes scalars as it does."""

    def add_scalar(self, tag: str, scalar_value: float, global_step: int) -> Any:
        """Keep one number under its name."""
        ...


Log = ScalarWriter | Callable[[Mapping[str, float], int], None]
"""A ``SummaryWriter``, or ``log(scalars, step)``."""


class Watch:
    """Attention rank, entropy and QK effective rank of every head, every ``every`` steps, beside random attention.

    - ``model``: any module with layers of ``rankwise.nn`` or ``nn.MultiheadAttention``, or a model of ``transformers``.
    - ``every``: steps between looks.
    - ``sequences``, ``length``: how many of a batch's sequences are looked at, and how many of their tokens.
    - ``log``: TensorBoard's ``SummaryWriter``, or a function ``log(scalars, step)``.
    - ``on_alarm``: called with the observation when heads give an alarm.
    - ``thresholds``: when they do.

    A look repeats the attention of a few sequences without gradient; it changes neither weights nor random state nor
    gradients. ``history`` has all observations, ``rows`` their numbers; ``write(FILE)`` keeps them for the page
    (``rankwise report --watch FILE``); ``close()`` removes the hooks.
    """

    def __init__(
        self,
        model: nn.Module,
        *,
        every: int = 100,
        sequences: int = 2,
        length: int = 128,
        log: Log | None = None,
        on_alarm: Callable[[Observation], None] | None = None,
        thresholds: Thresholds | None = None,
    ) -> None:
        self.every = require_int("every", every, minimum=1)
        self.sequences = require_int("sequences", sequences, minimum=1)
        self.length = require_int("length", length, minimum=2)
        self.thresholds = thresholds or Thresholds()
        self.history: list[Observation] = []
        self.steps = 0
        self._log, self._on_alarm = log, on_alarm
        self._name = type(model).__name__
        self._taps: list[Tap] = taps_of(model)
        if not self._taps:
            raise InvalidInputError(
                f"model: expected attention to watch, got none in {type(model).__name__}: no layers of rankwise.nn, no "
                "nn.MultiheadAttention, no model of transformers"
            )
        self._ends = [tap.attach() for tap in self._taps]

    def step(self) -> Observation | None:
        """Count a step; after the first and then every ``every`` steps, look."""
        due = self.steps % self.every == 0
        self.steps += 1
        return self.look() if due else None

    def look(self) -> Observation:
        """Look now, at what the model was last called with."""
        heads: list[HeadReading] = []
        for tap in self._taps:
            heads += tap.readings(self.sequences, self.length)
        if not heads:
            raise InvalidInputError("watch: expected the model to have been called since it began, got no inputs")
        seen = Observation(step=max(0, self.steps - 1), heads=tuple(heads), alarms=alarms_of(heads, self.thresholds))
        self.history.append(seen)
        self._tell(seen)
        return seen

    def close(self) -> None:
        """Remove the hooks."""
        for end in self._ends:
            end()
        self._ends, self._taps = [], []

    def __enter__(self) -> Watch:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @property
    def rows(self) -> list[dict[str, Any]]:
        """Every number, one row per step and head."""
        return [{"step": seen.step} | asdict(head) for seen in self.history for head in seen.heads]

    @property
    def report(self) -> WatchReport:
        """All looks so far as a document."""
        return WatchReport(
            model=self._name, every=self.every, thresholds=self.thresholds, observations=tuple(self.history)
        )

    def write(self, path: Path | str) -> Path:
        """The document as a JSON file, for ``rankwise report --watch``."""
        self.report.write(Path(path))
        return Path(path)

    def _tell(self, seen: Observation) -> None:
        if self._on_alarm is not None and seen.alarms:
            self._on_alarm(seen)
        if self._log is None:
            return
        scalars = scalars_of(seen)
        if callable(self._log):
            self._log(scalars, seen.step)
            return
        for tag, value in scalars.items():
            self._log.add_scalar(tag, value, seen.step)


def scalars_of(seen: Observation) -> dict[str, float]:
    """The shares of the baselines by name: one number per head and measure, and the number of alarms."""
    scalars: dict[str, float] = {"rankwise/alarms": float(len(seen.alarms))}
    for head in seen.heads:
        place = f"{head.layer}/head{head.head}"
        scalars[f"rankwise/attention_rank/{place}"] = head.attention_rank / head.attention_rank_random
        if head.entropy_uniform:
            scalars[f"rankwise/entropy/{place}"] = head.entropy / head.entropy_uniform
        if head.qk_effective is not None and head.qk_effective_random:
            scalars[f"rankwise/qk_effective/{place}"] = head.qk_effective / head.qk_effective_random
    return scalars
