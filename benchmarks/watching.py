"""Watching a training: what a look costs, and how often it gives a false alarm.

- Overhead: the time of a look over that of ``every`` training steps, at the default settings; both in turns.
- False alarms: heads that give an alarm at initialisation, in models of five kinds and many seeds. With no alarm among
  n heads the rate is below 3 / n with 95 % confidence.
"""

from __future__ import annotations

import statistics
from collections.abc import Callable, Iterator

import torch
from rich.console import Console
from rich.table import Table
from scipy.stats import beta
from torch import Tensor, nn
from transformers import AutoModelForCausalLM, GPT2Config, LlamaConfig, Qwen3Config

from benchmarks.timing import in_turns
from rankwise.nn import TokenModel
from rankwise.spec import ModelSpec, TokenInterface
from rankwise.watch import Watch

VOCABULARY, TOKENS = 512, 128
_COMMON = {"vocab_size": VOCABULARY, "pad_token_id": None, "bos_token_id": None, "eos_token_id": None}
_LLAMA = {"hidden_size": 128, "num_hidden_layers": 4, "num_attention_heads": 8,
          "num_key_value_heads": 8, "intermediate_size": 256} | _COMMON  # fmt: skip


def own_stack() -> nn.Module:
    spec = ModelSpec(dim=128, layers=4, heads=8, rank=16, causal=True, positions="rotary", feedforward=256)
    return TokenModel(TokenInterface(vocabulary=VOCABULARY, outputs=VOCABULARY), spec)


class TorchEncoder(nn.Module):
    """PyTorch's own encoder, which sees everything."""

    def __init__(self) -> None:
        super().__init__()
        self.table = nn.Embedding(VOCABULARY, 128)
        self.positions = nn.Parameter(torch.randn(TOKENS, 128) * 0.02)
        layer = nn.TransformerEncoderLayer(128, 8, 256, batch_first=True)
        self.encoder = nn.TransformerEncoder(layer, 4, enable_nested_tensor=False)

    def forward(self, ids: Tensor) -> Tensor:
        return self.encoder(self.table(ids) + self.positions)


KINDS: dict[str, Callable[[], nn.Module]] = {
    "rankwise stack": own_stack,
    "torch encoder": TorchEncoder,
    "Llama": lambda: AutoModelForCausalLM.from_config(LlamaConfig(**_LLAMA)),
    "Qwen3": lambda: AutoModelForCausalLM.from_config(Qwen3Config(**_LLAMA, head_dim=16)),
    "GPT-2": lambda: AutoModelForCausalLM.from_config(GPT2Config(n_embd=128, n_layer=4, n_head=8, **_COMMON)),
}


def text_like(batch: int, seed: int) -> Tensor:
    """Ids with the frequencies of words: the k-th most frequent in proportion to 1 / k."""
    generator = torch.Generator().manual_seed(seed)
    weights = 1 / torch.arange(1, VOCABULARY + 1, dtype=torch.float64)
    return torch.multinomial(weights, batch * TOKENS, replacement=True, generator=generator).view(batch, TOKENS)


def shares_at_start(seeds: int) -> Iterator[tuple[str, int, int, dict[str, float]]]:
    """(kind, heads, alarms, smallest share of each baseline)."""
    for kind, build in KINDS.items():
        heads = alarms = 0
        least = {"attention rank": 9.0, "entropy": 9.0, "QK": 9.0}
        for seed in range(seeds):
            torch.manual_seed(seed)
            model = build()
            with Watch(model) as watch, torch.no_grad():
                model(text_like(2, seed))
                seen = watch.look()
            heads, alarms = heads + len(seen.heads), alarms + len(seen.alarms)
            for head in seen.heads:
                least["attention rank"] = min(least["attention rank"], head.attention_rank / head.attention_rank_random)
                least["entropy"] = min(least["entropy"], head.entropy / head.entropy_uniform)
                if head.qk_effective is not None and head.qk_effective_random is not None:
                    least["QK"] = min(least["QK"], head.qk_effective / head.qk_effective_random)
        yield kind, heads, alarms, least


def overhead(seconds: float) -> dict[str, float]:
    """Of a look every 100 steps, as a share of training without it."""
    found = {}
    for kind in ("rankwise stack", "Llama"):
        torch.manual_seed(0)
        model = KINDS[kind]()
        optimizer = torch.optim.AdamW(model.parameters())
        ids = text_like(16, 0)

        def step(model: nn.Module = model, optimizer: torch.optim.Optimizer = optimizer, ids: Tensor = ids) -> None:
            optimizer.zero_grad()
            logits = model(ids)
            logits = logits if isinstance(logits, Tensor) else logits.logits
            nn.functional.cross_entropy(logits[:, :-1].flatten(0, 1), ids[:, 1:].flatten()).backward()
            optimizer.step()

        with Watch(model) as watch:
            step()
            times = in_turns({"step": step, "look": watch.look}, seconds)
            found[kind] = statistics.median(times["look"]) / (watch.every * statistics.median(times["step"]))
    return found


def main(seconds: float = 15.0, seeds: int = 40) -> None:
    """Print both."""
    table = Table(
        "at initialisation", "heads", "alarms", "rate below (95 %)", "least rank", "least entropy", "least QK"
    )
    total = [0, 0]
    for kind, heads, alarms, least in shares_at_start(seeds):
        total = [total[0] + heads, total[1] + alarms]
        table.add_row(
            kind, str(heads), str(alarms), f"{_upper(alarms, heads):.2%}", *(f"{v:.2f}" for v in least.values())
        )
    table.add_row("all", str(total[0]), str(total[1]), f"{_upper(total[1], total[0]):.3%}", "", "", "")
    Console().print(table)
    for kind, share in overhead(seconds).items():
        Console().print(f"a look every 100 steps, {kind}: {share:.2%} of the training's time")


def _upper(alarms: int, heads: int) -> float:
    """Clopper and Pearson's one-sided bound."""
    return float(beta.ppf(0.95, alarms + 1, heads - alarms))


if __name__ == "__main__":
    main()
