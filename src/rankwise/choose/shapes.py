"""Shapes of attention that spend one budget: heads x rank x value rank x key heads.

With H heads of rank r and value rank v that share G key heads, a layer of width d has ``(H + G)(r + v) d`` attention
weights and keeps ``G (r + v)`` numbers per token. A budget of weights or of cache is met by choosing H, then v: every
shape lies within ``WITHIN`` of the budget, and everything that is not attention is the same for all.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from rankwise.errors import InvalidInputError, require_int

WITHIN = 0.03
"""How far a shape may lie from the budget, as a share of it."""
CACHE_BYTES = 2
"""Of one cached number, as models are served."""
_GROUPS = (1, 2, 4)
_NEAR = 1.4
BudgetKind = Literal["parameters", "cache"]


@dataclass(frozen=True, kw_only=True)
class HeadShape:
    """The attention of every layer."""

    heads: int
    rank: int
    value_rank: int
    kv_heads: int

    def parameters(self, dim: int, layers: int) -> int:
        """Attention weights of the model."""
        return layers * (self.heads + self.kv_heads) * (self.rank + self.value_rank) * dim

    def cache(self, layers: int) -> int:
        """Bytes of keys and values per token in all layers."""
        return CACHE_BYTES * layers * self.kv_heads * (self.rank + self.value_rank)

    @property
    def words(self) -> str:
        """``8 heads of rank 16, value rank 32, 2 key heads``."""
        heads = f"{self.heads} head{'s' * (self.heads != 1)} of rank {self.rank}, value rank {self.value_rank}"
        shared = "" if self.kv_heads == self.heads else f", {self.kv_heads} key head{'s' * (self.kv_heads != 1)}"
        return heads + shared


@dataclass(frozen=True, kw_only=True)
class ShapeBudget:
    """What all shapes may spend in the whole small model: attention weights, or bytes of cache per token."""

    kind: BudgetKind
    amount: int

    @property
    def words(self) -> str:
        """``32,768 attention weights``."""
        unit = "attention weights" if self.kind == "parameters" else "bytes of keys and values per token"
        return f"{self.amount:,} {unit}"

    def spent(self, shape: HeadShape, dim: int, layers: int) -> int:
        """What ``shape`` spends of it."""
        return shape.parameters(dim, layers) if self.kind == "parameters" else shape.cache(layers)


def shapes_within(budget: ShapeBudget, *, dim: int, layers: int) -> tuple[HeadShape, ...]:
    """All shapes of the grid that spend ``budget``: ranks 2, 4, ... to d, values of about half, once and twice the
    rank, groups of 1, 2 and 4 heads per key head."""
    option = "--parameters" if budget.kind == "parameters" else "--cache"
    require_int(option, budget.amount, minimum=1)
    found: dict[HeadShape, None] = {}
    for rank in _ranks(dim):
        for value_rank in sorted({rank, max(1, rank // 2), min(dim, 2 * rank)}):
            for group in _GROUPS:
                one = _of_budget(budget, rank, value_rank, group, dim, layers)
                if one is not None:
                    found[one] = None
    if len({shape.rank for shape in found}) < 2:
        least, most = _reach(budget.kind, dim, layers)
        raise InvalidInputError(
            f"{option}: expected a budget that heads of several ranks can spend in {layers} layers of width {dim} "
            f"(about {least:,} to {most:,}), got {budget.amount:,}"
        )
    return tuple(found)


def _of_budget(budget: ShapeBudget, rank: int, value_rank: int, group: int, dim: int, layers: int) -> HeadShape | None:
    """The number of key heads, each with ``group`` heads, that comes closest to the budget, and then the value rank
    that meets it; None where that value rank is far from the wanted one."""
    one = HeadShape(heads=group, rank=rank, value_rank=value_rank, kv_heads=1)
    count = max(1, round(budget.amount / budget.spent(one, dim, layers)))
    per_coordinate = count * budget.spent(HeadShape(heads=group, rank=1, value_rank=0, kv_heads=1), dim, layers)
    fitted = round(budget.amount / per_coordinate) - rank
    shape = HeadShape(heads=group * count, rank=rank, value_rank=fitted, kv_heads=count)
    near = value_rank / _NEAR <= fitted <= min(dim, value_rank * _NEAR)
    off = abs(budget.spent(shape, dim, layers) / budget.amount - 1)
    return shape if near and off <= WITHIN and shape.heads <= 2 * dim else None


def _ranks(dim: int) -> list[int]:
    ranks = [2]
    while 2 * ranks[-1] <= dim:
        ranks.append(2 * ranks[-1])
    return ranks


def _reach(kind: BudgetKind, dim: int, layers: int) -> tuple[int, int]:
    """The standard shapes of one and of four times the width."""
    least = HeadShape(heads=1, rank=dim // 2, value_rank=dim // 2, kv_heads=1)
    most = HeadShape(heads=4, rank=dim, value_rank=dim, kv_heads=4)
    if kind == "parameters":
        return least.parameters(dim, layers), most.parameters(dim, layers)
    return least.cache(layers), most.cache(layers)
