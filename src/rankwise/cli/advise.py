"""``rankwise advise``: what rank and how many heads, why, and how sure that is."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Literal

from rankwise.cli.output import console, print_json, short

if TYPE_CHECKING:
    from rankwise.advise.advice import Advice
    from rankwise.advise.resources import Resources


def advise(
    *,
    config: Path | None = None,
    audit: Path | None = None,
    need: Path | None = None,
    dim: int | None = None,
    heads: int | None = None,
    kv_heads: int | None = None,
    rank: int | None = None,
    value_rank: int | None = None,
    layers: int | None = None,
    length: int | None = None,
    mask: Literal["full", "causal", "window"] | None = None,
    window: int | None = None,
    qk_norm: bool | None = None,
    target: float | None = None,
    dtype: Literal["float32", "bfloat16", "float16", "float8", "int8"] = "bfloat16",
    json: bool = False,
) -> None:
    """What to change about rank and heads: the need, the plateau, the costs, and at most three suggestions.

    Each suggestion says its reason, how sure it is (theorem, our derivation, heuristic, measurement) and what it does
    not prove. Numbers given here win over those of the files.

    Example: rankwise advise --config config.json --need need.json

    Example: rankwise advise --dim 768 --heads 12 --length 1024

    Args:
        config: A Hugging Face config.json, or the folder that holds it.
        audit: What rankwise audit wrote with -o.
        need: What rankwise need wrote with -o; without it the need is that of isotropic data, the worst case.
        dim: Model dimension.
        heads: Query heads of a layer.
        kv_heads: Heads with keys and values of their own (default: all).
        rank: Query-key dimension of a head (default: dim / heads).
        value_rank: Value dimension of a head (default: the rank).
        layers: Number of layers.
        length: Tokens of a sequence (default: the config's, else 1024).
        mask: What a token sees (default: the audit's, else causal).
        window: Width of the window, for --mask window.
        qk_norm: Keys have a norm of their own in each head, as in Qwen3 or Gemma 3.
        target: The error that counts as good enough (default: the need file's, else 0.1).
        dtype: Type of cached keys and values.
        json: Print one JSON object instead of text.
    """
    from rankwise.advise.advice import advice_document
    from rankwise.advise.advice import advise as advise_about
    from rankwise.advise.inputs import situation
    from rankwise.audit.report import read_report
    from rankwise.need.document import read_need

    advice = advise_about(
        situation(
            config=config, audit=None if audit is None else read_report(audit),
            need=None if need is None else read_need(need), dim=dim, heads=heads, kv_heads=kv_heads, rank=rank,
            value_rank=value_rank, layers=layers, length=length, mask=mask, window=window, qk_norm=qk_norm,
            target=target, dtype=dtype,
        )
    )  # fmt: skip
    if json:
        print_json(advice_document(advice))
    else:
        print_advice(advice)


def print_advice(advice: Advice) -> None:
    """Everything on stdout; names from files never act as markup."""
    from rich.table import Table
    from rich.text import Text

    from rankwise.advise.advice import resources_of

    out = console()
    of, shape = advice.situation, advice.situation.shape
    sees = f"window of {of.window}" if of.mask == "window" else f"{of.mask} mask"
    title = (
        f"{shape.name}: dim {shape.dim:,}, {shape.heads} heads of rank {shape.rank} (H r / d = {shape.rank_share:.3g})"
    )
    out.print(Text(title, style="bold"))
    out.print(Text(f"{of.length:,} tokens, {sees}, {'unit' if of.qk_norm else 'ordinary'} keys, target {of.target:g}"))
    for warning in advice.warnings:
        out.print(Text(f"! {warning}"))
    out.print()
    table = Table("what", "rank", "status", box=None, padding=(0, 2, 0, 0), header_style="bold")
    if of.need is not None:
        span = f"{of.need.rank} ({of.need.low}-{of.need.high})"
        table.add_row("need, measured", span, Text(f"measurement: {of.need.name}, {of.need.candidates} keys"))
    table.add_row("need, isotropic data", str(advice.need_isotropic), "our derivation: the worst case, any values")
    table.add_row("plateau", str(advice.plateau.value), f"random heads, {advice.plateau.status}")
    low, high = advice.published_ranks
    near = ", ".join(f"{one.name} {one.heads} x {one.rank} (d {one.dim:,})" for one in advice.published)
    table.add_row("published", f"{low}-{high}", Text(f"nearest: {near}"))
    for one in advice.roundings:
        tile = "beyond flash kernels" if one.tile is None else f"flash tile {one.tile}"
        table.add_row("the need, rounded", str(one.rank), f"{tile}, {one.parameters - 1:+.0%} attention weights")
    out.print(table)
    out.print(Text(f"\nCosts: {_resources(advice.resources)}"))
    for number, tip in enumerate(advice.suggestions, 1):
        out.print(Text(f"\n{number}. {tip.what}", style="bold"))
        out.print(Text(f"   Why: {tip.reason}"))
        out.print(Text(f"   Confidence: {tip.confidence}. It does not prove {tip.does_not_prove}"))
        if tip.shape is not None:
            out.print(Text(f"   Then: {_resources(resources_of(advice, tip.shape))}"))


def _resources(of: Resources) -> str:
    cache = "unknown (layers differ)" if of.kv_bytes is None else f"{short(of.kv_bytes)}B"
    token = "" if of.kv_bytes_per_token is None else f" ({short(of.kv_bytes_per_token)}B a token)"
    return (
        f"{short(of.parameters)} attention weights, {short(of.flops_per_token)}FLOP a token at full length, "
        f"KV cache {cache}{token}"
    )
