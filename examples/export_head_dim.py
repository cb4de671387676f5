"""From a rankwise stack to a transformers model with an explicit ``head_dim``: the same outputs.

    python examples/export_head_dim.py                          # dim 64, 4 heads of rank 48: head_dim is not 64 / 4
    python examples/export_head_dim.py --value-rank 16 --pad    # what head_dim cannot say, padded with zeros
    python examples/export_head_dim.py --out my-model           # config.json and model.safetensors

A learned temperature is folded into W_Q; what cannot be expressed is named (try --value-rank 16 without --pad).
Needs the extra ``audit``.
"""

from pathlib import Path

import torch
import tyro

from rankwise.errors import RankwiseError
from rankwise.nn import Transformer, export_transformer
from rankwise.spec import ModelSpec


def main(
    dim: int = 64,
    heads: int = 4,
    rank: int = 48,
    value_rank: int | None = None,
    layers: int = 2,
    pad: bool = False,
    out: Path | None = None,
) -> float:
    """Export a random stack with heads of ``rank`` coordinates; returns the largest difference of the outputs."""
    torch.manual_seed(0)
    spec = ModelSpec(
        dim=dim, layers=layers, heads=heads, rank=rank, value_rank=value_rank, temperature="learned", causal=True,
        positions="rotary", norm_place="pre", feedforward=4 * dim, activation="gelu",
    )  # fmt: skip
    model = Transformer(spec)
    for layer in model.attention_layers():
        torch.nn.init.normal_(layer.log_beta, std=0.3)  # as if training had found temperatures
    exported = export_transformer(model, pad=pad)
    x = torch.randn(2, 32, dim)
    with torch.no_grad():
        difference = (exported(inputs_embeds=x).last_hidden_state - model(x)).abs().max().item()
    config = exported.config
    print(f"{type(config).__name__}: hidden_size={config.hidden_size} heads={heads} head_dim={config.head_dim}")
    print(f"parameters: {sum(p.numel() for p in model.parameters()):,} here, ", end="")
    print(f"{sum(p.numel() for p in exported.parameters()):,} there (its feed-forward has a gate)")
    print(f"largest difference of the outputs: {difference:.1e}")
    if out is not None:
        exported.save_pretrained(out)
        print(f"wrote {out}; try: rankwise audit {out}")
    return difference


if __name__ == "__main__":
    try:
        tyro.cli(main)
    except RankwiseError as error:
        raise SystemExit(f"error: {error}") from None
