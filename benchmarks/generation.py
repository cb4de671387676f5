"""Generating 256 tokens by 6 layers of d = 512: with a cache, without, and ``transformers``' Llama of equal shape.

All three are the same function: the Llama is the exported stack, so that the texts must agree. Below 1 means faster
than the reference. The read-out is a table of 1,000 ids.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from rich.console import Console
from rich.table import Table
from torch import Tensor
from transformers import DynamicCache, StaticCache

from benchmarks.timing import in_turns, ratio
from rankwise.nn import TokenModel, export_transformer
from rankwise.spec import ModelSpec, TokenInterface

LAYERS, DIM, VOCABULARY, PROMPT, NEW_TOKENS = 6, 512, 1000, 16, 256


@torch.no_grad()
def greedy(step: Callable[[Tensor], Tensor], prompt: Tensor, *, whole: bool) -> Tensor:
    """``prompt`` continued; ``step`` gets what is new, or the ``whole`` text, and returns logits."""
    ids = unread = prompt
    for _ in range(NEW_TOKENS):
        newest = step(unread)[:, -1:].argmax(-1)
        ids = torch.cat((ids, newest), dim=1)
        unread = ids if whole else newest
    return ids


def contestants(kv_heads: int) -> dict[str, Callable[[], Tensor]]:
    torch.manual_seed(0)
    spec = ModelSpec(
        dim=DIM, layers=LAYERS, heads=8, rank=64, kv_heads=kv_heads, causal=True, positions="rotary",
        feedforward=4 * DIM, activation="gelu", norm_place="pre",
    )  # fmt: skip
    model = TokenModel(TokenInterface(vocabulary=VOCABULARY, outputs=VOCABULARY), spec).eval().requires_grad_(False)
    llama = export_transformer(model.transformer).eval()
    prompt = torch.randint(VOCABULARY, (1, PROMPT))
    assert model.embedding is not None
    embedding, read_out = model.embedding, model.read_out

    def cached() -> Tensor:
        cache = model.transformer.new_cache(1, PROMPT + NEW_TOKENS)
        return greedy(lambda ids: model(ids, cache=cache), prompt, whole=False)

    def llama_with(cache: object) -> Tensor:
        def step(ids: Tensor) -> Tensor:
            states = llama(inputs_embeds=embedding(ids), past_key_values=cache, use_cache=True).last_hidden_state
            return read_out(states)

        return greedy(step, prompt, whole=False)

    return {
        "with cache": cached,
        "without cache": lambda: greedy(model, prompt, whole=True),
        "Llama": lambda: llama_with(DynamicCache(config=llama.config)),
        "Llama, static cache": lambda: llama_with(StaticCache(llama.config, max_cache_len=PROMPT + NEW_TOKENS)),
    }


def main(seconds: float = 10.0) -> None:
    """Print one table of ratios."""
    table = Table("key heads", "tokens per second with cache", "with / without", "with / Llama", "with / Llama, static")
    for kv_heads in (8, 2):
        runs = contestants(kv_heads)
        texts = [run() for run in runs.values()]
        assert all(torch.equal(text, texts[0]) for text in texts), "the same function must write the same text"
        times = in_turns(runs, seconds, rounds=2, warm_up=0)
        ratios = [f"{ratio(times, 'with cache', name):.2f}" for name in runs if name != "with cache"]
        rate = NEW_TOKENS / sorted(times["with cache"])[len(times["with cache"]) // 2]
        table.add_row(str(kv_heads), f"{rate:.0f}", *ratios)
    Console().print(table)


if __name__ == "__main__":
    main()
