"""What one look at a training says, and when a head gives an alarm."""

from __future__ import annotations

from dataclasses import dataclass

from rankwise.errors import InvalidInputError, require_number


@dataclass(frozen=True, kw_only=True)
class Thresholds:
    """Below which share of its baseline a head gives an alarm: a heuristic, with a measured rate of false alarms.

    At initialisation none of 3,200 heads of five kinds of models gave one (``benchmarks/watching.py``): a rate below
    0.1 % with 95 % confidence, if heads count as independent.
    """

    collapse: float = 0.1
    """Of the attention rank of random attention, or of the QK effective rank of random weights. Every rank is at least
    1, so that sequences of fewer than about 20 tokens give no alarm by their attention rank."""
    saturation: float = 0.05
    """Of the entropy of uniform attention: the softmax is nearly one-hot, and its scores get hardly any gradient."""

    def __post_init__(self) -> None:
        for name in ("collapse", "saturation"):
            if require_number(name, getattr(self, name), minimum=0.0) > 1:
                raise InvalidInputError(f"{name}: expected a share from 0 to 1, got {getattr(self, name)!r}")


@dataclass(frozen=True, kw_only=True)
class HeadReading:
    """One head at one step, each number beside its baseline."""

    layer: str
    """The module's path."""
    head: int
    attention_rank: float
    """Hardmax rank, the mean over sequences."""
    attention_rank_random: float
    """The same where every row picks a key at random among those that the mask shows it."""
    entropy: float
    """Of a row of attention, in nats; the mean over rows."""
    entropy_uniform: float
    """Of rows that are uniform over what they see."""
    qk_effective: float | None
    """Effective rank of the query-key form: of the weights ``W_Q^T W_K``, and in models of ``transformers``, which do
    not say where those lie, of the first sequence's ``q k^T``; None in latent attention."""
    qk_effective_random: float | None
    """The same for Gaussian numbers of the same shapes."""


@dataclass(frozen=True, kw_only=True)
class Alarm:
    """A head that is far below its baseline."""

    kind: str
    """``"collapse"`` or ``"saturation"``."""
    layer: str
    head: int
    measure: str
    """Which reading it is about."""
    share: float
    """Of the baseline."""

    def __str__(self) -> str:
        return f"{self.kind}: {self.layer} head {self.head}: {self.measure} is {self.share:.1%} of its baseline"


@dataclass(frozen=True, kw_only=True)
class Observation:
    """All heads at one step."""

    step: int
    heads: tuple[HeadReading, ...]
    alarms: tuple[Alarm, ...]


def alarms_of(heads: list[HeadReading], thresholds: Thresholds) -> tuple[Alarm, ...]:
    """Every head that is below a threshold, once per kind."""
    found = []
    for head in heads:
        of_rank = head.attention_rank / head.attention_rank_random
        of_qk = None if head.qk_effective is None or not head.qk_effective_random else (
            head.qk_effective / head.qk_effective_random
        )  # fmt: skip
        measure, share = ("attention rank", of_rank)
        if of_qk is not None and of_qk < share:
            measure, share = ("QK effective rank", of_qk)
        if share < thresholds.collapse:
            found.append(Alarm(kind="collapse", layer=head.layer, head=head.head, measure=measure, share=share))
        if head.entropy_uniform and head.entropy < thresholds.saturation * head.entropy_uniform:
            share = head.entropy / head.entropy_uniform
            found.append(Alarm(kind="saturation", layer=head.layer, head=head.head, measure="entropy", share=share))
    return tuple(found)
