"""A nanoGPT-sized byte model whose attention is swapped for one with a free rank.

    python examples/nanogpt_swap.py                            # trains on the standard library's source, on a CPU
    python examples/nanogpt_swap.py --data input.txt --ranks 8 32 64 128 --steps 2000

``GPT`` is ordinary PyTorch (the size of nanoGPT's CPU setting: 4 layers, 4 heads, dim 128, 64 bytes). One line of it
says which attention; everything else does not notice. With rank = dim / heads and the weights copied, the outputs are
those of the original.
"""

import sysconfig
from collections.abc import Callable, Sequence
from pathlib import Path

import torch
import tyro
from torch import Tensor, nn
from torch.nn import functional

from rankwise.nn import MultiheadAttention


class TorchAttention(nn.Module):
    """What most models have: one fused projection, rank = dim / heads."""

    def __init__(self, dim: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.qkv = nn.Linear(dim, 3 * dim)
        self.out = nn.Linear(dim, dim)

    def forward(self, x: Tensor) -> Tensor:
        q, k, v = (part.unflatten(2, (self.heads, -1)).transpose(1, 2) for part in self.qkv(x).chunk(3, dim=2))
        mixed = functional.scaled_dot_product_attention(q, k, v, is_causal=True)
        return self.out(mixed.transpose(1, 2).flatten(2))


class Block(nn.Module):
    def __init__(self, dim: int, attention: nn.Module) -> None:
        super().__init__()
        self.attention, self.attention_norm = attention, nn.LayerNorm(dim)
        self.mlp, self.mlp_norm = (
            nn.Sequential(nn.Linear(dim, 4 * dim), nn.GELU(), nn.Linear(4 * dim, dim)),
            nn.LayerNorm(dim),
        )

    def forward(self, x: Tensor) -> Tensor:
        x = x + self.attention(self.attention_norm(x))
        return x + self.mlp(self.mlp_norm(x))


class GPT(nn.Module):
    """Bytes in, logits of the next byte out."""

    def __init__(self, dim: int, layers: int, context: int, attention: Callable[[], nn.Module]) -> None:
        super().__init__()
        self.tokens, self.positions = nn.Embedding(256, dim), nn.Embedding(context, dim)
        self.blocks = nn.Sequential(*(Block(dim, attention()) for _ in range(layers)))  # <- the swap
        self.norm = nn.LayerNorm(dim)
        for table in (self.tokens, self.positions):
            nn.init.normal_(table.weight, std=0.02)

    def forward(self, ids: Tensor) -> Tensor:
        x = self.tokens(ids) + self.positions(torch.arange(ids.shape[1], device=ids.device))
        return self.norm(self.blocks(x)) @ self.tokens.weight.T


@torch.no_grad()
def copy_attention(theirs: TorchAttention, ours: MultiheadAttention) -> None:
    """A fused (out, in) projection, cut into heads."""
    heads = theirs.heads
    weights, biases = theirs.qkv.weight.chunk(3), theirs.qkv.bias.chunk(3)
    for name, weight, bias in zip("qkv", weights, biases, strict=True):
        getattr(ours, f"{name}_weight").copy_(weight.unflatten(0, (heads, -1)))
        getattr(ours, f"{name}_bias").copy_(bias.unflatten(0, (heads, -1)))
    ours.o_weight.copy_(theirs.out.weight.mT.unflatten(0, (heads, -1)))
    ours.o_bias.copy_(theirs.out.bias[None])


def swapped(original: GPT, dim: int, heads: int) -> GPT:
    """The same model with our layer at rank = dim / heads, weights copied."""
    attentions = []
    for block in original.blocks:
        ours = MultiheadAttention(dim, heads, rank=dim // heads, causal=True)
        copy_attention(block.attention, ours)
        attentions.append(ours)
    context = original.positions.num_embeddings
    model = GPT(dim, len(attentions), context, iter(attentions).__next__)
    state = {name: tensor for name, tensor in original.state_dict().items() if ".attention." not in name}
    model.load_state_dict(model.state_dict() | state)
    return model


def read_bytes(data: Path | None) -> Tensor:
    """The given file, or two megabytes of Python's own source."""
    if data is not None:
        text = data.read_bytes()
    else:
        sources = sorted(Path(sysconfig.get_path("stdlib")).glob("*.py"))
        text = b"".join(source.read_bytes() for source in sources)[: 2 << 20]
    return torch.frombuffer(bytearray(text), dtype=torch.uint8).long()


def trained_loss(model: GPT, text: Tensor, context: int, steps: int, batch: int, seed: int) -> float:
    """Train on the first nine tenths; mean loss in nats a byte on 64 pieces of the last tenth."""
    generator = torch.Generator().manual_seed(seed)
    cut = int(0.9 * len(text))

    def pieces(part: Tensor, count: int) -> Tensor:
        starts = torch.randint(len(part) - context - 1, (count, 1), generator=generator)
        return part[starts + torch.arange(context + 1)]

    def loss_of(rows: Tensor) -> Tensor:
        return functional.cross_entropy(model(rows[:, :-1]).flatten(0, 1), rows[:, 1:].flatten())

    held_out = pieces(text[cut:], 64)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    for _ in range(steps):
        optimizer.zero_grad()
        loss_of(pieces(text[:cut], batch)).backward()
        optimizer.step()
    with torch.no_grad():
        return loss_of(held_out).item()


def main(
    data: Path | None = None,
    ranks: Sequence[int] = (8, 32, 128),
    dim: int = 128,
    heads: int = 4,
    layers: int = 4,
    context: int = 64,
    batch: int = 12,
    steps: int = 100,
    seed: int = 0,
) -> dict[int, float]:
    """Train one model a rank, with the number of heads unchanged; returns their losses."""
    text = read_bytes(data)
    torch.manual_seed(seed)
    original = GPT(dim, layers, context, lambda: TorchAttention(dim, heads))
    ids = text[None, :context]
    with torch.no_grad():
        difference = (swapped(original, dim, heads)(ids) - original(ids)).abs().max().item()
    print(f"rank = dim/heads = {dim // heads}, weights copied: largest difference of the logits {difference:.1e}\n")
    print(f"{'rank':>6} {'parameters':>12} {'nats/byte':>10}   after {steps} steps on {len(text):,} bytes")
    losses = {}
    for rank in ranks:
        torch.manual_seed(seed)

        def attention(rank: int = rank) -> nn.Module:
            return MultiheadAttention(dim, heads, rank, causal=True)

        model = GPT(dim, layers, context, attention)
        losses[rank] = trained_loss(model, text, context, steps, batch, seed)
        mark = "  = dim/heads" if rank * heads == dim else ""
        print(f"{rank:>6} {sum(p.numel() for p in model.parameters()):>12,} {losses[rank]:>10.3f}{mark}")
    return losses


if __name__ == "__main__":
    tyro.cli(main)
