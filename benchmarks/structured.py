"""Forward and backward of structured heads, beside dense heads of the rank that they have, and of their weights.

All heads have the same values, so that only queries and keys differ. ``d`` is a plain head of rank dim, ``equal
weights`` one with as many score weights as the structured head. Below 1 means the structured head is faster.
"""

from __future__ import annotations

from collections.abc import Callable
from math import isqrt, prod

import torch
from rich.console import Console
from rich.table import Table

from benchmarks.layer import training_step
from benchmarks.timing import in_turns, ratio
from rankwise.nn import MultiheadAttention
from rankwise.spec import AttentionSpec

SHAPES = [  # batch, tokens, dim (a square), heads
    (64, 16, 64, 1),
    (64, 16, 64, 8),
    (8, 128, 256, 4),
    (2, 512, 1024, 4),
]


def forms(dim: int, heads: int) -> dict[str, AttentionSpec]:
    """Three forms of full rank, and the plain head of equal weights; sqrt(dim) blocks make its rank sqrt(dim)."""
    blocks = isqrt(dim)
    shape = {"dim": dim, "heads": heads, "value_rank": dim // heads, "bias": False}
    return {
        "d": AttentionSpec(**shape, rank=dim),
        "equal weights": AttentionSpec(**shape, rank=blocks),
        "block_low_rank": AttentionSpec(**shape, rank=blocks // 2, score_form="block_low_rank", blocks=blocks),
        "monarch": AttentionSpec(**shape, rank=1, score_form="monarch", blocks=blocks),
    }


def contestants(batch: int, tokens: int, specs: dict[str, AttentionSpec]) -> dict[str, Callable[[], None]]:
    torch.manual_seed(0)
    dim = next(iter(specs.values())).dim
    x, grad = torch.randn(batch, tokens, dim, requires_grad=True), torch.randn(batch, tokens, dim)
    return {name: training_step(MultiheadAttention.from_spec(spec), x, grad) for name, spec in specs.items()}


def main(seconds: float = 8.0) -> None:
    """Print one table of ratios."""
    table = Table("batch x tokens", "dim", "heads", "form", "score weights / d", "time / d", "time / equal weights")
    for batch, tokens, dim, heads in SHAPES:
        specs = forms(dim, heads)
        times = in_turns(contestants(batch, tokens, specs), seconds)
        weights = {name: sum(map(prod, spec.score_shapes().values())) for name, spec in specs.items()}
        for name in ("block_low_rank", "monarch"):
            table.add_row(
                f"{batch} x {tokens}",
                str(dim),
                str(heads),
                name,
                f"{weights[name] / weights['d']:.3f}",
                f"{ratio(times, name, 'd'):.2f}",
                f"{ratio(times, name, 'equal weights'):.2f}",
            )
    Console().print(table)


if __name__ == "__main__":
    main()
