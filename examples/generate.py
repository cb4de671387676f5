"""Text from a small byte model, token by token, with a cache of keys and values.

    python examples/generate.py                      # trains on the standard library's source for a minute, then writes
    python examples/generate.py --steps 2000 --kv-lora-rank 32

With a cache every token is computed once; without one the whole text is computed again for every token. Both write the
same text.
"""

import time
from pathlib import Path

import torch
import tyro
from nanogpt_swap import read_bytes, trained_loss
from torch import Tensor

from rankwise.nn import TokenModel
from rankwise.spec import ModelSpec, TokenInterface


@torch.no_grad()
def generate(model: TokenModel, prompt: Tensor, new_tokens: int, *, cached: bool = True) -> Tensor:
    """``prompt`` [B, N] of ids, continued greedily to [B, N + new_tokens]."""
    ids = prompt
    cache = model.transformer.new_cache(len(prompt), prompt.shape[1] + new_tokens) if cached else None
    unread = prompt
    for _ in range(new_tokens):
        logits = model(unread, cache=cache)
        newest = logits[:, -1:].argmax(-1)
        ids = torch.cat((ids, newest), dim=1)
        unread = newest if cached else ids
    return ids


def main(
    data: Path | None = None,
    dim: int = 128,
    heads: int = 4,
    rank: int = 32,
    layers: int = 4,
    kv_heads: int | None = None,
    kv_lora_rank: int | None = None,
    context: int = 64,
    steps: int = 100,
    new_tokens: int = 128,
    seed: int = 0,
) -> str:
    """Train, then generate with and without a cache; returns the text."""
    torch.manual_seed(seed)
    spec = ModelSpec(
        dim=dim, layers=layers, heads=heads, rank=rank, kv_heads=kv_heads, kv_lora_rank=kv_lora_rank,
        rope_head_dim=None if kv_lora_rank is None else 16, causal=True, positions="rotary", feedforward=4 * dim,
        activation="gelu", norm_place="pre",
    )  # fmt: skip
    model = TokenModel(TokenInterface(vocabulary=256, outputs=256), spec)
    text = read_bytes(data)
    loss = trained_loss(model, text, context, steps, batch=12, seed=seed)
    model.eval()
    prompt = torch.tensor(list(b"def "))[None]
    texts = {}
    for cached in (True, False):
        start = time.perf_counter()
        texts[cached] = generate(model, prompt, new_tokens, cached=cached)
        seconds = time.perf_counter() - start
        print(f"{'with' if cached else 'without'} a cache: {new_tokens / seconds:,.0f} tokens per second")
    assert torch.equal(texts[True], texts[False])
    kept = sum(layer.nbytes for layer in model.transformer.new_cache(1, 1))
    print(f"the cache keeps {kept:,} bytes per token; {loss:.2f} nats per byte held out\n")
    written = bytes(texts[True][0].tolist()).decode(errors="replace")
    print(written)
    return written


if __name__ == "__main__":
    tyro.cli(main)
