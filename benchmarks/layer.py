"""Forward and backward of one attention layer, ours against the layers it replaces.

- ``nn.MultiheadAttention`` at heads = dim/rank, the only shape it has;
- the sum of many one-head (or few-head) ``nn.MultiheadAttention`` modules, which is how heads > dim/rank is usually
  had from PyTorch;
- ``x_transformers.Attention``, whose head dimension is free; it has no biases, so ours has none beside it.
Below 1 means ours is faster.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from rich.console import Console
from rich.table import Table
from torch import Tensor, nn
from x_transformers.x_transformers import Attention as XAttention

from benchmarks.timing import in_turns, ratio
from rankwise.nn import MultiheadAttention

SHAPES = [  # batch, tokens, dim, heads, rank
    (64, 16, 64, 1, 64),
    (64, 16, 64, 8, 8),
    (64, 16, 64, 64, 1),
    (64, 16, 64, 64, 8),
    (64, 16, 64, 64, 32),
    (64, 16, 64, 64, 64),
    (8, 512, 512, 8, 64),
    (8, 512, 512, 4, 128),
]


class SummedModules(nn.Module):
    """heads x rank split into modules of dim/rank heads each, outputs added."""

    def __init__(self, dim: int, heads: int, rank: int) -> None:
        super().__init__()
        per_module = dim // rank
        self.parts = nn.ModuleList(
            nn.MultiheadAttention(dim, per_module, batch_first=True) for _ in range(heads // per_module)
        )

    def forward(self, x: Tensor) -> Tensor:
        total = torch.zeros_like(x)
        for part in self.parts:
            total = total + part(x, x, x, need_weights=False)[0]
        return total


def training_step(module: Callable[[Tensor], Tensor], x: Tensor, grad: Tensor) -> Callable[[], None]:
    def step() -> None:
        x.grad = None
        module(x).backward(grad)

    return step


def contestants(batch: int, tokens: int, dim: int, heads: int, rank: int) -> dict[str, Callable[[], None]]:
    torch.manual_seed(0)
    x, grad = torch.randn(batch, tokens, dim, requires_grad=True), torch.randn(batch, tokens, dim)
    modules: dict[str, Callable[[Tensor], Tensor]] = {
        "rankwise": MultiheadAttention(dim, heads, rank),
        "rankwise, no biases": MultiheadAttention(dim, heads, rank, bias=False),
        "x-transformers": XAttention(dim, heads=heads, dim_head=rank, flash=tokens >= 128),
    }
    if heads * rank == dim:
        theirs = nn.MultiheadAttention(dim, heads, batch_first=True)
        modules["nn.MultiheadAttention"] = lambda inputs: theirs(inputs, inputs, inputs, need_weights=False)[0]
    elif heads * rank > dim:
        modules["summed modules"] = SummedModules(dim, heads, rank)
    return {name: training_step(module, x, grad) for name, module in modules.items()}


def main(seconds: float = 8.0) -> None:
    """Print one table of ratios."""
    peers = {
        "nn.MultiheadAttention": "rankwise",
        "summed modules": "rankwise",
        "x-transformers": "rankwise, no biases",
    }
    table = Table("batch x tokens", "dim", "heads", "rank", "ours (ms)", *[f"ours / {peer}" for peer in peers])
    for shape in SHAPES:
        times = in_turns(contestants(*shape), seconds)
        ratios = [f"{ratio(times, own, peer):.2f}" if peer in times else "" for peer, own in peers.items()]
        batch, tokens, *sizes = shape
        milliseconds = 1e3 * sorted(times["rankwise"])[len(times["rankwise"]) // 2]
        table.add_row(f"{batch} x {tokens}", *map(str, sizes), f"{milliseconds:.1f}", *ratios)
    Console().print(table)


if __name__ == "__main__":
    main()
