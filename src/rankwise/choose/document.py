"""``rankwise-choice/1``: what a search over shapes found, as plain data, written as JSON and read back."""

from __future__ import annotations

import math
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rankwise.choose.shapes import BudgetKind, HeadShape, ShapeBudget
from rankwise.errors import InvalidInputError
from rankwise.spec import Words, read_document, to_document, write_document

FORMAT = "rankwise-choice/1"
FLAT = 0.01
"""A loss within this share of the best counts as about as good."""
NOT_PROVED = (
    "that the same shape is best in a large model: these models are small, see little context and train briefly; nor "
    "that a shape dropped after a short training would not have won a long one."
)


@dataclass(frozen=True, kw_only=True)
class TrainedShape:
    """One shape, trained in full with every seed."""

    heads: int
    """Query heads."""
    rank: int
    """Coordinates of a query or key of one head."""
    value_rank: int
    """Coordinates of a value of one head."""
    kv_heads: int
    """Heads of keys and values."""
    parameters: int
    """Attention weights of the model."""
    cache_bytes: int
    """Of keys and values per token, all layers."""
    steps: int
    """Updates of the weights."""
    losses: tuple[float, ...]
    """Held-out loss by seed, in bits per byte."""
    loss: float
    """Held-out loss."""
    standard_error: float
    """Of the mean over seeds."""

    @property
    def shape(self) -> HeadShape:
        """Its sizes."""
        return HeadShape(heads=self.heads, rank=self.rank, value_rank=self.value_rank, kv_heads=self.kv_heads)


@dataclass(frozen=True, kw_only=True)
class BudgetSearch:
    """The best shape of every rank at one budget."""

    kind: BudgetKind
    amount: int
    shapes: tuple[TrainedShape, ...]

    def __post_init__(self) -> None:
        if not self.shapes:
            raise InvalidInputError("shapes: expected at least one, got none")
        if any(one.loss <= 0 for one in self.shapes):
            raise InvalidInputError("shapes: expected losses above 0 bits per byte, got one of 0 or less")

    @property
    def budget(self) -> ShapeBudget:
        """What was spent."""
        return ShapeBudget(kind=self.kind, amount=self.amount)

    @property
    def best(self) -> TrainedShape:
        """The lowest mean loss."""
        return min(self.shapes, key=lambda one: one.loss)

    @property
    def about_as_good(self) -> tuple[int, ...]:
        """Ranks whose loss is within ``FLAT`` of the best, or not told apart from it by two standard errors."""
        best = self.best
        return tuple(
            sorted(
                {
                    one.rank
                    for one in self.shapes
                    if one.loss - best.loss
                    <= max(FLAT * best.loss, 2 * math.hypot(one.standard_error, best.standard_error))
                }
            )
        )

    @property
    def flatness(self) -> str:
        """How flat the optimum is, in a sentence."""
        good, ranks = self.about_as_good, sorted({one.rank for one in self.shapes})
        worst = max(self.shapes, key=lambda one: one.loss)
        if len(good) == len(ranks):
            return f"The optimum is flat: no rank from {ranks[0]} to {ranks[-1]} is told apart from the best."
        many = f"ranks {', '.join(map(str, good))} are" if len(good) > 1 else "no other rank is"
        return (
            f"Of ranks {ranks[0]} to {ranks[-1]}, {many} about as good (within {FLAT:.0%} or two standard errors); "
            f"rank {worst.rank} is worst, {worst.loss / self.best.loss - 1:.1%} above the best."
        )


@dataclass(frozen=True, kw_only=True)
class Choice:
    """All budgets of one search."""

    rankwise: str
    """The version that searched."""
    preset: str
    text: Words
    """The name of the text."""
    sha256: str
    dim: int
    layers: int
    context: int
    searches: tuple[BudgetSearch, ...]

    def __post_init__(self) -> None:
        if not self.searches:
            raise InvalidInputError("searches: expected at least one, got none")

    def headline(self) -> str:
        """The answer in a sentence."""
        first = self.searches[0]
        error = f" ± {first.best.standard_error:.3f}" if first.best.standard_error else ""
        return f"At {first.budget.words}: {first.best.shape.words} ({first.best.loss:.3f}{error} bits per byte)"

    def to_json(self) -> dict[str, Any]:
        """Plain values."""
        return to_document(FORMAT, self)

    def write(self, path: Path) -> None:
        """To a file."""
        path.parent.mkdir(parents=True, exist_ok=True)
        write_document(self.to_json(), path)


def read_choice(path: Path) -> Choice:
    """The document that ``Choice.write`` wrote."""
    return read_document(Choice, path, format=FORMAT, made_by="rankwise choose ... -o FILE")
