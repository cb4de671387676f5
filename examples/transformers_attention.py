"""rankwise as the attention of a transformers model: the same logits, and every head's rank while the model runs.

    python examples/transformers_attention.py                # a tiny Llama and a tiny Qwen3, random weights
    python examples/transformers_attention.py --model DIR    # your own, on disk

Projections, positions and the KV cache stay the model's. Needs the extra ``audit``.
"""

from collections import defaultdict

import torch
import transformers
import tyro
from transformers import AutoModelForCausalLM, LlamaConfig, Qwen3Config

from rankwise.measure import hardmax_rank
from rankwise.nn import register_attention
from rankwise.theory import hardmax_rank_mean

SIZES = {
    "vocab_size": 97, "hidden_size": 48, "intermediate_size": 96, "num_hidden_layers": 2, "num_attention_heads": 6,
    "num_key_value_heads": 2, "head_dim": 16, "pad_token_id": 0, "bos_token_id": None, "eos_token_id": None,
}  # fmt: skip


def tiny_models() -> dict[str, torch.nn.Module]:
    torch.manual_seed(0)
    configs = {"tiny Llama": LlamaConfig(**SIZES), "tiny Qwen3": Qwen3Config(**SIZES)}
    return {name: AutoModelForCausalLM.from_config(config) for name, config in configs.items()}


@torch.no_grad()
def logits(model: torch.nn.Module, implementation: str, ids: torch.Tensor) -> torch.Tensor:
    model.set_attn_implementation(implementation)
    return model(ids).logits


@torch.no_grad()
def compare(model: torch.nn.Module, tokens: int = 64, new_tokens: int = 16) -> dict[str, object]:
    """Logits and cached generation against ``eager``; mean hardmax rank of every head, layer by layer."""
    model = model.eval()
    ids = torch.randint(1, model.config.vocab_size, (2, tokens), generator=torch.Generator().manual_seed(1))
    ranks: dict[int, torch.Tensor] = defaultdict(lambda: torch.zeros(0))

    def watch(module: torch.nn.Module, weights: torch.Tensor) -> None:
        ranks[module.layer_idx] = hardmax_rank(weights).double().mean(0)  # a number a head

    register_attention("rankwise")
    register_attention("rankwise-watching", observer=watch)
    register_attention("rankwise-hardmax", scores="hardmax")
    eager = logits(model, "eager", ids)
    differences = {
        name: (logits(model, name, ids) - eager).abs().max().item()
        for name in ("rankwise", "rankwise-watching", "rankwise-hardmax")
    }
    generated = {}
    for name in ("eager", "rankwise"):
        model.set_attn_implementation(name)
        generated[name] = model.generate(ids, max_new_tokens=new_tokens, do_sample=False, use_cache=True)
    return {
        "differences": differences,
        "same_generation": torch.equal(generated["eager"], generated["rankwise"]),
        "hardmax_ranks": [ranks[layer].tolist() for layer in sorted(ranks)],
    }


def main(model: str | None = None, tokens: int = 64) -> None:
    """Compare with ``eager`` and print the ranks of all heads on ``tokens`` random tokens."""
    transformers.logging.set_verbosity_error()
    models = tiny_models() if model is None else {model: AutoModelForCausalLM.from_pretrained(model)}
    for name, each in models.items():
        found = compare(each, tokens)
        print(name)
        for implementation, difference in found["differences"].items():
            print(f"  {implementation:18} largest difference of the logits from eager: {difference:.1e}")
        print(f"  generation with a KV cache as with eager: {found['same_generation']}")
        for layer, row in enumerate(found["hardmax_ranks"]):
            print(f"  layer {layer}: hardmax rank of its heads " + " ".join(f"{rank:.1f}" for rank in row))
    random = hardmax_rank_mean(tokens, mask="causal")
    print(f"random causal attention over {tokens} tokens: at most {random:.1f} on average")


if __name__ == "__main__":
    tyro.cli(main)
