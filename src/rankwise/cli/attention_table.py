"""Attention on texts as a person reads it: against chance first, a row per layer, the heads to look at."""

from __future__ import annotations

import statistics
from collections.abc import Iterator

from rich.table import Table
from rich.text import Text

from rankwise.audit import AttentionOfHead, AttentionOfLayer, AttentionReport
from rankwise.cli.output import console, print_line
from rankwise.cli.sanity_lines import print_sanity

_NAMED = 3
_ROOMY = 120  # columns of a terminal


def print_attention(attention: AttentionReport) -> None:
    """A headline, a row per layer, the heads to look at, what the columns mean."""
    out = console()
    print_line("")
    for line in _headline(attention):
        print_line(line, bold=True)
    roomy = out.width >= _ROOMY
    out.print(_table(attention, roomy))
    if not roomy:
        print_line("A wider terminal shows random heads, ranks without the sink and of logits too.")
    for line in _details(attention):
        print_line(line)
    print_sanity(attention.sanity)


def _heads(attention: AttentionReport) -> list[tuple[AttentionOfLayer, AttentionOfHead]]:
    return [(layer, head) for layer in attention.layers for head in layer.heads]


def _share(layer: AttentionOfLayer, head: AttentionOfHead) -> float:
    return float(head.mean["hardmax_rank"]) / float(layer.baseline.barrier)


def _headline(attention: AttentionReport) -> Iterator[str]:
    heads = _heads(attention)
    median = statistics.median(_share(layer, head) for layer, head in heads)
    above = sum(_share(layer, head) >= 1 for layer, head in heads)
    texts = attention.texts
    yield (
        f"On {texts} text{'s' * (texts != 1)} of {attention.tokens} tokens the median head's attention has "
        f"{median:.0%} of the hardmax rank of rows that pick at random under its mask; {above} of {len(heads)} heads "
        f"reach it."
    )


def _table(attention: AttentionReport, roomy: bool) -> Table:
    table = Table(box=None, padding=(0, 2, 0, 0), header_style="bold")
    rows = [dict(_cells(layer, roomy)) for layer in attention.layers]
    for name in rows[0]:
        table.add_column(name, justify="left" if name in ("layer", "mask") else "right", no_wrap=True)
    for row in rows:
        table.add_row(*(Text(cell) for cell in row.values()))
    return table


def _cells(layer: AttentionOfLayer, roomy: bool) -> Iterator[tuple[str, str]]:
    """Names of columns and what stands there."""

    def values(name: str) -> list[float]:
        return [head.mean[name] for head in layer.heads if name in head.mean]

    def mean(name: str, form: str = "{:.1f}") -> str:
        found = values(name)
        return form.format(statistics.mean(found)) if found else "-"

    ranks, baseline = values("hardmax_rank"), layer.baseline
    yield "layer", f"{layer.index}{' cross' * layer.cross_attention}"
    yield "mask", layer.mask if layer.window is None else f"{layer.mask} {layer.window}"
    yield "hardmax rank\nmean (least - most)", f"{statistics.mean(ranks):.1f} ({min(ranks):.0f} - {max(ranks):.0f})"
    yield "barrier", f"{baseline.barrier:.1f}"
    if roomy:
        yield "random\nhead", "-" if baseline.random_head is None else f"{baseline.random_head:.1f}"
        yield "no sink\nmean", mean("hardmax_rank_without_sink")
        yield "effective\nrank", mean("effective_rank")
        yield "logits\n90 %", mean("logits_energy_90")
    yield "entropy\nof most", f"{statistics.mean(values('entropy')) / max(baseline.uniform_entropy, 1e-9):.0%}"
    yield "sink\nshare", mean("sink_share", "{:.0%}")
    fixed = [head.fixed_share for head in layer.heads if head.fixed_share is not None]
    yield "fixed\npattern", f"{statistics.mean(fixed):.0%}" if fixed else "-"


def _details(attention: AttentionReport) -> Iterator[str]:
    ordered = sorted(_heads(attention), key=lambda pair: _share(*pair))
    named = min(_NAMED, len(ordered) // 2) or 1
    yield ""
    yield "Least: " + "; ".join(_named(*pair) for pair in ordered[:named]) + "."
    yield "Most:  " + "; ".join(_named(*pair) for pair in reversed(ordered[-named:])) + "."
    for remark in dict.fromkeys(layer.remark for layer in attention.layers if layer.remark):
        yield f"Note: {remark}."
    if attention.texts == 1:
        yield "Note: one text has no fixed pattern; give more text to separate pattern from content."
    yield (
        "Hardmax rank: distinct keys that are some row's favourite. Barrier: its mean if rows pick at random among the "
        "keys they see (.632 n full, .5 n causal); random head: independent Gaussian queries and keys of this head "
        "dimension. No sink: without the first column. Logits 90 %: components that hold 90 % of the squared logits. "
        "Entropy: of the largest possible. Sink share: of all attention, what goes to the first token. Fixed pattern: "
        "the share of attention's deviation from uniform that is the same in every text; the rest depends on content."
    )


def _named(layer: AttentionOfLayer, head: AttentionOfHead) -> str:
    spread = head.spread["hardmax_rank"]
    around = "" if spread is None else f" +- {spread:.1f}"
    return (
        f"layer {layer.index} head {head.head} {head.mean['hardmax_rank']:.1f}{around} of barrier "
        f"{layer.baseline.barrier:.1f}"
    )
