"""What advice takes from a need: every block by its own measurement."""

from __future__ import annotations

from dataclasses import dataclass

from rankwise.need import NeedReport


@dataclass(frozen=True, kw_only=True)
class BlockNeed:
    """One measurement: the smallest rank whose error meets the target, and by the ends of the error's interval."""

    name: str
    rank: int
    low: int
    high: int


@dataclass(frozen=True, kw_only=True)
class MeasuredNeed:
    """All measurements of a need report."""

    blocks: tuple[BlockNeed, ...]
    dim: int
    target: float
    """The error asked for."""
    candidates: int
    """Keys among which the nearest was sought."""
    of_model: bool
    """Whether the blocks are the attention inputs of a model's layers, in their order."""

    @classmethod
    def of(cls, report: NeedReport) -> MeasuredNeed:
        """The need of every block of a report."""
        return cls(
            blocks=tuple(
                BlockNeed(name=one.name, rank=one.need, low=one.need_low, high=one.need_high)
                for one in report.measurements
            ),
            dim=report.most_demanding.dim,
            target=report.settings.target,
            candidates=report.most_demanding.candidates,
            of_model=report.source.model is not None,
        )

    @property
    def rank(self) -> int:
        """The largest need."""
        return max(one.rank for one in self.blocks)

    @property
    def least(self) -> int:
        """The smallest need."""
        return min(one.rank for one in self.blocks)

    @property
    def span(self) -> str:
        """``58, within 52 to 61 with 95 %,``, or ``42 to 73 in 6 blocks``."""
        if len(self.blocks) == 1:
            only = self.blocks[0]
            return f"{only.rank}, within {only.low} to {only.high} with 95 %,"
        return f"{self.least} to {self.rank} in {len(self.blocks)} blocks"

    def for_layers(self, layers: int) -> tuple[BlockNeed, ...]:
        """One need per layer where as many were measured; else the most demanding one for all."""
        if self.of_model and len(self.blocks) == layers:
            return self.blocks
        return (max(self.blocks, key=lambda one: one.rank),) * layers
