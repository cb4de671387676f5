"""What a matrix's rank is, by every definition in use, each under its own name."""

from rankwise.measure.attention import attention_ranks
from rankwise.measure.rank import (
    effective_rank,
    energy_rank,
    hardmax_rank,
    numerical_rank,
    participation_ratio,
    stable_rank,
)

__all__ = [
    "attention_ranks",
    "effective_rank",
    "energy_rank",
    "hardmax_rank",
    "numerical_rank",
    "participation_ratio",
    "stable_rank",
]
